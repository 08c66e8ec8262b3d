"""Data types and the one promotion table.

A `DType` is a singleton compared by identity. The table follows the Array API standard 2025.12
where that defines a result. Beyond it: an integer with a float gives the float, bfloat16 with
float16 gives float32, uint64 with a signed integer gives the default float dtype.

Storage dtypes (float8, int4, int2 and their unsigned kin) hold values and move them, and nothing is
computed in them: they never take part in promotion, and `astype` is the way in and out.
"""

from __future__ import annotations

from collections.abc import Generator
from contextvars import ContextVar
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from .blocks import block, holding
from .errors import DTypeError
from .static_values import SymbolicInt

STORAGE = "storage"
"""The `kind` of dtypes that nothing is computed in."""

_RANK = {"bool": 0, "unsigned": 1, "signed": 1, "float": 2, "complex": 3}


class DType:
    """The type of a tensor's elements.

    Attributes:
        name: the public one.
        kind: `"bool"`, `"unsigned"`, `"signed"`, `"float"`, `"complex"`, or `"storage"` for those
            that nothing is computed in.
        holds: what numbers it holds: the kind, or for a storage dtype one of the first four.
        bits: how many an element has.
        itemsize: how many bytes an element takes on the host, where 4 bits take a whole one.
        dtype: NumPy's.
        is_floating, is_complex, is_inexact, is_integer, is_signed, is_storage: by the kind, so
            that a float8 is storage and not floating.

    >>> import ingle.tensor as it
    >>> it.float32.itemsize, it.float32.kind
    (4, 'float')
    >>> it.int4.kind, it.int4.holds, it.int4.bits
    ('storage', 'signed', 4)
    """

    __slots__ = (
        "bits", "dtype", "holds", "is_complex", "is_floating", "is_inexact", "is_integer",
        "is_signed", "is_storage", "itemsize", "kind", "name",
    )  # fmt: skip

    def __init__(
        self, name: str, kind: str, dtype: np.dtype, *, holds: str = "", bits: int = 0
    ) -> None:
        self.name = name
        self.kind = kind
        self.holds = holds or kind
        self.bits = bits or 8 * dtype.itemsize
        self.dtype = dtype
        self.itemsize = dtype.itemsize
        self.is_floating = kind == "float"
        self.is_complex = kind == "complex"
        self.is_inexact = kind in ("float", "complex")  # what gradients flow through
        self.is_integer = kind in ("signed", "unsigned")
        self.is_signed = self.holds not in ("bool", "unsigned")
        self.is_storage = kind == STORAGE

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        """Itself, its name, NumPy's type of its numbers, and PyTorch's dtype of that name."""
        if self is other:
            return True
        if isinstance(other, str):
            return self.name == other
        if isinstance(other, type) and issubclass(other, np.generic):
            return self.dtype.type is other
        named = _name_in_torch(other)
        return NotImplemented if named is None else self.name == named

    __hash__ = object.__hash__

    @property
    def char(self) -> str:
        """NumPy's letter for it, which SciPy's sparse matrices ask of what they multiply."""
        return self.dtype.char

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return as_dtype, (self.name,)


bool_ = DType("bool", "bool", np.dtype(np.bool_))
uint8 = DType("uint8", "unsigned", np.dtype(np.uint8))
uint16 = DType("uint16", "unsigned", np.dtype(np.uint16))
uint32 = DType("uint32", "unsigned", np.dtype(np.uint32))
uint64 = DType("uint64", "unsigned", np.dtype(np.uint64))
int8 = DType("int8", "signed", np.dtype(np.int8))
int16 = DType("int16", "signed", np.dtype(np.int16))
int32 = DType("int32", "signed", np.dtype(np.int32))
int64 = DType("int64", "signed", np.dtype(np.int64))
float16 = DType("float16", "float", np.dtype(np.float16))
bfloat16 = DType("bfloat16", "float", np.dtype(ml_dtypes.bfloat16))
float32 = DType("float32", "float", np.dtype(np.float32))
float64 = DType("float64", "float", np.dtype(np.float64))
complex64 = DType("complex64", "complex", np.dtype(np.complex64))
complex128 = DType("complex128", "complex", np.dtype(np.complex128))


def _storage(name: str, holds: str, bits: int) -> DType:
    return DType(name, STORAGE, np.dtype(getattr(ml_dtypes, name)), holds=holds, bits=bits)


float8_e4m3fn = _storage("float8_e4m3fn", "float", 8)
float8_e5m2 = _storage("float8_e5m2", "float", 8)
int4 = _storage("int4", "signed", 4)
uint4 = _storage("uint4", "unsigned", 4)
int2 = _storage("int2", "signed", 2)
uint2 = _storage("uint2", "unsigned", 2)

