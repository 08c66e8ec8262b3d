"""How often a classifier is right, and what it takes for what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.argument_checks import whole
from ingle.tensor.errors import ShapeError

from .base import Mean, Metric, check_classes, check_range


class Accuracy(Mean):
    """The share of samples whose largest output is that of their class.

    Outputs have the classes on their last axis, targets are class numbers.

    >>> import ingle.tensor as it
    >>> from ingle.train import Accuracy
    >>> accuracy = Accuracy()
    >>> accuracy.update(it.asarray([[0.1, 0.9], [0.8, 0.2]]), it.asarray([1, 1]), 0.0)
    >>> accuracy.compute()
    0.5
    """

    name = "accuracy"

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        check_classes("Accuracy", outputs, targets)
        hits = it.argmax(outputs, axis=-1) == targets
        self.total += int(it.count_nonzero(hits))
        self.count += targets.size


class TopKAccuracy(Mean):
    """The share of samples whose class is among the `k` largest outputs.

    Of equal outputs, that of the lower class number counts as the larger.

    >>> import ingle.tensor as it
    >>> from ingle.train import TopKAccuracy
    >>> top2 = TopKAccuracy(2)
    >>> top2.update(it.asarray([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]]), it.asarray([1, 0]), 0.0)
    >>> top2.name, top2.compute()
    ('top2', 0.5)
    """

    def __init__(self, k: int = 5) -> None:
        self.k = whole("TopKAccuracy", "k", k, least=1)
        self.name = f"top{k}"
        super().__init__()

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        check_classes("TopKAccuracy", outputs, targets)
        scores, wanted = outputs.numpy(), targets.numpy()[..., None]
        check_range("TopKAccuracy", outputs.shape[-1], wanted)
        own = np.take_along_axis(scores, wanted, axis=-1)
        classes = np.arange(scores.shape[-1])
        before = (scores > own) | ((scores == own) & (classes < wanted))
        self.total += int(np.sum(before.sum(axis=-1) < self.k))
        self.count += targets.size


class ConfusionMatrix(Metric):
    """How often each class (row) was taken for each (column).

    Args:
        classes: how many there are.

    >>> import ingle.tensor as it
    >>> from ingle.train import ConfusionMatrix
    >>> matrix = ConfusionMatrix(2)
    >>> matrix.update(it.asarray([[0.1, 0.9], [0.8, 0.2]]), it.asarray([1, 1]), 0.0)
    >>> matrix.compute().tolist()
    [[0, 0], [1, 1]]
    """

    name = "confusion"

    def __init__(self, classes: int) -> None:
        self.classes = whole("ConfusionMatrix", "classes", classes, least=1)
        self.reset()

    def reset(self) -> None:
        self.counts = np.zeros((self.classes, self.classes), np.int64)

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        check_classes("ConfusionMatrix", outputs, targets)
        if outputs.shape[-1] != self.classes:
            raise ShapeError(
                f"ConfusionMatrix: made for {self.classes} classes, but the outputs have "
                f"{outputs.shape[-1]}; give ConfusionMatrix({outputs.shape[-1]})"
            )
        check_range("ConfusionMatrix", self.classes, targets.numpy())
        guesses = it.argmax(outputs, axis=-1).numpy()
        np.add.at(self.counts, (targets.numpy().ravel(), guesses.ravel()), 1)

    def compute(self) -> np.ndarray:
        return self.counts.copy()

    def state(self) -> dict[str, Any]:
        return {"counts": self.counts.tolist()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.counts = np.array(state["counts"], np.int64)
