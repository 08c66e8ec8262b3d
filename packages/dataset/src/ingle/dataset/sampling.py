"""Drawing samples by weight, the same on every machine with the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .base import Indices
from .errors import DataValueError
from .ordering import as_seed, uniforms


def balancing_weights(labels: ArrayLike) -> NDArray[np.float64]:
    """Weights by which every class is drawn equally often: one over the size of its class.

    Args:
        labels: the class of each sample, shape (n,), of any kind that sorts.

    Returns:
        Weights of shape (n,), float64, that sum to the number of classes.

    Raises:
        DataValueError: the labels are no row.

    >>> from ingle.dataset import balancing_weights
    >>> balancing_weights([0, 0, 0, 0, 1]).tolist()
    [0.25, 0.25, 0.25, 0.25, 1.0]
    """
    found = np.asarray(labels)
    if found.ndim != 1:
        raise DataValueError(
            f"balancing_weights: labels must be one for each sample, shape (n,), got {found.shape}"
        )
    _, member, sizes = np.unique(found, return_inverse=True, return_counts=True)
    weights: NDArray[np.float64] = 1.0 / sizes[member]
    return weights


def checked_weights(weights: ArrayLike, samples: int, name: str) -> NDArray[np.float64]:
    """Weights as float64 of shape (samples,), not negative, not all zero."""
    found: NDArray[Any] = np.asarray(weights)
    if found.shape != (samples,) or found.dtype.kind not in "biuf":
        raise DataValueError(
            f"{name}: weights must be one number for each of the {samples} samples, got "
            f"{found.dtype} of shape {found.shape}"
        )
    wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if wrong.size:
        raise DataValueError(
            f"{name}: weights must be finite and not negative, got {found[wrong[0]]} for sample "
            f"{wrong[0]} ({wrong.size} of {samples} are wrong)"
        )
    if not found.any():
        raise DataValueError(f"{name}: all {samples} weights are zero; one must be above it")
    return found.astype(np.float64)


def drawn(
    weights: ArrayLike,
    samples: int,
    count: int,
    seed: int,
    stream: int = 0,
    *,
    replacement: bool = True,
) -> Indices:
    """Positions of `count` samples, each drawn with a chance in proportion to its weight.

    With replacement by inverting the cumulative weights. Without it, samples are those with the
    largest `log(u) / weight` (Efraimidis and Spirakis, "Weighted random sampling with a
    reservoir", 2006), which is drawing one after the other from what is left.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise DataValueError(f"sample: count must be an integer of at least 0, got {count!r}")
    seed = as_seed(seed, "sample")
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    if samples == 0:
        raise DataValueError(f"sample: the dataset has no samples to draw {count} from")
    checked = checked_weights(weights, samples, "sample")
    if replacement:
        ends = np.cumsum(checked / checked.max())
        last = int(np.flatnonzero(checked)[-1])
        found = np.searchsorted(ends, uniforms(count, seed, stream) * ends[-1], side="right")
        # Rounding may carry a draw to the very end, where samples of weight zero may lie.
        within: Indices = np.minimum(found, last).astype(np.int64)
        return within
    likely = np.flatnonzero(checked)
    if count > len(likely):
        raise DataValueError(
            f"sample: {count} samples were asked for, and {len(likely)} of {samples} have a weight "
            "above zero; draw fewer, or with replacement=True"
        )
    # 1 - u is above zero, whose logarithm is finite.
    keys = np.log(1.0 - uniforms(samples, seed, stream)[likely]) / checked[likely]
    chosen: Indices = likely[np.argsort(-keys, kind="stable")[:count]].astype(np.int64)
    return chosen
