"""Equality up to a tolerance, and angles in degrees and radians."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...contract import Handle, Scalar
from ...dispatch import Operand, TensorLike, as_floating, promote, wrap
from ...dtypes import default_float
from .._guarding import guarded
from ..creation.filled import full
from ..reductions.basic import all as all_of
from .arithmetic import abs
from .cast import astype
from .comparison import equal, isfinite, isnan, less_equal
from .logical import logical_and, logical_or

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def isclose(
    x1: Operand,
    x2: Operand,
    /,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Whether elements differ by at most `atol + rtol * |x2|`; equal infinities do not differ.

    Args:
        x1, x2: tensors or numbers that broadcast.
        rtol, atol: the tolerance, relative to `x2` and absolute.
        equal_nan: whether two NaN count as close.

    >>> import ingle.tensor as it
    >>> it.isclose(it.asarray([1.0, 2.0]), it.asarray([1.000001, 2.1])).tolist()
    [True, False]
    """
    a, b = _tensors("isclose", x1, x2)
    if not a.dtype.is_inexact:
        a, b = astype(a, default_float()), astype(b, default_float())
    near = less_equal(abs(a - b), abs(b) * rtol + atol)
    # Infinities differ from themselves by NaN, and from numbers by less than their tolerance.
    close = logical_or(logical_and(near, isfinite(b)), equal(a, b))
    return logical_or(close, logical_and(isnan(a), isnan(b))) if equal_nan else close


def allclose(
    x1: Operand,
    x2: Operand,
    /,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> bool:
    """Whether all elements are close; see `isclose`. Waits for the values.

    Args:
        x1, x2: tensors of shapes that broadcast; one of them may be a number.
        rtol, atol: how far elements may lie apart: `atol + rtol * abs(x2)`.
        equal_nan: whether NaN is close to NaN.

    >>> import ingle.tensor as it
    >>> it.allclose(it.asarray([1.0, 2.0]), it.asarray([1.000001, 2.0]))
    True
    """
    return bool(all_of(isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan)))


def deg2rad(x: TensorLike, /) -> Tensor:
    """Degrees as radians.

    >>> import ingle.tensor as it
    >>> it.deg2rad(it.asarray([180.0])).tolist()
    [3.1415927410125732]
    """
    return wrap(as_floating(x, "deg2rad")) * (math.pi / 180)


def rad2deg(x: TensorLike, /) -> Tensor:
    """Radians as degrees.

    >>> import ingle.tensor as it
    >>> it.rad2deg(it.asarray([it.pi])).tolist()
    [180.0]
    """
    return wrap(as_floating(x, "rad2deg")) * (180 / math.pi)


def _tensors(name: str, x1: Operand, x2: Operand) -> tuple[Tensor, Tensor]:
    """Both operands as tensors of one dtype; a number becomes a 0-d one."""
    a, b = promote(name, ("x1", x1), ("x2", x2))
    if isinstance(a, Scalar):
        assert isinstance(b, Handle)
        return full((), a.value, dtype=a.dtype, device=b.backend.device), wrap(b)
    if isinstance(b, Scalar):
        return wrap(a), full((), b.value, dtype=b.dtype, device=a.backend.device)
    return wrap(a), wrap(b)
