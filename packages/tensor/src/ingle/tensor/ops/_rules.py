"""Shape rules, axis checks and gradient helpers that rooms share."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..contract import Aval, Shape
from ..dtypes import DType, bool_, float32
from ..errors import ArgumentError, AxisError, DTypeError, ShapeError
from ..operation import Rule

if TYPE_CHECKING:
    from ..tensor import Tensor


def broadcast_shapes(name: str, *shapes: Shape) -> Shape:
    """NumPy's broadcasting of several shapes; a `ShapeError` names the axis that does not fit."""
    ndim = max(map(len, shapes))
    out: list[int] = []
    for axis in range(-ndim, 0):
        sizes = {s[axis] for s in shapes if len(s) >= -axis}
        wide = sizes - {1}
        if len(wide) > 1:
            raise ShapeError(
                f"{name}: shapes {' and '.join(map(str, shapes))} do not broadcast: at axis {axis} "
                f"the sizes {' and '.join(map(str, sorted(sizes)))} differ and none is 1"
            )
        out.append(wide.pop() if wide else 1)
    return tuple(out)


Result = DType | Callable[[DType], DType] | None
"""An output's dtype: the inputs' (None), a certain one, or a function of the inputs'."""


def elementwise_rule(
    name: str, kinds: tuple[str, ...] | None = None, result: Result = None
) -> Rule:
    """Inputs broadcast and have one dtype, of one of `kinds`; the output's is `result`."""
    return partial(_elementwise, name, kinds, result)


def _elementwise(name: str, kinds: tuple[str, ...] | None, result: Result, *avals: Aval) -> Aval:
    dtype = avals[0].dtype
    if kinds is not None and dtype.kind not in kinds:
        raise DTypeError(
            f"{name}: needs {' or '.join(kinds)}, got {dtype}; cast first with x.astype(...)"
        )
    if any(a.dtype is not dtype for a in avals):
        raise DTypeError(f"{name}: operands differ in dtype: {', '.join(map(str, avals))}")
    shape = avals[0].shape
    if any(a.shape != shape for a in avals):
        shape = broadcast_shapes(name, *(a.shape for a in avals))
    if isinstance(result, DType):
        return Aval(shape, result)
    return Aval(shape, dtype if result is None else result(dtype))


NUMERIC = ("unsigned", "signed", "float", "complex")
REAL = ("unsigned", "signed", "float")
ORDERED = ("bool", "unsigned", "signed", "float")
INTEGRAL = ("bool", "unsigned", "signed")
INEXACT = ("float", "complex")
BOOL = bool_


def normalize_axis(axis: object, ndim: int, name: str, argument: str = "axis") -> int:
    """An axis as a number in [0, ndim)."""
    number = as_int(axis, name, argument)
    if not -ndim <= number < ndim:
        have = f"{-ndim} to {ndim - 1}" if ndim else "none, it is 0-d"
        raise AxisError(f"{name}: {argument}={number} is out of range; the tensor has axes {have}")
    return number % ndim


def normalize_axes(axis: object, ndim: int, name: str, argument: str = "axis") -> tuple[int, ...]:
    """`None` (all axes), an axis or several as a sorted tuple of numbers in [0, ndim)."""
    if axis is None:
        return tuple(range(ndim))
    if not isinstance(axis, (tuple, list)):
        return (normalize_axis(axis, ndim, name, argument),)
    axes = tuple(normalize_axis(a, ndim, name, argument) for a in axis)
    if len(set(axes)) != len(axes):
        raise AxisError(f"{name}: {argument}={tuple(axis)} names an axis twice")
    return tuple(sorted(axes))


def as_int(value: object, name: str, argument: str) -> int:
    """A Python integer; refuses bools, floats and tensors, with the argument's name."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ArgumentError(f"{name}: {argument} must be an integer, got {value!r}")
    return operator.index(value)


def as_ints(value: object, name: str, argument: str) -> tuple[int, ...]:
    """An integer or a sequence of them as a tuple."""
    if type(value) is tuple or type(value) is list:
        return tuple([v if type(v) is int else as_int(v, name, argument) for v in value])
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(as_int(v, name, argument) for v in value)
    return (as_int(value, name, argument),)


def as_shape(value: object, name: str, argument: str = "shape") -> Shape:
    """A shape: an integer or integers, none of them negative."""
    shape = as_ints(value, name, argument)
    if any(n < 0 for n in shape):
        raise ShapeError(f"{name}: {argument}={shape} has a negative size")
    if math.prod(n for n in shape if n) >= 1 << 62:
        raise ShapeError(f"{name}: {argument}={shape} has more elements than memory can address")
    return shape


def sum_to(g: Tensor, shape: Shape) -> Tensor:
    """A cotangent summed over the axes along which `shape` was broadcast."""
    if g.shape == shape:
        return g
    from .manipulation import reshape
    from .reductions import sum as reduce_sum

    extra = g.ndim - len(shape)
    axes = tuple(
        i for i, n in enumerate(g.shape) if i < extra or (shape[i - extra] == 1 and n != 1)
    )
    return reshape(reduce_sum(g, axis=axes, keepdims=True), shape) if axes else reshape(g, shape)


def conj(x: Any) -> Any:
    """The complex conjugate in gradient rules: nothing to do for real tensors and numbers."""
    if isinstance(x, (bool, int, float)):
        return x
    if isinstance(x, complex):
        return x.conjugate()
    if not x.dtype.is_complex:
        return x
    from .complex import conj as conj_room

    return conj_room(x)


def widened(x: Tensor) -> Tensor:
    """A float16 or bfloat16 tensor as float32, for sums in bodies; others as they are."""
    from .cast import astype

    return astype(x, float32) if x.dtype.itemsize == 2 else x
