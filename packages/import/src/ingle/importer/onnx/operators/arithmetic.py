"""Arithmetic, elementwise."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor

from ...errors import ModelError
from ..registry import operator
from ..values import Array, Host, Operand, Value, cast, namespace, numpy_dtype

UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "BitwiseNot": "bitwise_invert", "Ceil": "ceil", "Cos": "cos",
    "Cosh": "cosh", "Exp": "exp", "Floor": "floor", "IsNaN": "isnan", "Log": "log",
    "Neg": "negative", "Not": "logical_not", "Reciprocal": "reciprocal", "Round": "round",
    "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
"""Functions of one number by their name in the Array API standard."""

BINARY = {
    "Add": "add", "And": "logical_and", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "Equal": "equal", "Greater": "greater",
    "GreaterOrEqual": "greater_equal", "Less": "less", "LessOrEqual": "less_equal",
    "Mul": "multiply", "Or": "logical_or", "Sub": "subtract", "Xor": "logical_xor",
}  # fmt: skip
"""Functions of two numbers, likewise."""

VARIADIC = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


def _unary(kind: str, name: str) -> None:
    def apply(x: Array, *, consumed_inputs: list[int] | None = None) -> Array:
        del consumed_inputs  # where a result may lie, in opsets before 6
        return getattr(namespace(x), name)(x)

    operator(kind)(apply)


def _binary(kind: str, name: str) -> None:
    def apply(x: Operand, y: Operand) -> Array:
        return getattr(namespace(x, y), name)(x, y)

    def before_7(x: Array, y: Array, *, axis: int = -1, broadcast: int = 0,
                 consumed_inputs: list[int] | None = None) -> Array:  # fmt: skip
        return apply(x, placed(y, x.ndim, axis) if broadcast else y)

    operator(kind, 7)(apply)
    operator(kind, 1)(before_7)


def _variadic(kind: str, name: str) -> None:
    def apply(*xs: Array, consumed_inputs: list[int] | None = None) -> Array:
        return reduce(getattr(namespace(*xs), name), xs)

    operator(kind)(apply)


for _kind, _name in UNARY.items():
    _unary(_kind, _name)
for _kind, _name in BINARY.items():
    _binary(_kind, _name)
for _kind, _name in VARIADIC.items():
    _variadic(_kind, _name)


def placed(y: Array, ndim: int, axis: int) -> Array:
    """`y` with axes behind it, so that its own begin at `axis` of `ndim`."""
    behind = 0 if axis < 0 else ndim - axis - y.ndim
    if behind <= 0:
        return y
    return namespace(y).reshape(y, (*y.shape, *[1] * behind))


@operator("Div", 7)
def div(x: Operand, y: Operand) -> Array:
    """The quotient; that of integers goes towards zero, as in C."""
    xp = namespace(x, y)
    dtype = numpy_dtype(x if hasattr(x, "dtype") else y)
    if dtype.kind not in "iu":
        return xp.divide(x, y)
    down = xp.floor_divide(x, y)
    if dtype.kind == "u":
        return down
    inexact = xp.multiply(down, y) != x
    return down + xp.astype(xp.logical_and(inexact, down < 0), down.dtype)


@operator("Div", 1)
def div_before_7(x: Array, y: Array, *, axis: int = -1, broadcast: int = 0,
                 consumed_inputs: list[int] | None = None) -> Array:  # fmt: skip
    return div(x, placed(y, x.ndim, axis) if broadcast else y)


@operator("Pow", 7)
def power(x: Operand, y: Value) -> Array:
    """`x` to the power of `y`, in the dtype of `x`."""
    xp = namespace(x, y)
    if xp is it:
        x = x if isinstance(x, Tensor) else it.asarray(x, device=y.device)
    dtype = numpy_dtype(x)
    if isinstance(y, np.ndarray) and xp is it:
        y = (
            y.item()
            if y.ndim == 0 and (dtype.kind == "f" or y.dtype.kind in "iu")
            else it.asarray(y, device=x.device)
        )
    if isinstance(y, (int, float)):
        return cast(xp.pow(x, y), dtype)
    if numpy_dtype(y) != dtype and dtype.kind not in "iu":
        y = cast(y, dtype)
    elif numpy_dtype(y) != dtype:
        wide = np.result_type(numpy_dtype(y), dtype)
        x, y = cast(x, wide), cast(y, wide)
    return cast(xp.pow(x, y), dtype)


@operator("Pow", 1)
def power_before_7(x: Array, y: Array, *, axis: int = -1, broadcast: int = 0) -> Array:
    return power(x, placed(y, x.ndim, axis) if broadcast else y)


@operator("Mod")
def mod(x: Operand, y: Operand, *, fmod: int = 0) -> Array:
    """The remainder; with the divisor's sign, or with `fmod` the dividend's."""
    xp = namespace(x, y)
    return xp.fmod(x, y) if fmod else xp.remainder(x, y)


@operator("Mean")
def mean(*xs: Array, consumed_inputs: list[int] | None = None) -> Array:
    """The mean of tensors."""
    return reduce(namespace(*xs).add, xs) / len(xs)


@operator("BitShift")
def bit_shift(x: Array, y: Array, *, direction: str) -> Array:
    """Bits moved to the left or the right; where the width is reached only the sign is left."""
    xp = namespace(x, y)
    if direction not in ("LEFT", "RIGHT"):
        raise ModelError(f"BitShift: direction must be LEFT or RIGHT, got {direction!r}")
    bits = 8 * numpy_dtype(x).itemsize
    if direction == "RIGHT" and numpy_dtype(x).kind == "i":
        return xp.bitwise_right_shift(x, xp.minimum(y, xp.full_like(y, bits - 1)))
    shift = xp.bitwise_left_shift if direction == "LEFT" else xp.bitwise_right_shift
    inside = y < bits
    moved = shift(x, xp.where(inside, y, xp.zeros_like(y)))
    return xp.where(inside, moved, xp.zeros_like(moved))


@operator("Clip", 11)
def clip(x: Operand, low: Operand | None = None, high: Operand | None = None) -> Array:
    """Kept between two bounds; the upper one wins where they cross."""
    xp = namespace(x)
    if low is not None:
        x = xp.maximum(x, low)
    return x if high is None else xp.minimum(x, high)


@operator("Clip", 1)
def clip_before_11(
    x: Array, *, min: float | None = None, max: float | None = None,  # noqa: A002
    consumed_inputs: list[int] | None = None,
) -> Array:  # fmt: skip
    return namespace(x).clip(x, min, max)


@operator("IsInf")
def is_inf(x: Array, *, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    """Whether it is an infinity of a sign that is asked for."""
    xp = namespace(x)
    if numpy_dtype(x).kind != "f" and xp is np:
        x = x.astype(np.float32)
    found = xp.isinf(x)
    if not detect_negative:
        found = xp.logical_and(found, x > 0)
    return found if detect_positive else xp.logical_and(found, x < 0)


@operator("Erf")
def erf(x: Tensor) -> Tensor:
    """The error function."""
    return it.erf(x)


def _running(name: str) -> Any:
    def apply(x: Tensor, axis: Host, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
        at = int(axis.reshape(-1)[0]) % x.ndim
        x = it.flip(x, axis=at) if reverse else x
        sums: Tensor = getattr(it, name)(x, axis=at, dtype=x.dtype, include_initial=bool(exclusive))
        if exclusive:
            sums = sums[(slice(None),) * at + (slice(0, x.shape[at]),)]
        return it.flip(sums, axis=at) if reverse else sums

    return apply


operator("CumSum")(_running("cumulative_sum"))
operator("CumProd")(_running("cumulative_prod"))
