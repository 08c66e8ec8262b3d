"""Shape rules, axis checks and gradient helpers that rooms share."""

from __future__ import annotations

import importlib
import math
import numbers
import operator
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ..contract import Aval, Shape
from ..dtypes import DType, as_dtype, bool_, float32
from ..errors import ArgumentError, AxisError, DTypeError, ShapeError
from ..operation import OPERATIONS, Rule
from ..static_values import SymbolicInt

if TYPE_CHECKING:
    from ..tensor import Tensor


def broadcast_shapes(name: str, *shapes: Shape, arguments: Sequence[str] = ()) -> Shape:
    """NumPy's broadcasting of several shapes; a `ShapeError` names the axis that does not fit.

    Args:
        name: of the function, for messages.
        shapes: to broadcast.
        arguments: whose shapes they are.
    """
    ndim = max(map(len, shapes))
    out: list[int] = []
    for axis in range(-ndim, 0):
        sizes = {s[axis] for s in shapes if len(s) >= -axis}
        wide = sizes - {1}
        if len(wide) > 1:
            named = [f"{a} {s}" for a, s in zip(arguments, shapes, strict=False)]
            given = ", ".join(named) or " and ".join(map(str, shapes))
            raise ShapeError(
                f"{name}: shapes {given} do not broadcast: at axis {axis} "
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
        given = " and ".join(_tensors(name))
        raise DTypeError(
            f"{name}: {given} must be {' or '.join(kinds)}, got {' and '.join(map(str, avals))}; "
            "cast with x.astype(...)"
        )
    if any(a.dtype is not dtype for a in avals):
        raise DTypeError(f"{name}: operands differ in dtype: {', '.join(map(str, avals))}")
    shape = avals[0].shape
    if any(a.shape != shape for a in avals):
        shape = broadcast_shapes(name, *(a.shape for a in avals), arguments=_tensors(name))
    if isinstance(result, DType):
        return Aval(shape, result)
    return Aval(shape, dtype if result is None else result(dtype))


def _tensors(name: str) -> Sequence[str]:
    """What an operation calls its inputs."""
    known = OPERATIONS.get(name)
    return ("x",) if known is None else known.tensors


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
        raise AxisError(f"{name}: {argument}={tuple(axis)} must not name an axis twice")
    return tuple(sorted(axes))


def as_int(value: object, name: str, argument: str) -> int:
    """A Python integer; refuses bools, floats and tensors, with the argument's name."""
    try:
        if isinstance(value, SymbolicInt):
            return value  # type: ignore[return-value]
        if not isinstance(value, bool):
            return operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # Arrays and tensors have the method, whatever they hold.
        pass
    raise ArgumentError(f"{name}: {argument} must be an integer, got {value!r:.60}") from None


def as_ints(value: object, name: str, argument: str) -> tuple[int, ...]:
    """An integer or a sequence of them as a tuple."""
    if type(value) is tuple or type(value) is list:
        return tuple([v if type(v) is int else as_int(v, name, argument) for v in value])
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(as_int(v, name, argument) for v in value)
    return (as_int(value, name, argument),)


def as_shape(value: object, name: str, argument: str = "shape") -> Shape:
    """A shape: an integer or integers, none of them negative."""
    if type(value) is tuple and len(value) == 1 and type(value[0]) is int:  # as norms are given it
        size = value[0]
        if 0 <= size <= LARGEST:
            return value
    shape = as_ints(value, name, argument)
    if shape and min(shape) < 0:
        raise ShapeError(f"{name}: {argument} must not have a negative size, got {shape}")
    if math.prod([n for n in shape if n]) > LARGEST:
        raise ShapeError(
            f"{name}: {argument} must not have more elements than memory can address, got {shape}"
        )
    return shape


LARGEST = (1 << 48) - 1
"""More elements have no place in the address space of any machine."""


MOST = (1 << 31) - 1
"""The largest size of what is counted or strided over: products of two fit 64 bits."""


def as_size(
    value: object, name: str, argument: str, least: int = 0, most: int = LARGEST
) -> int:  # fmt: skip
    """An integer that can be a size, between `least` and `most`."""
    size = as_int(value, name, argument)
    if not least <= size <= most:
        raise ShapeError(f"{name}: {argument} must be from {least} to {most}, got {size}")
    return size


def matrix_shape(name: str, n_rows: object, n_cols: object) -> tuple[int, int]:
    """The shape of a matrix, square if the number of its columns is None."""
    rows = as_size(n_rows, name, "n_rows")
    columns = rows if n_cols is None else as_size(n_cols, name, "n_cols")
    as_shape((rows, columns), name, "n_rows, n_cols")
    return rows, columns


def as_flag(value: object, name: str, argument: str) -> bool:
    """True or False; refuses what merely counts as one of them."""
    if type(value) is not bool:
        raise ArgumentError(f"{name}: {argument} must be True or False, got {value!r:.60}")
    return value


def check_numbers(name: str, **given: object) -> None:
    """Refuses what is neither a real number nor a tensor or array of one."""
    for argument, value in given.items():
        one = getattr(value, "size", 0) == 1
        if isinstance(value, bool) or not (isinstance(value, numbers.Real) or one):
            several = getattr(value, "size", 0) > 1 and hasattr(value, "shape")
            cure = "; draw without it, and scale and shift what is drawn" if several else ""
            raise ArgumentError(f"{name}: {argument} must be a number, got {value!r:.60}{cure}")


def as_number(value: object, name: str, argument: str) -> float:
    """A real number as a float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentError(f"{name}: {argument} must be a number, got {value!r:.60}")
    return float(value)


def dtype_argument(
    value: object, name: str, default: Callable[[], DType] | None = None, argument: str = "dtype"
) -> DType:
    """A dtype that was asked for; the default for None, if there is one."""
    if value is None and default is not None:
        return default()
    try:
        return as_dtype(value)
    except (DTypeError, TypeError, ValueError) as error:
        raise DTypeError(
            f"{name}: {argument} must be a dtype of Ingle, got {value!r:.60}: {error}"
        ) from None


def sum_to(g: Tensor, shape: Shape) -> Tensor:
    """A cotangent summed over the axes along which `shape` was broadcast."""
    if g.shape == shape:
        return g
    reshape, reduce_sum = _room("movement.shapes").reshape, _room("reductions.basic").sum
    extra = g.ndim - len(shape)
    axes = tuple(
        i for i, n in enumerate(g.shape) if i < extra or (shape[i - extra] == 1 and n != 1)
    )
    summed: Tensor = reduce_sum(g, axis=axes, keepdims=True) if axes else g
    whole: Tensor = reshape(summed, shape)
    return whole


@cache
def _room(name: str) -> Any:
    """A room that needs this module. It is asked for once: finalizers compute when Python goes
    down, and imports nothing any more."""
    return importlib.import_module(f".{name}", __package__)


def conj(x: Any) -> Any:
    """The complex conjugate in gradient rules: nothing to do for real tensors and numbers."""
    if isinstance(x, (bool, int, float)):
        return x
    if isinstance(x, complex):
        return x.conjugate()
    if not x.dtype.is_complex:
        return x
    return _room("elementwise.complex").conj(x)


def widened(x: Tensor) -> Tensor:
    """A float16 or bfloat16 tensor as float32, for sums in bodies; others as they are."""
    if x.dtype.itemsize != 2:
        return x
    wide: Tensor = _room("elementwise.cast").astype(x, float32)
    return wide
