"""Steps of optimizers in one pass: parts that fit a core's cache, and buffers that stay in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

from ..memory import empty

Array = np.ndarray[Any, Any]

_PART = 1 << 15
"""Elements of a part: a handful of arrays of it stay in a core's own cache."""


def _adam(
    op: Op, x: Array, grad: Array, mean: Array, square: Array, *numbers: Any
) -> tuple[Array, ...]:
    out = tuple(empty(x.shape, x.dtype, op) for _ in range(3))
    for part in _parts((x, grad, mean, square, *out)):
        _adam_part(op.attributes["decay"], part, *numbers)
    return out


def _adam_part(
    decay: str, part: Sequence[Array], forget: Any, keep: Any, add: Any, eps: Any, size: Any,
    shrink: Any,
) -> None:  # fmt: skip
    x, grad, mean, square, new_x, new_mean, new_square, t = part
    if decay == "gradient":
        np.multiply(x, shrink, out=new_x)
        grad = np.add(grad, new_x, out=new_x)
    np.subtract(grad, mean, out=t)
    np.multiply(t, forget, out=t)
    np.add(mean, t, out=new_mean)
    np.multiply(grad, grad, out=t)
    np.multiply(t, add, out=t)
    np.multiply(square, keep, out=new_square)
    np.add(new_square, t, out=new_square)
    np.sqrt(new_square, out=t)
    np.add(t, eps, out=t)
    np.divide(new_mean, t, out=t)
    np.multiply(t, size, out=t)
    if decay == "value":
        x = np.multiply(x, shrink, out=new_x)
    np.subtract(x, t, out=new_x)


def _momentum(op: Op, x: Array, grad: Array, buffer: Array, *numbers: Any) -> tuple[Array, ...]:
    out = tuple(empty(x.shape, x.dtype, op) for _ in range(2))
    for part in _parts((x, grad, buffer, *out)):
        _momentum_part(op.attributes["decay"], op.attributes["nesterov"], part, *numbers)
    return out


def _momentum_part(
    decay: str, nesterov: bool, part: Sequence[Array], keep: Any, add: Any, size: Any, shrink: Any
) -> None:
    x, grad, buffer, new_x, new_buffer, t = part
    if decay == "gradient":
        np.multiply(x, shrink, out=new_x)
        grad = np.add(grad, new_x, out=new_x)
    np.multiply(buffer, keep, out=new_buffer)
    np.add(new_buffer, grad if add == 1 else np.multiply(grad, add, out=t), out=new_buffer)
    ahead = new_buffer
    if nesterov:
        np.multiply(new_buffer, keep, out=t)
        ahead = np.add(grad, t, out=t)
    np.multiply(ahead, size, out=t)
    np.subtract(x, t, out=new_x)


def _parts(arrays: Sequence[Array]) -> Iterator[list[Array]]:
    """Flat parts of arrays of one shape, and a buffer of their size."""
    flat = [np.ascontiguousarray(a).reshape(-1) for a in arrays]
    count = flat[0].size
    buffer = np.empty(min(count, _PART), flat[0].dtype)
    if count <= _PART:
        yield [*flat, buffer]
        return
    for start in range(0, count, _PART):
        parts = [a[start : start + _PART] for a in flat]
        yield [*parts, buffer[: parts[0].size]]


KERNELS: dict[str, Callable[..., Any]] = {"adam_update": _adam, "momentum_update": _momentum}
