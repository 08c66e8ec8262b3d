"""Elementwise kernels: NumPy's ufuncs, which broadcast and take any strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

from .error_function import erf

Kernel = Callable[..., Any]


def unary(function: Kernel) -> Kernel:
    """A kernel that calls a ufunc on its array."""

    def kernel(op: Op, x: np.ndarray) -> Any:
        return function(x)

    return kernel


def binary(function: Kernel) -> Kernel:
    """A kernel that calls a ufunc on its two arrays."""

    def kernel(op: Op, x1: np.ndarray, x2: np.ndarray) -> Any:
        return function(x1, x2)

    return kernel


def is_half(x: Any) -> bool:
    """Whether an array or scalar is float16 or bfloat16 (whose kind is V, as of any new dtype)."""
    return bool(x.dtype.itemsize == 2 and x.dtype.kind in "fV")


def through_float32(function: Kernel) -> Kernel:
    """A kernel that computes half types in float32 and rounds once."""

    def kernel(op: Op, *arrays: np.ndarray) -> Any:
        if not is_half(arrays[0]):
            return function(*arrays)
        return function(*[x.astype(np.float32) for x in arrays]).astype(arrays[0].dtype)

    return kernel


def _astype(op: Op, x: np.ndarray) -> np.ndarray:
    return x.astype(op.attributes["dtype"].dtype)


def _square(op: Op, x: np.ndarray) -> Any:
    return np.multiply(x, x)


def _pow(op: Op, x1: np.ndarray, x2: np.ndarray) -> Any:
    if x1.dtype.kind != "i" or not np.any(np.less(x2, 0)):
        return np.power(x1, x2)
    # NumPy refuses integers to negative powers. Cut towards zero they are 0, but for 1 and -1.
    power = np.power(x1, np.abs(x2))
    return np.where(np.logical_and(np.less(x2, 0), np.abs(x1) != 1), x1.dtype.type(0), power)


def _floor_divide(x1: np.ndarray, x2: np.ndarray) -> Any:
    out = np.floor_divide(x1, x2)
    if out.dtype.kind != "f":
        return out
    # Where NumPy follows Python, the Array API standard has the quotient rounded down.
    infinite = np.isinf(x1) | np.isinf(x2)
    return np.where(infinite, np.floor(np.divide(x1, x2)), out) if np.any(infinite) else out


def _expm1(op: Op, x: np.ndarray) -> Any:
    if x.dtype.kind != "c":
        return np.expm1(x)
    # NumPy's own misses the special values of C's Annex G.
    a, b = x.real, x.imag
    out = np.empty_like(x)
    half = np.sin(b / 2)
    out.real = np.expm1(a) * np.cos(b) - 2 * half * half
    out.imag = np.exp(a) * np.sin(b)
    on_axis, vague = b == 0, ~np.isfinite(b)
    out.imag = np.where(on_axis, b, np.where(vague & (a == -np.inf), 0, out.imag))
    limits = vague & np.isinf(a)
    out.real = np.where(on_axis, np.expm1(a) + 0.0, np.where(limits, np.expm1(a), out.real))
    return out


def _tanh(op: Op, x: np.ndarray) -> Any:
    out = np.tanh(x)
    if x.dtype.kind == "c":
        # As the Array API standard has it; C's Annex G takes the sign of sin(2 * imag).
        limit = np.isinf(x.real) & np.isfinite(x.imag)
        if np.any(limit):
            imaginary = np.where(limit, np.copysign(0, x.imag), out.imag)
            return (out.real + 1j * imaginary).astype(x.dtype)
    return out


def _rsqrt(x: np.ndarray) -> Any:
    return np.reciprocal(np.sqrt(x))


def _clip(op: Op, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> Any:
    return np.minimum(np.maximum(x, low), high)


def _real(op: Op, x: np.ndarray) -> np.ndarray:
    return x.real


def _imag(op: Op, x: np.ndarray) -> np.ndarray:
    return x.imag


_UNARY: dict[str, Kernel] = {
    "abs": np.absolute,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "bitwise_invert": np.invert,
    "ceil": np.ceil,
    "conj": np.conjugate,
    "cos": np.cos,
    "cosh": np.cosh,
    "exp": np.exp,
    "floor": np.floor,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "logical_not": np.logical_not,
    "negative": np.negative,
    "reciprocal": np.reciprocal,
    "round": np.rint,
    "sign": np.sign,
    "signbit": np.signbit,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "trunc": np.trunc,
}
_BINARY: dict[str, Kernel] = {
    "add": np.add,
    "atan2": np.arctan2,
    "bitwise_and": np.bitwise_and,
    "bitwise_left_shift": np.left_shift,
    "bitwise_or": np.bitwise_or,
    "bitwise_right_shift": np.right_shift,
    "bitwise_xor": np.bitwise_xor,
    "copysign": np.copysign,
    "divide": np.divide,
    "equal": np.equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "nextafter": np.nextafter,
    "not_equal": np.not_equal,
    "subtract": np.subtract,
}
_THROUGH_FLOAT32: dict[str, Kernel] = {
    "erf": erf,
    "floor_divide": _floor_divide,
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
    "remainder": np.remainder,
    "rsqrt": _rsqrt,
}


def _bitcast(op: Op, x: np.ndarray) -> np.ndarray:
    return x.view(op.attributes["dtype"].dtype)


KERNELS: dict[str, Kernel] = {
    **{name: unary(f) for name, f in _UNARY.items()},
    **{name: binary(f) for name, f in _BINARY.items()},
    **{name: through_float32(f) for name, f in _THROUGH_FLOAT32.items()},
    "astype": _astype,
    "bitcast": _bitcast,
    "clip": _clip,
    "expm1": _expm1,
    "imag": _imag,
    "pow": _pow,
    "real": _real,
    "square": _square,
    "tanh": _tanh,
}
