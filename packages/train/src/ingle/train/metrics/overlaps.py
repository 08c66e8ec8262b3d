"""Shares of what was found and what was there: precision, recall, F, Dice, IoU, Hamming."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.argument_checks import number
from ingle.tensor.errors import ArgumentError, ShapeError

from .base import Counts, Doubles, Mean, Metric, check_range, check_same, seen, tensors_only

Average = Literal["macro", "micro", "weighted"]


class _Overlap(Metric):
    """Counts hits, false alarms and misses of each class; what is made of them derives."""

    def __init__(
        self,
        *,
        average: Average | None = "macro",
        threshold: float | None = None,
        axis: int = -1,
        ignore: int | None = None,
    ) -> None:
        if average not in ("macro", "micro", "weighted", None):
            raise ArgumentError(
                f"{type(self).__name__}: average must be 'macro', 'micro', 'weighted' or None, "
                f"got {average!r}"
            )
        self.average = average
        self.threshold = threshold
        self.axis = axis
        self.ignore = ignore
        self.reset()

    def reset(self) -> None:
        self.counts: Counts = np.zeros((3, 0), np.int64)

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        name = type(self).__name__
        tensors_only(name, outputs, targets)
        counts = self._labels(outputs, targets) if self.threshold is not None else None
        if counts is None:
            counts = self._classes(outputs, targets)
        if not self.counts.size:
            self.counts = np.zeros_like(counts)
        if counts.shape != self.counts.shape:
            raise ShapeError(
                f"{name}: there were {self.counts.shape[1]} classes until now, these outputs, "
                f"{seen(outputs)}, have {counts.shape[1]}; use one metric for each kind of output"
            )
        self.counts = self.counts + counts

    def _classes(self, outputs: Tensor, targets: Tensor) -> Counts:
        name = type(self).__name__
        rank = len(outputs.shape)
        axis = self.axis + rank if self.axis < 0 else self.axis
        fits = 0 <= axis < rank and outputs.shape[:axis] + outputs.shape[axis + 1 :] == (
            targets.shape
        )
        if not fits or not targets.dtype.is_integer:
            raise ShapeError(
                f"{name}: needs outputs with the classes on axis {self.axis} and integer targets "
                f"of their shape without it, got {seen(outputs)} and {seen(targets)}; give "
                "axis=1 for images with channels first, threshold=0.0 for logits of labels that "
                "are each true or false"
            )
        classes = outputs.shape[axis]
        wanted = targets.numpy().ravel().astype(np.int64)
        guesses = it.argmax(outputs, axis=axis).numpy().ravel().astype(np.int64)
        if self.ignore is not None:
            kept = wanted != self.ignore
            wanted, guesses = wanted[kept], guesses[kept]
        check_range(name, classes, wanted)
        hits = np.bincount(wanted[wanted == guesses], minlength=classes)
        found = np.bincount(guesses, minlength=classes)
        there = np.bincount(wanted, minlength=classes)
        return np.stack([hits, found - hits, there - hits])

    def _labels(self, outputs: Tensor, targets: Tensor) -> Counts:
        check_same(type(self).__name__, outputs, targets)
        width = outputs.shape[-1] if len(outputs.shape) > 1 else 1
        found = (outputs.numpy() > self.threshold).reshape(-1, width)
        there = truths(type(self).__name__, targets).reshape(-1, width)
        return np.stack(
            [(found & there).sum(0), (found & ~there).sum(0), (~found & there).sum(0)]
        ).astype(np.int64)

    def _share(self, hits: Doubles, alarms: Doubles, misses: Doubles) -> tuple[Doubles, Doubles]:
        """Numerator and denominator of what the metric is."""
        raise NotImplementedError

    def compute(self) -> Any:
        """A float; an array with one for each class if `average` is None."""
        hits, alarms, misses = self.counts.astype(np.float64)
        if self.average == "micro":
            hits, alarms, misses = (part.sum(keepdims=True) for part in (hits, alarms, misses))
        above, below = self._share(hits, alarms, misses)
        each = np.divide(above, below, out=np.zeros_like(above), where=below != 0)
        if self.average is None:
            return each
        there = hits + misses
        weights = there if self.average == "weighted" else (there + alarms > 0).astype(np.float64)
        return float((each * weights).sum() / weights.sum()) if weights.sum() else float("nan")

    def state(self) -> dict[str, Any]:
        return {"counts": self.counts.tolist()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.counts = np.array(state["counts"], np.int64).reshape(3, -1)


class FBeta(_Overlap):
    """F-beta, (1 + b**2) TP / ((1 + b**2) TP + b**2 FN + FP) (van Rijsbergen, 1979).

    It is called "f1" in records for a `beta` of 1. `beta` says how many times recall weighs as
    much as precision.

    Outputs hold the classes on `axis`, of which the largest is the guess, and targets are class
    numbers; or, with a `threshold`, outputs are scores of labels on the last axis, each true or
    false, and targets of the same shape are bool or 0 and 1 (one axis is one label). Counts are
    exact over all batches. A class that is divided by 0 counts as 0.

    Args:
        beta: how much recall weighs; positive.
        average: "macro" is the mean over the classes that were there or guessed; "weighted"
            weighs it by how often they were there; "micro" counts all classes together; None
            gives an array with a value for each class.
        threshold: scores above it are guesses: 0.0 for logits, 0.5 for probabilities.
        axis: that of the classes; 1 for images with channels first.
        ignore: a target that stands for no class.

    Raises:
        ShapeError: outputs and targets do not fit as said.
        ArgumentError: a target is no class, or no truth.

    >>> import ingle.tensor as it
    >>> from ingle.train import FBeta
    >>> f2 = FBeta(2.0, threshold=0.5)
    >>> f2.update(it.asarray([0.9, 0.8, 0.1]), it.asarray([1, 0, 0]), 0.0)
    >>> f2.name, round(f2.compute(), 4)
    ('f2', 0.8333)
    """

    def __init__(
        self,
        beta: float = 1.0,
        *,
        average: Average | None = "macro",
        threshold: float | None = None,
        axis: int = -1,
        ignore: int | None = None,
    ) -> None:
        if not number("FBeta", "beta", beta) > 0:
            raise ArgumentError(f"FBeta: beta must be positive, got {beta}")
        self.beta = beta
        self.name = f"f{beta:g}"
        super().__init__(average=average, threshold=threshold, axis=axis, ignore=ignore)

    def _share(self, hits: Doubles, alarms: Doubles, misses: Doubles) -> tuple[Doubles, Doubles]:
        square = self.beta**2
        return (1 + square) * hits, (1 + square) * hits + square * misses + alarms


class Precision(_Overlap):
    """Of what was taken for a class, the share that is of it: TP / (TP + FP).

    Outputs, targets, arguments and errors are those of `FBeta`.

    >>> import ingle.tensor as it
    >>> from ingle.train import Precision
    >>> precision = Precision(threshold=0.5)
    >>> precision.update(it.asarray([0.9, 0.8, 0.1]), it.asarray([1, 0, 1]), 0.0)
    >>> precision.compute()
    0.5
    """

    name = "precision"

    def _share(self, hits: Doubles, alarms: Doubles, misses: Doubles) -> tuple[Doubles, Doubles]:
        return hits, hits + alarms


class Recall(_Overlap):
    """Of what is of a class, the share that was taken for it: TP / (TP + FN).

    Outputs, targets, arguments and errors are those of `FBeta`.

    >>> import ingle.tensor as it
    >>> from ingle.train import Recall
    >>> recall = Recall(average=None)
    >>> recall.update(it.asarray([[0.1, 0.9], [0.8, 0.2]]), it.asarray([1, 1]), 0.0)
    >>> recall.compute().tolist()
    [0.0, 0.5]
    """

    name = "recall"

    def _share(self, hits: Doubles, alarms: Doubles, misses: Doubles) -> tuple[Doubles, Doubles]:
        return hits, hits + misses


class IoU(_Overlap):
    """Intersection over union, or the Jaccard index: TP / (TP + FP + FN).

    Outputs, targets, arguments and errors are those of `FBeta`.

    >>> import ingle.tensor as it
    >>> from ingle.train import IoU
    >>> iou = IoU(axis=1)
    >>> image = it.asarray([[[[0.9, 0.2]], [[0.1, 0.8]]]])  # 1 image, 2 classes, 1 by 2 pixels
    >>> iou.update(image, it.asarray([[[0, 0]]]), 0.0)
    >>> iou.compute()
    0.25
    """

    name = "iou"

    def _share(self, hits: Doubles, alarms: Doubles, misses: Doubles) -> tuple[Doubles, Doubles]:
        return hits, hits + alarms + misses


class Dice(_Overlap):
    """The Dice coefficient, 2 TP / (2 TP + FP + FN): F1 of pixels.

    Outputs, targets, arguments and errors are those of `FBeta`.

    >>> import ingle.tensor as it
    >>> from ingle.train import Dice
    >>> dice = Dice(threshold=0.5)
    >>> dice.update(it.asarray([0.9, 0.8, 0.1]), it.asarray([1, 0, 0]), 0.0)
    >>> round(dice.compute(), 4)
    0.6667
    """

    name = "dice"

    def _share(self, hits: Doubles, alarms: Doubles, misses: Doubles) -> tuple[Doubles, Doubles]:
        return 2 * hits, 2 * hits + alarms + misses


class HammingLoss(Mean):
    """The share of labels, each true or false, that are wrong.

    Args:
        threshold: outputs above it are guessed true: 0.0 for logits, 0.5 for probabilities.

    Raises:
        ShapeError: outputs and targets differ in shape.
        ArgumentError: targets are neither bool nor 0 and 1.

    >>> import ingle.tensor as it
    >>> from ingle.train import HammingLoss
    >>> wrong = HammingLoss()
    >>> wrong.update(it.asarray([[3.0, -1.0], [-2.0, 0.5]]), it.asarray([[1, 0], [1, 1]]), 0.0)
    >>> wrong.compute()
    0.25
    """

    name = "hamming"

    def __init__(self, threshold: float = 0.0) -> None:
        self.threshold = threshold
        super().__init__()

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        check_same("HammingLoss", outputs, targets)
        found = outputs.numpy() > self.threshold
        self.total += int((found != truths("HammingLoss", targets)).sum())
        self.count += targets.size


def truths(name: str, targets: Tensor) -> np.ndarray:
    """Targets that are true or false, as bool."""
    array = targets.numpy()
    if array.dtype == bool:
        return array
    wrong = array[(array != 0) & (array != 1)]
    if wrong.size:
        raise ArgumentError(
            f"{name}: targets must be bool, or 0 and 1, got {seen(targets)} with {wrong[0]}; "
            "compare soft targets first, as with targets > 0.5"
        )
    return array.astype(bool)
