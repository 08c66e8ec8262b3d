"""Kernels that see the values of class numbers and row numbers, and so can say which is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.operation import Op

Array = np.ndarray[Any, Any]


def checked(name: str, what: str, indices: Array, size: int, sizes: str) -> Array:
    """Indices in [0, size) as NumPy's own index type; raises with the first one that is not."""
    wrong = (indices < 0) | (indices >= size)
    if wrong.any():
        public = name.removesuffix("_training")
        raise OutOfRangeError(
            f"{public}: {what} holds {int(indices[wrong].flat[0])}, but there are {size} {sizes}: "
            + (f"valid are 0 to {size - 1}" if size else "none is valid")
        )
    return indices.astype(np.intp, copy=False)


def _embedding(op: Op, indices: Array, weight: Array) -> Array:
    rows = checked("embedding", "indices", indices, weight.shape[0], "rows")
    return np.take(weight, rows, axis=0)


def _cross_entropy_training(
    op: Op, logits: Array, target: Array, weight: Array, ignore_index: Any
) -> tuple[Array, Array, Array]:
    axis = 0 if logits.ndim == 1 else 1
    scores = logits.astype(np.float32) if logits.dtype.itemsize == 2 else logits
    top = np.max(scores, axis=axis, keepdims=True)
    top[~np.isfinite(top)] = 0
    lse = np.log(np.sum(np.exp(scores - top), axis=axis)) + np.squeeze(top, axis)
    safe, counts = _targets(op, scores, target, weight, ignore_index, axis)
    loss = np.where(target == ignore_index, 0, (lse - _picked(scores, safe, axis)) * counts)
    smoothing = op.attributes["label_smoothing"]
    if smoothing:
        each = np.moveaxis(np.expand_dims(lse, axis) - scores, axis, -1) * weight
        smooth = np.where(target == ignore_index, 0, np.sum(each, axis=-1) / scores.shape[axis])
        loss = loss * (1 - smoothing) + smooth * smoothing
    loss, total = loss.astype(scores.dtype), np.sum(counts, dtype=scores.dtype)
    out = _reduced(op, loss, total).astype(logits.dtype)
    return out, np.asarray(lse, scores.dtype), np.asarray(total)


def _cross_entropy(op: Op, *arrays: Any) -> Array:
    return _cross_entropy_training(op, *arrays)[0]


def _nll_loss(op: Op, x: Array, target: Array, weight: Array, ignore_index: Any) -> Array:
    axis = 0 if x.ndim == 1 else 1
    scores = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    safe, counts = _targets(op, scores, target, weight, ignore_index, axis)
    kept = target != ignore_index
    loss = np.where(kept, -_picked(scores, safe, axis) * counts, 0).astype(scores.dtype)
    return _reduced(op, loss, np.sum(counts, dtype=scores.dtype)).astype(x.dtype)


def _targets(
    op: Op, scores: Array, target: Array, weight: Array, ignore_index: Any, axis: int
) -> tuple[Array, Array]:
    """Class numbers, 0 where they are ignored, and how much each target counts."""
    kept = target != ignore_index
    whole = np.asarray(np.where(kept, target, 0))
    safe = checked(op.operation.name, "target", whole, scores.shape[axis], "classes")
    each = np.asarray(weight).astype(scores.dtype)
    counts = np.where(kept, each[safe] if each.ndim else each, scores.dtype.type(0))
    return safe, counts


def _picked(scores: Array, classes: Array, axis: int) -> Array:
    found = np.take_along_axis(scores, np.expand_dims(classes, axis), axis)
    return np.asarray(np.squeeze(found, axis))


def _reduced(op: Op, loss: Array, total: Any) -> Array:
    reduction = op.attributes["reduction"]
    if reduction == "none":
        return loss
    summed = np.sum(loss, dtype=loss.dtype)
    return np.asarray(summed / total if reduction == "mean" else summed)


KERNELS: dict[str, Callable[..., Any]] = {
    "cross_entropy": _cross_entropy,
    "cross_entropy_training": _cross_entropy_training,
    "embedding": _embedding,
    "nll_loss": _nll_loss,
}
