"""What belongs to the elements of a Fourier transform: their frequencies and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...device import Device
from ...dispatch import TensorLike, handle_of
from ...dtypes import default_float, float64
from ...errors import ArgumentError, DTypeError
from .._guarding import guarded
from .._rules import as_int, dtype_argument, normalize_axes
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.where import where
from ..movement.rearranging import roll

if TYPE_CHECKING:
    from ...tensor import Tensor

Axes = int | Sequence[int] | None


@guarded
def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: object = None, device: Device | str | None = None
) -> Tensor:
    """The frequencies of the elements of `fft`: `[0, 1, ..., -2, -1] / (d * n)`.

    Args:
        n: the length of the transform.
        d: the distance between samples; the frequencies are cycles per its unit.
        dtype: a float dtype; the default one if not given.
        device: where to put them; the default device if not given.

    >>> import ingle.tensor as it
    >>> it.fft.fftfreq(4, d=0.5).tolist()
    [0.0, 0.5, -1.0, -0.5]
    """
    size = _length("fftfreq", n)
    place = arange(size, device=device)
    return _scaled("fftfreq", where(place * 2 < size, place, place - size), size, d, dtype)


@guarded
def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: object = None, device: Device | str | None = None
) -> Tensor:
    """The frequencies of the elements of `rfft`: `[0, 1, ..., n // 2] / (d * n)`.

    Args:
        n: the length of the transform.
        d: the distance between samples; the frequencies are cycles per its unit.
        dtype: a float dtype; the default one if not given.
        device: where to put them; the default device if not given.

    >>> import ingle.tensor as it
    >>> it.fft.rfftfreq(4, d=0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    size = _length("rfftfreq", n)
    return _scaled("rfftfreq", arange(size // 2 + 1, device=device), size, d, dtype)


@guarded
def fftshift(x: TensorLike, /, *, axes: Axes = None) -> Tensor:
    """The elements of a transform in the order of their frequencies, zero in the middle.

    Args:
        x: a tensor.
        axes: which axes to shift; all if not given.

    >>> import ingle.tensor as it
    >>> it.fft.fftshift(it.asarray([0, 1, 2, -2, -1])).tolist()
    [-2, -1, 0, 1, 2]
    """
    return _shifted("fftshift", x, axes, 1)


@guarded
def ifftshift(x: TensorLike, /, *, axes: Axes = None) -> Tensor:
    """The inverse of `fftshift`, which differs from it for odd sizes.

    >>> import ingle.tensor as it
    >>> it.fft.ifftshift(it.asarray([-2, -1, 0, 1, 2])).tolist()
    [0, 1, 2, -2, -1]
    """
    return _shifted("ifftshift", x, axes, -1)


def _length(name: str, n: object) -> int:
    size = as_int(n, name, "n")
    if size < 1:
        raise ArgumentError(f"{name}: n must be at least 1, got {size}")
    return size


def _scaled(name: str, place: Tensor, n: int, d: float, dtype: object) -> Tensor:
    to = dtype_argument(dtype, name, default_float)
    if not to.is_floating:
        raise DTypeError(f"{name}: dtype must be a float dtype, got {to}")
    if not isinstance(d, (int, float)) or not d:
        raise ArgumentError(f"{name}: d must be a number other than 0, got {d!r}")
    return astype(astype(place, float64) / (n * d), to)


def _shifted(name: str, x: TensorLike, axes: Axes, direction: int) -> Tensor:
    shape = handle_of(x, name).shape
    places = normalize_axes(axes, len(shape), name, "axes")
    # Backwards the shift is rounded up: -(n // 2) and not (-n) // 2.
    return roll(x, [direction * (shape[a] // 2) for a in places], axis=places)
