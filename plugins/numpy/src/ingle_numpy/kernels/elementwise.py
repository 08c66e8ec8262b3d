"""Elementwise kernels: NumPy's ufuncs, which broadcast and take any strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

from ..memory import LARGE, empty_like, output
from .error_function import erf
from .integers import whole
from .quotients import floor_divide, logaddexp, remainder

Kernel = Callable[..., Any]


def unary(function: np.ufunc) -> Kernel:
    """A kernel that calls a ufunc on its array."""

    def kernel(op: Op, x: np.ndarray) -> Any:
        if x.nbytes < LARGE:
            return function(x)
        return function(x, out=output(op, function, x))

    return kernel


def binary(function: np.ufunc) -> Kernel:
    """A kernel that calls a ufunc on its two arrays."""

    def kernel(op: Op, x1: np.ndarray, x2: np.ndarray) -> Any:
        if x1.nbytes < LARGE and x2.nbytes < LARGE:
            return function(x1, x2)
        return function(x1, x2, out=output(op, function, x1, x2))

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


def _astype(op: Op, x: np.ndarray) -> Any:
    dtype = op.attributes["dtype"].dtype
    if dtype.kind in "iu" and (x.dtype.kind == "f" or is_half(x)):
        return whole(x, dtype)
    if x.nbytes < LARGE:
        return x.astype(dtype)
    out = empty_like(x, dtype, op)
    np.copyto(out, x, casting="unsafe")
    return out


_multiply = binary(np.multiply)


def _square(op: Op, x: np.ndarray) -> Any:
    return _multiply(op, x, x)


_power = binary(np.power)


def _pow(op: Op, x1: np.ndarray, x2: np.ndarray) -> Any:
    if x1.dtype.kind != "i" or not np.any(np.less(x2, 0)):
        return _power(op, x1, x2)
    # NumPy refuses integers to negative powers. Cut towards zero they are 0, but for 1 and -1.
    power = np.power(x1, np.abs(x2))
    return np.where(np.logical_and(np.less(x2, 0), np.abs(x1) != 1), x1.dtype.type(0), power)


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


_plain_tanh = unary(np.tanh)


def _tanh(op: Op, x: np.ndarray) -> Any:
    out = _plain_tanh(op, x)
    if x.dtype.kind == "c":
        # As the Array API standard has it; C's Annex G takes the sign of sin(2 * imag).
        limit = np.isinf(x.real) & np.isfinite(x.imag)
        if np.any(limit):
            imaginary = np.where(limit, np.copysign(0, x.imag), out.imag)
            return (out.real + 1j * imaginary).astype(x.dtype)
    return out


def _rsqrt(x: np.ndarray) -> Any:
    root = np.sqrt(x)
    return np.reciprocal(root, out=root if type(root) is np.ndarray else None)


def _clip(op: Op, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> Any:
    if x.nbytes < LARGE or low.shape or high.shape:
        return np.minimum(np.maximum(x, low), high)
    out = empty_like(x, x.dtype, op)
    return np.minimum(np.maximum(x, low, out=out), high, out=out)


def _real(op: Op, x: np.ndarray) -> np.ndarray:
    return x.real


def _imag(op: Op, x: np.ndarray) -> np.ndarray:
    return x.imag


UNARY: dict[str, np.ufunc] = {
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
BINARY: dict[str, np.ufunc] = {
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
    "gcd": np.gcd,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "lcm": np.lcm,
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
    "floor_divide": floor_divide,
    "hypot": np.hypot,
    "logaddexp": logaddexp,
    "remainder": remainder,
    "rsqrt": _rsqrt,
}


def _bitcast(op: Op, x: np.ndarray) -> np.ndarray:
    return x.view(op.attributes["dtype"].dtype)


KERNELS: dict[str, Kernel] = {
    **{name: unary(f) for name, f in UNARY.items()},
    **{name: binary(f) for name, f in BINARY.items()},
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
