"""Numbers that say how well a model does, gathered over batches."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError, ShapeError


class Metric:
    """Derive from it, keep what was gathered in plain numbers, and write three methods.

    Attributes:
        name: what it is called in records: "train/NAME", "valid/NAME".
        gathered: names of the attributes that make up its state.
    """

    name: str = ""
    gathered: tuple[str, ...] = ()

    def reset(self) -> None:
        """Forgets everything gathered."""
        raise NotImplementedError

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        """Takes in one batch: what the model gave, what it should have given, the mean loss."""
        raise NotImplementedError

    def compute(self) -> Any:
        """The value over all that was gathered: a float, or an array for what is no number."""
        raise NotImplementedError

    def fresh(self) -> Self:
        """A copy that has gathered nothing."""
        new = copy.copy(self)
        new.reset()
        return new

    def state(self) -> dict[str, Any]:
        """What was gathered, as values that JSON can hold without loss."""
        return {key: getattr(self, key) for key in self.gathered}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes back what `state` gave."""
        for key in self.gathered:
            setattr(self, key, state[key])


class _Mean(Metric):
    gathered = ("total", "count")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.total = 0.0
        self.count = 0

    def compute(self) -> float:
        return self.total / self.count if self.count else float("nan")


class MeanLoss(_Mean):
    """The mean loss over all samples; NaN before the first."""

    name = "loss"

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        count = outputs.shape[0] if outputs.shape else 1
        self.total += loss * count
        self.count += count


class Accuracy(_Mean):
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
        _check_classes("Accuracy", outputs, targets)
        hits = it.argmax(outputs, axis=-1) == targets
        self.total += int(it.count_nonzero(hits))
        self.count += targets.size


class TopKAccuracy(_Mean):
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
        if k < 1:
            raise ArgumentError(f"TopKAccuracy: k must be at least 1, got {k}")
        self.k = k
        self.name = f"top{k}"
        super().__init__()

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        _check_classes("TopKAccuracy", outputs, targets)
        scores, wanted = outputs.numpy(), targets.numpy()[..., None]
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
        self.classes = classes
        self.reset()

    def reset(self) -> None:
        self.counts = np.zeros((self.classes, self.classes), np.int64)

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        _check_classes("ConfusionMatrix", outputs, targets)
        if outputs.shape[-1] != self.classes:
            raise ShapeError(
                f"ConfusionMatrix: made for {self.classes} classes, but the outputs have "
                f"{outputs.shape[-1]}; give ConfusionMatrix({outputs.shape[-1]})"
            )
        guesses = it.argmax(outputs, axis=-1).numpy()
        np.add.at(self.counts, (targets.numpy().ravel(), guesses.ravel()), 1)

    def compute(self) -> np.ndarray:
        return self.counts.copy()

    def state(self) -> dict[str, Any]:
        return {"counts": self.counts.tolist()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.counts = np.array(state["counts"], np.int64)


def _check_classes(name: str, outputs: Tensor, targets: Tensor) -> None:
    if outputs.shape[:-1] != targets.shape or not targets.dtype.is_integer:
        raise ShapeError(
            f"{name}: needs outputs of shape (..., classes) and integer targets of shape (...), "
            f"got {outputs.dtype}{list(outputs.shape)} and {targets.dtype}{list(targets.shape)}"
        )
