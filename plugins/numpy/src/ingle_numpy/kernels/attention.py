"""Attention, as many matrices of scores at a time as a core's cache holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

from ..memory import empty
from .blocks import row_blocks
from .elementwise import is_half
from .selecting import select

Array = np.ndarray[Any, Any]


def _training(
    op: Op, query: Array, key: Array, value: Array, mask: Array, scale: Any
) -> tuple[Array, Array]:
    lead = np.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    q, k, v = (_stacked(_wide(x), lead) for x in (query, key, value))
    rows, columns = q.shape[1], k.shape[1]
    out = empty((len(q), rows, v.shape[2]), q.dtype, op)
    lse = np.empty((len(q), rows), q.dtype)
    seen = np.tri(rows, columns, dtype=np.bool_) if op.attributes["causal"] else None
    shared = mask.size == math.prod(mask.shape[-2:])
    mask = mask.reshape(mask.shape[-2:]) if shared else _stacked(mask, lead)
    for here in row_blocks(len(q), rows * columns):
        scores = np.matmul(q[here], np.swapaxes(k[here], 1, 2))
        scores *= _wide(scale)
        if seen is not None:
            np.copyto(scores, -np.inf, where=~seen)
        scores = _masked(scores, mask if shared else mask[here])
        lse[here] = _exponentials(scores)
        np.matmul(scores, v[here], out=out[here])
    shape = (*lead, rows, v.shape[2])
    return out.reshape(shape).astype(query.dtype, copy=False), lse.reshape(shape[:-1])


def _exponentials(scores: Array) -> Any:
    """Turns scores into shares that sum to 1 in place; returns the logarithms of the sums.

    Where no key may be seen every score is -inf, and so is their maximum: the shares are 0.
    """
    if not scores.shape[-1]:
        return np.full(scores.shape[:-1], -np.inf, scores.dtype)
    top = scores.max(axis=-1, keepdims=True)
    top[~np.isfinite(top)] = 0
    scores -= top
    np.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    scores /= np.where(total == 0, 1, total)
    return (np.log(total) + top)[..., 0]


def _masked(scores: Array, mask: Array) -> Any:
    if not mask.ndim and mask.dtype == np.bool_:
        return scores
    if mask.dtype != np.bool_:
        scores += _wide(mask)
        return scores
    return select(mask, scores, scores.dtype.type(-math.inf))


def _stacked(x: Array, lead: tuple[int, ...]) -> Array:
    """Matrices of a broadcast stack, one after the other."""
    matrix = x.shape[-2:]
    return np.broadcast_to(x, (*lead, *matrix)).reshape(math.prod(lead), *matrix)


def _wide(x: Any) -> Any:
    return x.astype(np.float32) if is_half(x) else x


KERNELS: dict[str, Callable[..., Any]] = {
    "scaled_dot_product_attention": lambda op, *operands: _training(op, *operands)[0],
    "scaled_dot_product_attention_training": _training,
}
