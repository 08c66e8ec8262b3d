"""Discrete Fourier transforms of real input, and those with real output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, as_floating, cast_handle, run1, wrap
from ...dtypes import complex_dtype, float32, real_dtype
from ...errors import DTypeError, ShapeError
from ...operation import Operation
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_ints, conj
from ..creation.ranges import arange
from ..elementwise.where import where
from .fourier import FFTN, IFFTN, MIRRORED, TRANSFORM, check_norm, plan_of, resized, transformed

if TYPE_CHECKING:
    from ...tensor import Tensor


def _real_samples(draw: Draw) -> Iterator[Sample]:
    for norm in MIRRORED:
        yield Sample((draw.array((5, 8)),), {"norm": norm}, magnitude=8.0)
    for n in (1, 5, 8):
        yield Sample((draw.array((3, 7, 2)),), {"axis": 1, "n": n}, magnitude=8.0)
    yield Sample((draw.array((0, 3)),))


@guarded
def rfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Tensor:
    """The first `n // 2 + 1` elements of `fft` of a real tensor, which determine the others.

    Args:
        x: a real tensor.
        n, axis, norm: as for `fft`.

    >>> import ingle.tensor as it
    >>> it.fft.rfft(it.asarray([1.0, 0.0, -1.0, 0.0])).tolist()
    [0j, (2+0j), 0j]
    """
    return _real_input("rfft", x, None if n is None else (n,), (axis,), norm)


def _rfft_rule(x: Aval, *, axis: int, norm: str) -> Aval:
    shape = tuple(n // 2 + 1 if i == axis else n for i, n in enumerate(x.shape))
    return Aval(shape, complex_dtype(x.dtype))


def _rfft_vjp(g: Tensor, x_aval: Aval, axis: int, norm: str) -> Tensor:
    n = x_aval.shape[axis]
    # Of each pair of conjugate coefficients `irfft` counts both, and the gradient has only one.
    halved = g * (1 / _multiplicity(g, n, axis))
    return run1(_IRFFT.op(n=n, axis=axis, norm=MIRRORED[norm]), halved._handle)


_RFFT = Operation(
    "rfft",
    tensors=("x",),
    statics=("axis", "norm"),
    rule=_rfft_rule,
    traits=TRANSFORM,
    vjp={"x": _rfft_vjp},
    batch=("axis",),
    public=rfft,
    samples=_real_samples,
    reference=np.fft.rfft,
)


@guarded
def irfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Tensor:
    """The inverse of `rfft`: the real tensor of length `n` with these Fourier coefficients.

    Args:
        x: the first `n // 2 + 1` coefficients. The imaginary part of the first, and if n is even
            that of the last, do not count.
        n: the length of the result, `2 * (size - 1)` if not given, which is right if it was even.
        axis, norm: as for `fft`.

    >>> import ingle.tensor as it
    >>> it.fft.irfft(it.fft.rfft(it.asarray([1.0, 2.0, 4.0])), n=3).tolist()
    [1.0, 2.0, 4.0]
    """
    return _real_output("irfft", x, None if n is None else (n,), (axis,), norm)


def _irfft_rule(x: Aval, *, n: int, axis: int, norm: str) -> Aval:
    shape = tuple(n if i == axis else size for i, size in enumerate(x.shape))
    return Aval(shape, real_dtype(x.dtype))


def _irfft_vjp(g: Tensor, n: int, axis: int, norm: str) -> Tensor:
    half = run1(_RFFT.op(axis=axis, norm=MIRRORED[norm]), g._handle)
    return half * _multiplicity(half, n, axis)


_IRFFT = Operation(
    "irfft",
    tensors=("x",),
    statics=("n", "axis", "norm"),
    rule=_irfft_rule,
    traits=TRANSFORM,
    vjp={"x": _irfft_vjp},
    batch=("axis",),
    public=irfft,
    samples=_real_samples,
    reference=np.fft.irfft,
)


@guarded
def rfftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """`rfft` along the last of several axes, then `fft` along the others.

    Args:
        x: a real tensor.
        s, axes, norm: as for `fftn`.

    >>> import ingle.tensor as it
    >>> it.fft.rfftn(it.ones((2, 3))).tolist()
    [[(6+0j), 0j], [0j, 0j]]
    """
    return _real_input("rfftn", x, s, axes, norm)


@guarded
def irfftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """The inverse of `rfftn`.

    Args:
        x: coefficients as `rfftn` returns them.
        s: the lengths of the result, one for each axis; that of the last one is
            `2 * (size - 1)` if not given.
        axes, norm: as for `fftn`.

    >>> import ingle.tensor as it
    >>> it.fft.irfftn(it.fft.rfftn(it.asarray([[1.0, 2.0], [3.0, 4.0]]))).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _real_output("irfftn", x, s, axes, norm)


