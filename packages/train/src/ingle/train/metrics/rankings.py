"""Whether the right ones score higher, and whether scores mean what they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.argument_checks import whole
from ingle.tensor.errors import ArgumentError, ShapeError

from .base import Doubles, Metric, check_classes, check_range, check_same, doubles, seen
from .overlaps import truths

Truths = NDArray[np.bool_]


class _Ranking(Metric):
    """Keeps all scores, since an exact curve needs them all; what is made of them derives."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.scores: list[Doubles] = []
        self.truths: list[Truths] = []

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        name = type(self).__name__
        if (
            isinstance(outputs, Tensor)
            and isinstance(targets, Tensor)
            and len(outputs.shape) == len(targets.shape) + 1
        ):
            check_classes(name, outputs, targets)
            wanted = targets.numpy().ravel()
            check_range(name, outputs.shape[-1], wanted)
            true = wanted[:, None] == np.arange(outputs.shape[-1])
        else:
            check_same(name, outputs, targets)
            true = truths(name, targets)
        width = outputs.shape[-1] if len(outputs.shape) > 1 else 1
        scores = doubles(outputs).reshape(-1, width)
        if np.isnan(scores).any():
            raise ArgumentError(
                f"{name}: {int(np.isnan(scores).sum())} of {scores.size} scores are NaN, which "
                "have no rank; find where they arise with ingle.tensor.anomaly()"
            )
        if self.scores and self.scores[0].shape[1] != width:
            raise ShapeError(
                f"{name}: there were {self.scores[0].shape[1]} classes until now, these outputs, "
                f"{seen(outputs)}, have {width}; use one metric for each kind of output"
            )
        self.scores.append(scores)
        self.truths.append(true.reshape(-1, width))

    def compute(self) -> float:
        if not self.scores:
            return float("nan")
        scores, true = np.concatenate(self.scores), np.concatenate(self.truths)
        found = [self._of_one(scores[:, c], true[:, c]) for c in range(scores.shape[1])]
        known = [value for value in found if not np.isnan(value)]
        return float(np.mean(known)) if known else float("nan")

    def _of_one(self, scores: Doubles, true: Truths) -> float:
        """The value for one class; NaN where it has none."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        return {
            "scores": [part.tolist() for part in self.scores],
            "truths": [part.tolist() for part in self.truths],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.scores = [np.array(part, np.float64) for part in state["scores"]]
        self.truths = [np.array(part, np.bool_) for part in state["truths"]]


class AUROC(_Ranking):
    """The area under the ROC curve: how often a true sample scores higher than a false one.

    Computed from ranks, ties counting half (Mann and Whitney, 1947), over all batches together.
    Outputs are scores of any scale. With targets of the same shape, bool or 0 and 1, each column
    of the last axis is a label (one axis is one label); with class numbers as targets, each class
    is compared with all others. Of several the value is the mean over those that have true and
    false samples; NaN if none has. All scores are kept: one metric of 1 M scores holds 9 MB.

    Raises:
        ShapeError: outputs and targets do not fit as said.
        ArgumentError: a score is NaN, a target no class or no truth.

    >>> import ingle.tensor as it
    >>> from ingle.train import AUROC
    >>> auroc = AUROC()
    >>> auroc.update(it.asarray([0.1, 0.4, 0.35, 0.8]), it.asarray([0, 0, 1, 1]), 0.0)
    >>> auroc.compute()
    0.75
    """

    name = "auroc"

    def _of_one(self, scores: Doubles, true: Truths) -> float:
        positive, negative = int(true.sum()), int((~true).sum())
        if not positive or not negative:
            return float("nan")
        _, place, ties = np.unique(scores, return_inverse=True, return_counts=True)
        ranks = np.cumsum(ties) - (ties - 1) / 2
        total = float(ranks[place][true].sum())
        return (total - positive * (positive + 1) / 2) / (positive * negative)


class AveragePrecision(_Ranking):
    """The mean precision over the true samples, from the highest score down: sum (R_n - R_n-1) P_n.

    Precision and recall are taken at each distinct score, without interpolation. Outputs, targets
    and errors are those of `AUROC`; a class without true samples is left out of the mean.

    >>> import ingle.tensor as it
    >>> from ingle.train import AveragePrecision
    >>> precision = AveragePrecision()
    >>> precision.update(it.asarray([0.1, 0.4, 0.35, 0.8]), it.asarray([0, 0, 1, 1]), 0.0)
    >>> round(precision.compute(), 4)
    0.8333
    """

    name = "average_precision"

    def _of_one(self, scores: Doubles, true: Truths) -> float:
        if not true.any():
            return float("nan")
        order = np.argsort(-scores, kind="stable")
        falling = scores[order]
        last = np.append(np.flatnonzero(np.diff(falling)), len(falling) - 1)
        hits = np.cumsum(true[order])[last]
        gained = np.diff(hits, prepend=0)
        return float((gained * (hits / (last + 1))).sum() / hits[-1])


class CalibrationError(Metric):
    """How far a classifier's confidence is from how often it is right (Guo et al., 2017).

    The expected calibration error: samples are put into bins of equal width by the probability of
    their guess, and the gaps between each bin's mean probability and its share of right guesses
    are averaged by samples. A probability on an edge belongs to the bin below.

    Args:
        bins: how many.
        logits: whether outputs are logits, of which softmax makes probabilities.
        largest: whether to give the largest gap, the maximum calibration error, instead.

    Raises:
        ShapeError: outputs are not (..., classes), or targets not integers of shape (...).
        ArgumentError: outputs that should be probabilities are not within 0 and 1.

    >>> import ingle.tensor as it
    >>> from ingle.train import CalibrationError
    >>> error = CalibrationError(logits=False)
    >>> error.update(it.asarray([[0.75, 0.25], [0.25, 0.75]]), it.asarray([0, 0]), 0.0)
    >>> error.compute()
    0.25
    """

    name = "calibration_error"

    def __init__(self, bins: int = 15, *, logits: bool = True, largest: bool = False) -> None:
        self.bins = whole("CalibrationError", "bins", bins, least=1)
        self.logits, self.largest = logits, largest
        self.reset()

    def reset(self) -> None:
        self.sums = np.zeros((3, self.bins))

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        check_classes("CalibrationError", outputs, targets)
        wanted = targets.numpy().ravel()
        check_range("CalibrationError", outputs.shape[-1], wanted)
        shares = doubles(it.softmax(outputs, axis=-1) if self.logits else outputs)
        shares = shares.reshape(-1, outputs.shape[-1])
        if not ((shares >= 0) & (shares <= 1 + 1e-6)).all():
            raise ArgumentError(
                f"CalibrationError(logits={self.logits}): probabilities must be within 0 and 1, "
                f"got {shares.min():.4g} to {shares.max():.4g}; give logits=True for logits"
            )
        sure = shares.max(axis=1)
        right = shares.argmax(axis=1) == wanted
        place = np.clip(np.ceil(sure * self.bins).astype(np.int64) - 1, 0, self.bins - 1)
        parts = (np.ones_like(sure), sure, right.astype(np.float64))
        self.sums = self.sums + np.stack(
            [np.bincount(place, weights=part, minlength=self.bins) for part in parts]
        )

    def compute(self) -> float:
        count, sure, right = self.sums
        if not count.sum():
            return float("nan")
        gaps = np.abs(sure - right)
        if self.largest:
            return float((gaps[count > 0] / count[count > 0]).max())
        return float(gaps.sum() / count.sum())

    def state(self) -> dict[str, Any]:
        return {"sums": self.sums.tolist()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.sums = np.array(state["sums"], np.float64)