ALL_DTYPES = (
    bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip
"""The dtypes that operations compute in."""

STORAGE_DTYPES = (float8_e4m3fn, float8_e5m2, int4, uint4, int2, uint2)
"""The dtypes that only hold values; a device may lack them."""

_BY_NAME = {d.name: d for d in (*ALL_DTYPES, *STORAGE_DTYPES)}
_BY_NUMPY = {d.dtype: d for d in _BY_NAME.values()}
_BY_PYTHON: dict[object, str] = {bool: "bool", int: "int", float: "float", complex: "complex"}
_BY_PYTHON |= {name: name for name in _BY_PYTHON.values()}

_default_float: ContextVar[DType] = ContextVar("ingle_default_float", default=float32)
_default_int: ContextVar[DType] = ContextVar("ingle_default_int", default=int64)


class Used:
    """Whether this process has ever asked for something: until then nobody looks for it."""

    __slots__ = ("ever",)

    def __init__(self) -> None:
        self.ever = False


changed = Used()
"""Whether `default_dtypes` was used."""
others: ContextVar[bool] = ContextVar("ingle_other_defaults", default=False)
"""Whether a `default_dtypes` is around that says other dtypes than there are without one."""


def default_float() -> DType:
    """The dtype of float tensors made without one: float32 unless `default_dtypes` says else."""
    return _default_float.get()


def default_int() -> DType:
    """The dtype of integer tensors made without one: int64 unless `default_dtypes` says else."""
    return _default_int.get()


def default_complex() -> DType:
    """The complex dtype whose parts have the default float dtype (complex64 for half types)."""
    return complex128 if default_float() is float64 else complex64


@block
def default_dtypes(
    *, floating: object = None, integer: object = None
) -> Generator[None, Any, None]:
    """Changes the default dtypes inside a `with` block, for this thread or task only.

    Raises:
        DTypeError: a dtype of another kind.

    >>> import ingle.tensor as it
    >>> with it.default_dtypes(floating=it.float64):
    ...     it.zeros(2).dtype
    float64
    """
    f, i = default_float(), default_int()
    if floating is not None:
        f = as_dtype(floating)
        if not f.is_floating:
            raise DTypeError(f"default_dtypes: floating must be a float dtype, got {f}")
    if integer is not None:
        i = as_dtype(integer)
        if not i.is_integer:
            raise DTypeError(f"default_dtypes: integer must be an integer dtype, got {i}")
    changed.ever = True
    other = f is not float32 or i is not int64
    with holding(_default_float, f), holding(_default_int, i), holding(others, other):
        yield


def _name_in_torch(value: object) -> str | None:
    """What PyTorch calls a dtype of its own; None for anything else."""
    kind = type(value)
    if kind.__module__ != "torch" or kind.__name__ != "dtype":
        return None
    return str(value).removeprefix("torch.")


def from_numpy_dtype(dtype: np.dtype) -> DType:
    """The `DType` of a NumPy dtype; raises `DTypeError` for object, string and date types."""
    found = _BY_NUMPY.get(dtype)
    if found is None:
        found = _BY_NUMPY.get(dtype.newbyteorder("="))
    if found is None:
        raise DTypeError(
            f"Ingle has no dtype for NumPy's {dtype!s}; it has: {', '.join(_BY_NAME)}. "
            "Convert the array first, for example with array.astype('float32')."
        )
    return found


def as_dtype(value: object) -> DType:
    """The `DType` that is meant by a name, a dtype of NumPy's or PyTorch's, or a type of numbers.

    `bool`, `int`, `float`, `complex` and their names are the default dtypes of their kind.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    if isinstance(value, (type, str)) and value in _BY_PYTHON:
        kind = _BY_PYTHON[value]
        return {
            "bool": bool_, "int": default_int(), "float": default_float(),
            "complex": default_complex(),
        }[kind]  # fmt: skip
    named = _BY_NAME.get(_name_in_torch(value) or "")
    if named is not None:
        return named
    try:
        numpy_dtype = np.dtype(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise DTypeError(f"{value!r:.60} is no dtype; Ingle has: {', '.join(_BY_NAME)}") from None
    return from_numpy_dtype(numpy_dtype)


_UNSIGNED = (uint8, uint16, uint32, uint64)
_SIGNED = (int8, int16, int32, int64)
_FLOAT_BITS = {float16: 1, bfloat16: 1, float32: 2, float64: 3}
_COMPLEX_OF = {float16: complex64, bfloat16: complex64, float32: complex64, float64: complex128}
_REAL_OF = {complex64: float32, complex128: float64}


def real_dtype(dtype: DType) -> DType:
    """The dtype of the real part: float32 for complex64, and a real dtype itself."""
    return _REAL_OF.get(dtype, dtype)


def complex_dtype(dtype: DType) -> DType:
    """The complex dtype that holds a float dtype: complex64 for float32."""
    return _COMPLEX_OF.get(dtype, dtype)


@cache
def _promote_fixed(a: DType, b: DType) -> DType | None:
    """The promoted dtype; None where it is the default float dtype, which a context can change."""
    if a is b:
        return a
    if a.is_storage or b.is_storage:
        storage, other = (a, b) if a.is_storage else (b, a)
        to = float32 if other.is_storage else other
        raise DTypeError(
            f"{storage} and {other} have no common dtype: {storage} only stores values and is "
            f"never cast by itself; cast with x.astype('{to}')"
        )
    if _RANK[a.kind] < _RANK[b.kind]:
        a, b = b, a
    if a.kind == "complex":
        if b.kind == "complex":
            return complex128
        return complex128 if b is float64 else a
    if a.kind == "float":
        if b.kind != "float":
            return a
        if _FLOAT_BITS[a] == _FLOAT_BITS[b]:
            return float32
        return a if _FLOAT_BITS[a] > _FLOAT_BITS[b] else b
    if b.kind == "bool":
        return a
    if a.kind == b.kind:
        return a if a.itemsize > b.itemsize else b
    signed, unsigned = (a, b) if a.kind == "signed" else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    if unsigned is uint64:
        return None
    return _SIGNED[_UNSIGNED.index(unsigned) + 1]


def promote_types(a: DType, b: DType) -> DType:
    """The dtype of an operation on two tensors.

    Raises:
        DTypeError: one of them is no dtype, or a storage dtype and not the same as the other.

    >>> import ingle.tensor as it
    >>> it.promote_types(it.int8, it.uint8), it.promote_types(it.bfloat16, it.float16)
    (int16, float32)
    """
    try:
        found = _promote_fixed(a, b)
    except (AttributeError, TypeError):
        if isinstance(a, DType) and isinstance(b, DType):
            raise
        return promote_types(as_dtype(a), as_dtype(b))
    return default_float() if found is None else found


LARGEST_EXPONENT = 1024
"""Integers of fewer bits are finite in float64."""


def scalar_dtype(
    value: bool | float | complex | SymbolicInt, dtype: DType, name: str
) -> DType:  # fmt: skip
    """The dtype an operation of a Python number with a tensor of `dtype` computes in.

    A number is weak: it never widens the tensor's dtype within its kind. A float with an integer
    tensor computes in the default float dtype; a complex number with a real tensor in the complex
    dtype of its precision.
    """
    if dtype.is_storage:
        return _stored_number(value, dtype, name)
    if isinstance(value, bool):
        return dtype
    if isinstance(value, (int, SymbolicInt)):
        dtype = default_int() if dtype is bool_ else dtype
        if dtype.is_integer:
            _check_range(value, dtype, name)
        else:
            _check_finite(value, dtype, name)
        return dtype
    if isinstance(value, float):
        return dtype if dtype.is_inexact else default_float()
    if dtype.is_complex:
        return dtype
    return _COMPLEX_OF[dtype] if dtype.is_floating else default_complex()


def _stored_number(
    value: bool | float | complex | SymbolicInt, dtype: DType, name: str
) -> DType:  # fmt: skip
    """A storage dtype stays what it is, if it can hold the number."""
    if isinstance(value, complex) or (isinstance(value, float) and dtype.holds != "float"):
        raise DTypeError(
            f"{name}: the number {value} does not fit {dtype}, which only stores values; cast the "
            "tensor first, as in x.astype('float32')"
        )
    if isinstance(value, (int, SymbolicInt)) and dtype.holds != "float":
        _check_range(value, dtype, name)
    return dtype


def integer_range(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest number of a dtype that holds integers.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.dtypes import integer_range
    >>> integer_range(it.int4)
    (-8, 7)
    """
    if dtype.holds == "unsigned":
        return 0, (1 << dtype.bits) - 1
    return -(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1


def _check_finite(value: Any, dtype: DType, name: str) -> None:
    # A number that stands for others is not asked for its value, which would hold for it alone.
    if type(value) is int and value.bit_length() >= LARGEST_EXPONENT:
        raise DTypeError(
            f"{name}: the integer of {value.bit_length()} bits does not fit {dtype}; "
            "give infinity as float('inf')"
        )


def _check_range(value: Any, dtype: DType, name: str) -> None:
    low, high = integer_range(dtype)
    if not low <= value <= high:
        raise DTypeError(
            f"{name}: the number {value} does not fit {dtype} ({low} to {high}); cast the tensor "
            "first, as in x.astype('int64')"
        )