@guarded
def hfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Tensor:
    """`fft` of a signal that is Hermitian, given by its first half; the result is real.

    Args:
        x: the first `n // 2 + 1` elements of the signal.
        n: the length of the result, `2 * (size - 1)` if not given.
        axis, norm: as for `fft`.

    >>> import ingle.tensor as it
    >>> it.fft.hfft(it.asarray([1.0, 2.0, 3.0])).tolist()
    [8.0, -2.0, 0.0, -2.0]
    """
    check_norm("hfft", norm)
    turned = conj(wrap(as_floating(x, "hfft")))
    return _real_output("hfft", turned, None if n is None else (n,), (axis,), MIRRORED[norm])


@guarded
def ihfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Tensor:
    """The inverse of `hfft`: the first `n // 2 + 1` elements of `ifft` of a real tensor.

    >>> import ingle.tensor as it
    >>> it.fft.ihfft(it.asarray([8.0, -2.0, 0.0, -2.0])).tolist()
    [(1-0j), (2-0j), (3-0j)]
    """
    check_norm("ihfft", norm)
    size = None if n is None else (n,)
    return conj(_real_input("ihfft", x, size, (axis,), MIRRORED[norm]))  # type: ignore[no-any-return]


def _real_input(name: str, x: TensorLike, s: Any, axes: Any, norm: str) -> Tensor:
    handle = as_floating(x, name)
    if handle.dtype.is_complex:
        raise DTypeError(f"{name}: needs a real tensor, got {handle.dtype}; take real(x) or fft(x)")
    places, sizes = plan_of(name, handle, s, axes, norm, least=1)
    if handle.dtype.itemsize == 2:
        handle = cast_handle(handle, float32)
    whole = resized(handle, places, sizes)
    half = run1(_RFFT.op(axis=places[-1], norm=norm), whole._handle)
    return transformed(FFTN, half, places[:-1], norm)


def _real_output(name: str, x: TensorLike, s: Any, axes: Any, norm: str) -> Tensor:
    handle = as_floating(x, name)
    places, sizes = plan_of(name, handle, s, axes, norm, least=1)
    last = sizes[-1]
    if s is None or as_ints(s, name, "s")[-1] == -1:
        last = 2 * (last - 1)
    if last < 1:
        raise ShapeError(
            f"{name}: one coefficient along axis {places[-1]} of {handle.shape} does not say how "
            "long the result is; give n=1 (s=...)"
        )
    whole = cast_handle(handle, complex_dtype(handle.dtype))
    half = resized(whole, places, (*sizes[:-1], last // 2 + 1))
    half = transformed(IFFTN, half, places[:-1], norm)
    return run1(_IRFFT.op(n=last, axis=places[-1], norm=norm), half._handle)


def _multiplicity(half: Tensor, n: int, axis: int) -> Tensor:
    """How many coefficients each one of the half stands for, along the axis."""
    shape = tuple(size if i == axis else 1 for i, size in enumerate(half.shape))
    place = arange(half.shape[axis], device=half.device).reshape(shape)
    alone = (place == 0) | (place * 2 == n)
    return where(alone, 1.0, 2.0).astype(real_dtype(half.dtype))
