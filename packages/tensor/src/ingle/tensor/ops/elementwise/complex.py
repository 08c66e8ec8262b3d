"""Complex numbers: their parts, conjugates and angles.

The gradient of a real loss L by z = x + iy is dL/dx + i dL/dy, as in PyTorch: the direction of
steepest ascent. For a holomorphic f it is the cotangent times the conjugate of f'.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...dispatch import TensorLike, as_floating, handle_of, refuse_storage, run1, wrap
from ...dtypes import real_dtype
from ...errors import DTypeError
from .._families import unary

if TYPE_CHECKING:
    from ...contract import Handle
    from ...tensor import Tensor

_COMPLEX = ("complex",)


def real(x: TensorLike, /) -> Tensor:
    """The real parts; a real tensor itself.

    >>> import ingle.tensor as it
    >>> it.real(it.asarray([1 + 2j])).tolist()
    [1.0]
    """
    handle = _number(x, "real")
    return run1(_REAL, handle) if handle.dtype.is_complex else wrap(handle)


_REAL = unary(
    "real",
    real,
    vjp=lambda g, x_aval: g.astype(x_aval.dtype),
    kinds=_COMPLEX,
    result=real_dtype,
    reference=np.real,
).op()


def imag(x: TensorLike, /) -> Tensor:
    """The imaginary parts; zeros for a real tensor.

    >>> import ingle.tensor as it
    >>> it.imag(it.asarray([1 + 2j])).tolist()
    [2.0]
    """
    handle = _number(x, "imag")
    if handle.dtype.is_complex:
        return run1(_IMAG, handle)
    from ..creation.filled import zeros_like

    return zeros_like(wrap(handle))


_IMAG = unary(
    "imag", imag, vjp=lambda g: g * 1j, kinds=_COMPLEX, result=real_dtype, reference=np.imag
).op()


def conj(x: TensorLike, /) -> Tensor:
    """The complex conjugates; a real tensor itself.

    >>> import ingle.tensor as it
    >>> it.conj(it.asarray([1 + 2j])).tolist()
    [(1-2j)]
    """
    handle = _number(x, "conj")
    return run1(_CONJ, handle) if handle.dtype.is_complex else wrap(handle)


_CONJ = unary("conj", conj, vjp=lambda g: conj(g), kinds=_COMPLEX, reference=np.conj).op()


def angle(x: TensorLike, /) -> Tensor:
    """The angles of complex numbers with the positive real axis, in radians from -pi to pi.

    Those of real numbers are 0 and, where the sign is negative, pi.

    >>> import ingle.tensor as it
    >>> it.angle(it.asarray([1j])).tolist()
    [1.5707963705062866]
    """
    from .comparison import signbit
    from .trigonometry import atan2
    from .where import where

    number = wrap(_number(x, "angle"))
    if number.dtype.is_complex:
        return atan2(imag(number), real(number))
    number = wrap(as_floating(number, "angle"))
    known = number == number
    return where(known & signbit(number), math.pi, where(known, 0.0, number))


def _number(x: TensorLike, name: str) -> Handle:
    handle = handle_of(x, name)
    refuse_storage(name, "x", handle.dtype)
    if handle.dtype.kind == "bool":
        raise DTypeError(f"{name}: x must be numbers, got bool; cast first with x.astype('int64')")
    return handle
