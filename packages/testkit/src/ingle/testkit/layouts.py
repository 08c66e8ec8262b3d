"""Ways for the same values to lie in memory, each as data: what is stored and how it is viewed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ingle.tensor import Tensor, asarray, broadcast_to, permute_dims
from ingle.tensor.contract import capability
from ingle.tensor.device import backend_of


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array is laid out on a device.

    Attributes:
        fits: for which arrays it makes sense; others are stored as they are.
        stored: the array that is uploaded.
        view: what makes the wanted tensor of it, given the wanted shape.
        text: the same as source text, of the uploaded tensor's text and the wanted shape.
        equal: the values that arrays are given first, where only some can lie like this.
        shared: the array's own memory is used, where the device can, strides and all.
    """

    fits: Callable[[np.ndarray], bool]
    stored: Callable[[np.ndarray], np.ndarray]
    view: Callable[[Tensor, tuple[int, ...]], Tensor]
    text: Callable[[str, tuple[int, ...]], str]
    equal: Callable[[np.ndarray], np.ndarray] | None = None
    shared: bool = False

    def __call__(self, array: np.ndarray, where: str) -> Tensor:
        """A tensor with the array's values on a device."""
        if not self.fits(array):
            return asarray(array, device=where)
        stored = self.stored(array)
        if self.shared and capability(backend_of(where), "adopt"):
            return self.view(asarray(stored, device=where, copy=False), array.shape)
        return self.view(asarray(stored, device=where), array.shape)


def _same(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x


def _as_it_is(text: str, shape: tuple[int, ...]) -> str:
    return text


def _backwards(ndim: int) -> tuple[slice, ...]:
    return (slice(None, None, -1),) * ndim


def _equal_rows(array: np.ndarray) -> np.ndarray:
    """The first row in place of all others."""
    return np.broadcast_to(array[:1], array.shape) if array.ndim and array.size else array


def _has_equal_rows(array: np.ndarray) -> bool:
    return bool(array.size and array.ndim and array.tobytes() == _equal_rows(array).tobytes())


def _windows(array: np.ndarray) -> np.ndarray:
    """Rows that overlap: each begins one element behind the one before, in the same memory."""
    if array.ndim < 2 or not array.size:
        return array
    rows, width = array.shape[-2:]
    line = np.resize(array.reshape(-1), (*array.shape[:-2], rows + width - 1))
    return np.lib.stride_tricks.sliding_window_view(line, width, axis=-1)


def _has_windows(array: np.ndarray) -> bool:
    return array.ndim > 1 and array.size > 0 and array.tobytes() == _windows(array).tobytes()


def _overlapping(array: np.ndarray) -> np.ndarray:
    line = np.concatenate([array[..., 0, :], array[..., 1:, -1]], axis=-1)
    return np.lib.stride_tricks.sliding_window_view(line, array.shape[-1], axis=-1)


LAYOUTS: dict[str, Layout] = {
    "plain": Layout(lambda a: True, lambda a: a, _same, _as_it_is),
    "permuted": Layout(
        lambda a: a.ndim > 1,
        lambda a: a.transpose(),
        lambda x, shape: permute_dims(x, tuple(reversed(range(x.ndim)))),
        lambda x, shape: f"it.permute_dims({x}, {tuple(reversed(range(len(shape))))})",
    ),
    "sliced": Layout(
        lambda a: a.ndim > 0,
        lambda a: np.repeat(a, 2, axis=-1)[..., ::-1],
        lambda x, shape: x[..., ::-2],
        lambda x, shape: f"{x}[..., ::-2]",
    ),
    "reversed": Layout(
        lambda a: a.ndim > 0,
        lambda a: a[_backwards(a.ndim)],
        lambda x, shape: x[_backwards(x.ndim)],
        lambda x, shape: f"{x}[{', '.join(['::-1'] * len(shape))}]",
    ),
    "inner": Layout(
        lambda a: True,
        lambda a: np.stack([a, a]),
        lambda x, shape: x[1],
        lambda x, shape: f"{x}[1]",
    ),
    "broadcast": Layout(
        _has_equal_rows,
        lambda a: a[:1],
        broadcast_to,
        lambda x, shape: f"it.broadcast_to({x}, {shape})",
        _equal_rows,
    ),
    "overlapping": Layout(_has_windows, _overlapping, _same, _as_it_is, _windows, shared=True),
}
