"""Softmax and its logarithm, some rows at a time; half types in float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

from ..memory import empty
from .blocks import row_blocks
from .elementwise import is_half

Array = np.ndarray[Any, Any]


def _softmax(op: Op, x: Array) -> Array:
    out = empty(x.shape, np.float32 if is_half(x) else x.dtype, op)
    for source, part in _parts(x, out, op.attributes["axis"]):
        np.subtract(source, source.max(axis=1, keepdims=True), out=part)
        np.exp(part, out=part)
        part /= part.sum(axis=1, keepdims=True)
    return out.astype(x.dtype, copy=False)


def _log_softmax(op: Op, x: Array) -> Array:
    out = empty(x.shape, np.float32 if is_half(x) else x.dtype, op)
    for source, part in _parts(x, out, op.attributes["axis"]):
        np.subtract(source, source.max(axis=1, keepdims=True), out=part)
        part -= np.log(np.exp(part).sum(axis=1, keepdims=True))
    return out.astype(x.dtype, copy=False)


def _parts(x: Array, out: Array, axis: int) -> Iterator[tuple[Array, Array]]:
    """Parts of both as (stack, axis, the axes behind it), in the dtype of the result."""
    if not x.size:
        return
    size, behind = x.shape[axis], math.prod(x.shape[axis + 1 :])
    flat = (-1, size, behind) if behind > 1 else (-1, size)
    source, target = x.reshape(flat), out.reshape(flat)
    for rows in row_blocks(len(source), size * behind):
        yield source[rows].astype(out.dtype, copy=False), target[rows]


KERNELS: dict[str, Callable[..., Any]] = {"softmax": _softmax, "log_softmax": _log_softmax}
