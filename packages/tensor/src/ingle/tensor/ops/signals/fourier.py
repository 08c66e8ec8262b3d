"""Discrete Fourier transforms of any length, and their inverses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle
from ...dispatch import TensorLike, as_floating, cast_handle, run1, wrap
from ...dtypes import complex_dtype
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_ints, normalize_axis
from ..movement.padding import pad

if TYPE_CHECKING:
    from ...tensor import Tensor


TRANSFORM = Traits("opaque", precision="high", bound="compute")
MIRRORED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
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
    return transformed(IFFTN, g, axes, MIRRORED[norm])


FFTN = Operation(
    "fftn",
    tensors=("x",),
    statics=("axes", "norm"),
    rule=partial(_complex_rule, "fftn"),
    traits=TRANSFORM,
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
    return transformed(FFTN, g, axes, MIRRORED[norm])


IFFTN = Operation(
    "ifftn",
    tensors=("x",),
    statics=("axes", "norm"),
    rule=partial(_complex_rule, "ifftn"),
    traits=TRANSFORM,
    vjp={"x": _ifftn_vjp},
    batch=("axes",),
    public=ifftn,
    samples=_samples,
    reference=np.fft.ifftn,
)


def _complex(
    name: str, operation: Operation, x: TensorLike, s: Any, axes: Any, norm: str
) -> Tensor:
    handle = as_floating(x, name)
    places, sizes = plan_of(name, handle, s, axes, norm)
    whole = cast_handle(handle, complex_dtype(handle.dtype))
    return transformed(operation, resized(whole, places, sizes), places, norm)


def transformed(operation: Operation, x: Tensor, axes: tuple[int, ...], norm: str) -> Tensor:
    return run1(operation.op(axes=axes, norm=norm), x._handle) if axes else x


def check_norm(name: str, norm: str) -> None:
    if norm not in MIRRORED:
        raise ArgumentError(f"{name}: norm={norm!r} is none of 'backward', 'ortho', 'forward'")


_LONGEST = (1 << 31) - 1


def plan_of(
    name: str, x: Handle, s: Any, axes: Any, norm: str, least: int = 0
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes to transform and their lengths, checked."""
    check_norm(name, norm)
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


def resized(x: Handle, axes: tuple[int, ...], sizes: tuple[int, ...]) -> Tensor:
    """The tensor with its axes cut off or filled up with zeros."""
    wanted = dict(zip(axes, sizes, strict=True))
    widths = [(0, wanted.get(i, n) - n) for i, n in enumerate(x.shape)]
    return pad(wrap(x), widths) if any(w for _, w in widths) else wrap(x)
