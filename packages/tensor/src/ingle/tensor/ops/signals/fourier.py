"""Discrete Fourier transforms of any length: of complex and real input, and their inverses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle
from ...dispatch import TensorLike, as_floating, cast_handle, run1, wrap
from ...dtypes import complex_dtype, float32, real_dtype
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_ints, conj, normalize_axis
from ..creation.ranges import arange
from ..elementwise.where import where
from ..movement.padding import pad

if TYPE_CHECKING:
    from ...tensor import Tensor

_TRANSFORM = Traits("opaque", precision="high", bound="compute")
_MIRRORED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
"""The scaling that the transform in the other direction has, if it is to be the same factor."""


@guarded
def fft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Tensor:
    """The discrete Fourier transform along an axis: `sum_j x[j] * exp(-2i * pi * j * k / n)`.

    Args:
        x: a complex or real tensor; of real ones `rfft` computes only the half that matters.
        n: the length; the axis is cut off or filled up with zeros to it. Its size if not given.
        axis: along which.
        norm: `"backward"` scales only the inverse, by 1/n; `"forward"` only this; `"ortho"` both,
            by 1/sqrt(n).

    >>> import ingle.tensor as it
    >>> it.fft.fft(it.asarray([1.0, 0.0, -1.0, 0.0])).tolist()
    [0j, (2+0j), 0j, (2+0j)]
    """
    return _complex("fft", FFTN, x, None if n is None else (n,), (axis,), norm)


@guarded
def ifft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Tensor:
    """The inverse of `fft`, which has the same arguments.

    >>> import ingle.tensor as it
    >>> it.fft.ifft(it.fft.fft(it.asarray([1.0, 2.0]))).tolist()
    [(1+0j), (2+0j)]
    """
    return _complex("ifft", IFFTN, x, None if n is None else (n,), (axis,), norm)


def _complex_rule(name: str, x: Aval, *, axes: tuple[int, ...], norm: str) -> Aval:
    if not x.dtype.is_complex:
        raise DTypeError(f"{name}: x must be complex, got {x.dtype}")
    return x


def _samples(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((5, 8)),), {"axes": (1,)}, magnitude=8.0)
    yield Sample((draw.array((3, 5, 2)),), {"axes": (0, -1), "norm": "ortho"}, magnitude=8.0)
    yield Sample((draw.array((17,)),), {"norm": "forward"}, magnitude=2.0)
    yield Sample((draw.array((5, 3)),), {"s": (3, 8), "axes": (0, 1)}, magnitude=16.0)
    yield Sample((draw.array((0, 3)),), {"axes": (1,)})
    yield Sample((draw.array((1,)),))


@guarded
def fftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """The discrete Fourier transform along several axes.

    Args:
        x: a complex or real tensor.
        s: the lengths, one for each axis; -1 for its size.
        axes: along which; all if not given (the last ones if there is `s`).
        norm: as for `fft`; n is the product of the lengths.

    >>> import ingle.tensor as it
    >>> it.fft.fftn(it.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return _complex("fftn", FFTN, x, s, axes, norm)


def _fftn_vjp(g: Tensor, axes: tuple[int, ...], norm: str) -> Tensor:
    return _transformed(IFFTN, g, axes, _MIRRORED[norm])


FFTN = Operation(
    "fftn",
    tensors=("x",),
    statics=("axes", "norm"),
    rule=partial(_complex_rule, "fftn"),
    traits=_TRANSFORM,
    vjp={"x": _fftn_vjp},
    batch=("axes",),
    public=fftn,
    samples=_samples,
    reference=np.fft.fftn,
)


@guarded
def ifftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """The inverse of `fftn`, which has the same arguments.

    >>> import ingle.tensor as it
    >>> it.fft.ifftn(it.asarray([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return _complex("ifftn", IFFTN, x, s, axes, norm)


def _ifftn_vjp(g: Tensor, axes: tuple[int, ...], norm: str) -> Tensor:
    return _transformed(FFTN, g, axes, _MIRRORED[norm])


IFFTN = Operation(
    "ifftn",
    tensors=("x",),
    statics=("axes", "norm"),
    rule=partial(_complex_rule, "ifftn"),
    traits=_TRANSFORM,
    vjp={"x": _ifftn_vjp},
    batch=("axes",),
    public=ifftn,
    samples=_samples,
    reference=np.fft.ifftn,
)


def _real_samples(draw: Draw) -> Iterator[Sample]:
    for norm in _MIRRORED:
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
    return run1(_IRFFT.op(n=n, axis=axis, norm=_MIRRORED[norm]), halved._handle)


_RFFT = Operation(
    "rfft",
    tensors=("x",),
    statics=("axis", "norm"),
    rule=_rfft_rule,
    traits=_TRANSFORM,
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
    half = run1(_RFFT.op(axis=axis, norm=_MIRRORED[norm]), g._handle)
    return half * _multiplicity(half, n, axis)


_IRFFT = Operation(
    "irfft",
    tensors=("x",),
    statics=("n", "axis", "norm"),
    rule=_irfft_rule,
    traits=_TRANSFORM,
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
    _check_norm("hfft", norm)
    turned = conj(wrap(as_floating(x, "hfft")))
    return _real_output("hfft", turned, None if n is None else (n,), (axis,), _MIRRORED[norm])


@guarded
def ihfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Tensor:
    """The inverse of `hfft`: the first `n // 2 + 1` elements of `ifft` of a real tensor.

    >>> import ingle.tensor as it
    >>> it.fft.ihfft(it.asarray([8.0, -2.0, 0.0, -2.0])).tolist()
    [(1-0j), (2-0j), (3-0j)]
    """
    _check_norm("ihfft", norm)
    size = None if n is None else (n,)
    return conj(_real_input("ihfft", x, size, (axis,), _MIRRORED[norm]))  # type: ignore[no-any-return]


def _complex(
    name: str, operation: Operation, x: TensorLike, s: Any, axes: Any, norm: str
) -> Tensor:
    handle = as_floating(x, name)
    places, sizes = _plan(name, handle, s, axes, norm)
    whole = cast_handle(handle, complex_dtype(handle.dtype))
    return _transformed(operation, _resized(whole, places, sizes), places, norm)


def _transformed(operation: Operation, x: Tensor, axes: tuple[int, ...], norm: str) -> Tensor:
    return run1(operation.op(axes=axes, norm=norm), x._handle) if axes else x


def _real_input(name: str, x: TensorLike, s: Any, axes: Any, norm: str) -> Tensor:
    handle = as_floating(x, name)
    if handle.dtype.is_complex:
        raise DTypeError(f"{name}: needs a real tensor, got {handle.dtype}; take real(x) or fft(x)")
    places, sizes = _plan(name, handle, s, axes, norm, least=1)
    if handle.dtype.itemsize == 2:
        handle = cast_handle(handle, float32)
    whole = _resized(handle, places, sizes)
    half = run1(_RFFT.op(axis=places[-1], norm=norm), whole._handle)
    return _transformed(FFTN, half, places[:-1], norm)


def _real_output(name: str, x: TensorLike, s: Any, axes: Any, norm: str) -> Tensor:
    handle = as_floating(x, name)
    places, sizes = _plan(name, handle, s, axes, norm, least=1)
    last = sizes[-1]
    if s is None or as_ints(s, name, "s")[-1] == -1:
        last = 2 * (last - 1)
    if last < 1:
        raise ShapeError(
            f"{name}: one coefficient along axis {places[-1]} of {handle.shape} does not say how "
            "long the result is; give n=1 (s=...)"
        )
    whole = cast_handle(handle, complex_dtype(handle.dtype))
    half = _resized(whole, places, (*sizes[:-1], last // 2 + 1))
    half = _transformed(IFFTN, half, places[:-1], norm)
    return run1(_IRFFT.op(n=last, axis=places[-1], norm=norm), half._handle)


def _check_norm(name: str, norm: str) -> None:
    if norm not in _MIRRORED:
        raise ArgumentError(f"{name}: norm={norm!r} is none of 'backward', 'ortho', 'forward'")


_LONGEST = (1 << 31) - 1


def _plan(
    name: str, x: Handle, s: Any, axes: Any, norm: str, least: int = 0
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes to transform and their lengths, checked."""
    _check_norm(name, norm)
    ndim = len(x.shape)
    argument = "n" if name[-1] != "n" else "s"
    given = None if s is None else as_ints(s, name, argument)
    if axes is not None and not isinstance(axes, (list, tuple)):
        raise ArgumentError(f"{name}: axes must be integers in a list or tuple, got {axes!r:.60}")
    if axes is None:
        axes = range(ndim - (ndim if given is None else len(given)), ndim)
    places = tuple(
        normalize_axis(a, ndim, name, "axes" if argument == "s" else "axis") for a in axes
    )
    if len(set(places)) != len(places):
        raise ArgumentError(f"{name}: axes={tuple(axes)} must not name an axis twice")
    if len(places) < least:
        raise ArgumentError(f"{name}: axes must have at least {least} axis, got {tuple(axes)}")
    if given is None:
        given = (-1,) * len(places)
    if len(given) != len(places):
        raise ArgumentError(f"{name}: s={given} must have a length for each of the axes {places}")
    sizes = tuple(x.shape[a] if n == -1 else n for a, n in zip(places, given, strict=True))
    if any(not 1 <= n <= _LONGEST for n in sizes):
        raise ShapeError(
            f"{name}: the lengths along axes {places} must be from 1 to {_LONGEST}, got {sizes} by "
            f"{argument}={s} and x of shape {x.shape}"
        )
    return places, sizes


def _resized(x: Handle, axes: tuple[int, ...], sizes: tuple[int, ...]) -> Tensor:
    """The tensor with its axes cut off or filled up with zeros."""
    wanted = dict(zip(axes, sizes, strict=True))
    widths = [(0, wanted.get(i, n) - n) for i, n in enumerate(x.shape)]
    return pad(wrap(x), widths) if any(w for _, w in widths) else wrap(x)


def _multiplicity(half: Tensor, n: int, axis: int) -> Tensor:
    """How many coefficients each one of the half stands for, along the axis."""
    shape = tuple(size if i == axis else 1 for i, size in enumerate(half.shape))
    place = arange(half.shape[axis], device=half.device).reshape(shape)
    alone = (place == 0) | (place * 2 == n)
    return where(alone, 1.0, 2.0).astype(real_dtype(half.dtype))
