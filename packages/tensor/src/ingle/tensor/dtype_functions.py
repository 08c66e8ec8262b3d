"""Questions about dtypes: what they hold, what kind they are, what they promote to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes

from .dtypes import (
    STORAGE,
    DType,
    as_dtype,
    integer_range,
    promote_types,
    real_dtype,
    scalar_dtype,
)
from .errors import ArgumentError, DTypeError, OperandError

KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("signed",),
    "unsigned integer": ("unsigned",),
    "integral": ("signed", "unsigned"),
    "real floating": ("float",),
    "complex floating": ("complex",),
    "numeric": ("signed", "unsigned", "float", "complex"),
    STORAGE: (STORAGE,),
}
"""The standard's names of kinds and `"storage"`, and the kinds of `DType` that each stands for."""


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """What `finfo` returns; for a complex dtype it is about its parts.

    Attributes:
        bits: of one number.
        eps: the distance from 1 to the next larger number.
        max, min: the largest number and the most negative one.
        smallest_normal: the smallest positive number of full precision.
        dtype: the real dtype that this is about.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerInfo:
    """What `iinfo` returns.

    Attributes:
        bits: of one number.
        max, min: the largest and the smallest number.
        dtype: the dtype that this is about.
    """

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: object, /) -> FloatInfo:
    """The limits of a float (float8 too) or complex dtype, or of a tensor's.

    Raises:
        DTypeError: it is neither float nor complex; `iinfo` is for integers.

    >>> import ingle.tensor as it
    >>> it.finfo(it.float32).bits, it.finfo(it.bfloat16).eps
    (32, 0.0078125)
    """
    dtype = dtype_of(type)
    if dtype.holds not in ("float", "complex"):
        raise DTypeError(f"finfo: needs a float or complex dtype, got {dtype}; use iinfo")
    real = real_dtype(dtype)
    info: Any = ml_dtypes.finfo(real.dtype)  # type: ignore[no-untyped-call]
    return FloatInfo(
        bits=real.bits,
        eps=float(info.eps),
        max=float(info.max),
        min=float(info.min),
        smallest_normal=float(info.smallest_normal),
        dtype=real,
    )


def iinfo(type: object, /) -> IntegerInfo:
    """The limits of an integer dtype (int4 and int2 too), or of a tensor's.

    Raises:
        DTypeError: it is no integer dtype; `finfo` is for floats.

    >>> import ingle.tensor as it
    >>> it.iinfo(it.int8).min, it.iinfo(it.int8).max
    (-128, 127)
    """
    dtype = dtype_of(type)
    if dtype.holds not in ("signed", "unsigned"):
        raise DTypeError(f"iinfo: needs an integer dtype, got {dtype}; use finfo")
    low, high = integer_range(dtype)
    return IntegerInfo(bits=dtype.bits, max=high, min=low, dtype=dtype)


def isdtype(dtype: object, kind: object) -> bool:
    """Whether a dtype is of a kind, is another dtype, or is one of several of these.

    Dtypes that only store values (float8, int4, int2, …) are of the kind `"storage"` and of none
    of the standard's, since nothing is computed in them.

    Args:
        dtype: a dtype.
        kind: one of `"bool"`, `"signed integer"`, `"unsigned integer"`, `"integral"`,
            `"real floating"`, `"complex floating"`, `"numeric"`, `"storage"`; a dtype; or a tuple
            of these.

    >>> import ingle.tensor as it
    >>> it.isdtype(it.float32, "numeric"), it.isdtype(it.int8, (it.int16, "bool"))
    (True, False)
    """
    found = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(found, k) for k in kind)
    if isinstance(kind, str):
        return found.kind in kinds_named("isdtype", kind)
    return found is as_dtype(kind)


def kinds_named(name: str, kind: str) -> tuple[str, ...]:
    """The kinds of `DType` that a name of the standard's stands for."""
    if kind not in KINDS:
        raise ArgumentError(f"{name}: kind={kind!r} is none of {', '.join(map(repr, KINDS))}")
    return KINDS[kind]


def can_cast(from_: object, to: object, /) -> bool:
    """Whether values of one dtype may turn into another by promotion; storage dtypes never do.

    Args:
        from_: a dtype, or a tensor, of which only the dtype counts.
        to: a dtype.

    >>> import ingle.tensor as it
    >>> it.can_cast(it.int8, it.int16), it.can_cast(it.float64, it.float32)
    (True, False)
    """
    source, target = dtype_of(from_), as_dtype(to)
    if source.is_storage or target.is_storage:
        return source is target
    return promote_types(source, target) is target


def result_type(*arrays_and_dtypes: object) -> DType:
    """The dtype that an operation on all of these computes in.

    Args:
        arrays_and_dtypes: tensors, dtypes and Python numbers, at least one of them no number.

    Raises:
        OperandError: there are only numbers.

    >>> import ingle.tensor as it
    >>> it.result_type(it.int8, it.uint8), it.result_type(it.zeros(2, dtype=it.float16), 1.0)
    (int16, float16)
    """
    numbers = [x for x in arrays_and_dtypes if isinstance(x, (bool, int, float, complex))]
    dtypes = [dtype_of(x) for x in arrays_and_dtypes if not isinstance(x, (int, float, complex))]
    if not dtypes:
        raise OperandError(
            f"result_type: needs at least one tensor or dtype, got {arrays_and_dtypes!r}"
        )
    found = dtypes[0]
    for dtype in dtypes[1:]:
        found = promote_types(found, dtype)
    for number in numbers:
        # Only a number's type counts here, not whether its value fits.
        found = scalar_dtype(type(number)(0), found, "result_type")
    return found


def dtype_of(value: object) -> DType:
    """The dtype of a tensor or cell, or the dtype that a name or object stands for."""
    found = getattr(value, "dtype", None)
    return found if isinstance(found, DType) else as_dtype(value)
