"""What each operation is in ONNX; composites without a rule are written as their bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ingle.tensor.contract import Aval, Scalar

from ..errors import UnsupportedError
from .writer import Dim, Size, Writer

INT64 = np.dtype(np.int64)


@dataclass
class Call:
    """One operation at work.

    Attributes:
        w: where it is written.
        name: of the operation.
        inputs: names of tensors.
        given: the operands as they are in the program: avals, or weak scalars.
        results: shapes and dtypes of what it returns.
        statics: its attributes, in which sizes may be unknown.
        shape_of: gives the shape of an operand, in which sizes may be unknown.
    """

    w: Writer
    name: str
    inputs: list[str]
    given: list[Aval | Scalar]
    results: list[Aval]
    statics: Mapping[str, Any]
    shape_of: Callable[[int], tuple[Size, ...]]

    @property
    def dtype(self) -> np.dtype:
        return self.results[0].dtype.dtype

    def dtype_of(self, i: int) -> np.dtype:
        return self.given[i].dtype.dtype

    def ndim(self, i: int) -> int:
        x = self.given[i]
        return 0 if isinstance(x, Scalar) else len(x.shape)

    def absent(self, i: int) -> bool:
        """Whether an optional tensor is missing: a number stands for it."""
        return isinstance(self.given[i], Scalar)


Rule = Callable[[Call], str | Sequence[str] | None]
"""Writes nodes and gives the names of the results, or None where the body has to be written."""
RULES: dict[str, Rule] = {}

SAME = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh",
    "atan": "Atan", "atanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh",
    "erf": "Erf", "exp": "Exp", "floor": "Floor", "log": "Log", "matmul": "MatMul",
    "maximum": "Max", "minimum": "Min", "multiply": "Mul", "pow": "Pow",
    "reciprocal": "Reciprocal", "relu": "Relu", "round": "Round", "sigmoid": "Sigmoid",
    "sign": "Sign", "sin": "Sin", "sinh": "Sinh", "softsign": "Softsign", "sqrt": "Sqrt",
    "subtract": "Sub", "tan": "Tan", "tanh": "Tanh", "where": "Where", "equal": "Equal",
    "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater",
    "greater_equal": "GreaterOrEqual", "logical_not": "Not",
    "mish": "Mish", "stop_gradient": "Identity", "conj": "Identity", "real": "Identity",
}  # fmt: skip
"""Operations that ONNX has under another name."""
BITS = {"bitwise_and": ("And", "BitwiseAnd"), "bitwise_or": ("Or", "BitwiseOr"),
        "bitwise_xor": ("Xor", "BitwiseXor"), "bitwise_invert": ("Not", "BitwiseNot")}  # fmt: skip
REDUCTIONS = {"sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin",
              "mean": "ReduceMean"}  # fmt: skip


def rule(*names: str) -> Callable[[Rule], Rule]:
    def enter(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return enter


def _same(kind: str) -> Rule:
    return lambda c: c.w.node(kind, *c.inputs)


for _name, _kind in SAME.items():
    RULES[_name] = _same(_kind)


@rule("add")
def _add(c: Call) -> str:
    if c.dtype.kind == "b":
        return c.w.node("Or", *c.inputs)
    return c.w.node("Add", *c.inputs)


@rule("negative")
def _negative(c: Call) -> str:
    if c.dtype.kind == "u":
        return c.w.node("Sub", c.w.constant(0, c.dtype), c.inputs[0])
    return c.w.node("Neg", c.inputs[0])


@rule("isnan")
def _isnan(c: Call) -> str:
    if c.dtype_of(0).kind == "f":
        return c.w.node("IsNaN", c.inputs[0])
    return c.w.expand(c.w.constant(False), c.shape_of(0), c.dtype)


@rule("depend")
def _depend(c: Call) -> str:
    return c.w.node("Identity", c.inputs[0])


@rule(*BITS)
def _bits(c: Call) -> str:
    return c.w.node(BITS[c.name][c.dtype.kind != "b"], *c.inputs)


@rule("bitwise_left_shift", "bitwise_right_shift")
def _shift(c: Call) -> str:
    return c.w.node("BitShift", *c.inputs, direction="LEFT" if "left" in c.name else "RIGHT")


@rule("divide")
def _divide(c: Call) -> str:
    return c.w.node("Div", *c.inputs)


@rule("floor_divide")
def _floor_divide(c: Call) -> str:
    x, y = c.inputs
    if c.dtype.kind == "f":
        return c.w.node("Floor", c.w.node("Div", x, y))
    return c.w.node("Div", c.w.node("Sub", x, c.w.node("Mod", x, y)), y)


@rule("remainder")
def _remainder(c: Call) -> str:
    x, y = c.inputs
    if c.dtype.kind != "f":
        return c.w.node("Mod", x, y)
    whole = c.w.node("Floor", c.w.node("Div", x, y))
    return c.w.node("Sub", x, c.w.node("Mul", whole, y))


@rule("trunc")
def _trunc(c: Call) -> str:
    size = c.w.node("Floor", c.w.node("Abs", c.inputs[0]))
    return c.w.node("Mul", c.w.node("Sign", c.inputs[0]), size)


@rule("det")
def _det(c: Call) -> str:
    return c.w.node("Det", c.inputs[0])


@rule("atan2")
def _atan2(c: Call) -> str:
    """The angle of a point: the arc tangent of a quotient, half a turn further on the left."""
    y, x = c.inputs
    zero, half = c.w.constant(0, c.dtype), c.w.constant(np.pi, c.dtype)
    up = c.w.node("Not", c.w.node("Less", y, zero))
    turn = c.w.node("Where", up, half, c.w.node("Neg", half))
    there = c.w.node("Where", c.w.node("Less", x, zero), turn, zero)
    nowhere = c.w.node("And", *(c.w.node("Equal", t, zero) for t in (x, y)))
    slope = c.w.node("Div", y, c.w.node("Where", nowhere, c.w.constant(1, c.dtype), x))
    return c.w.node("Add", c.w.node("Atan", slope), there)


@rule("expm1")
def _expm1(c: Call) -> str:
    return c.w.node("Sub", c.w.node("Exp", c.inputs[0]), c.w.constant(1, c.dtype))


@rule("log1p")
def _log1p(c: Call) -> str:
    return c.w.node("Log", c.w.node("Add", c.inputs[0], c.w.constant(1, c.dtype)))


@rule("astype")
def _astype(c: Call) -> str:
    return c.w.cast(c.inputs[0], c.dtype)


@rule("reshape")
def _reshape(c: Call) -> str:
    sizes: list[Size] = list(c.statics["shape"])
    unknown = [n for n in sizes if isinstance(n, Dim)]
    if len(unknown) == 1 and 0 not in sizes:
        sizes = [-1 if isinstance(n, Dim) else n for n in sizes]
    return c.w.reshape(c.inputs[0], sizes)


@rule("permute_dims")
def _permute(c: Call) -> str:
    return c.w.node("Transpose", c.inputs[0], perm=list(c.statics["axes"]))


@rule("broadcast_to")
def _broadcast(c: Call) -> str:
    return c.w.expand(c.inputs[0], c.statics["shape"], c.dtype)


@rule("full")
def _full(c: Call) -> str:
    value = c.inputs[0] if c.dtype_of(0) == c.dtype else c.w.cast(c.inputs[0], c.dtype)
    return c.w.expand(value, c.statics["shape"], c.dtype)


@rule("iota")
def _iota(c: Call) -> str:
    size = c.statics["size"]
    start, step = c.given
    if isinstance(size, int) and isinstance(start, Scalar) and isinstance(step, Scalar):
        return c.w.constant(start.value + step.value * np.arange(size), c.dtype)
    steps = c.w.arange(size)
    first, by = (c.w.cast(x, c.dtype) for x in c.inputs)
    return c.w.node("Add", first, c.w.node("Mul", c.w.cast(steps, c.dtype), by))


@rule("slice")
def _slice(c: Call) -> str:
    x, starts = c.inputs[0], c.given[1:]
    n = c.ndim(0)
    steps = list(c.statics["steps"] or [1] * n)
    sizes = list(c.statics["sizes"])
    axes = c.w.constant(list(range(n)), INT64)
    if all(isinstance(s, Scalar) for s in starts) and all(isinstance(k, int) for k in sizes):
        first = [int(s.value.real) for s in starts if isinstance(s, Scalar)]
        ends = [a + k * by for a, k, by in zip(first, sizes, steps, strict=True)]
        ends = [e if e >= 0 else -(1 << 62) for e in ends]
        begin, end = c.w.constant(first, INT64), c.w.constant(ends, INT64)
    else:
        one = c.w.constant([1], INT64)
        cells = [c.w.node("Reshape", c.w.cast(s, INT64), one) for s in c.inputs[1:]]
        begin = c.w.node("Concat", *cells, axis=0)
        reach = c.w.node("Mul", c.w.shape(sizes), c.w.constant(steps, INT64))
        end = c.w.node("Add", begin, reach)
        if min(steps) < 0:
            low = c.w.constant(-(1 << 62), INT64)
            end = c.w.node("Where", c.w.node("Less", end, c.w.constant(0, INT64)), low, end)
    return c.w.node("Slice", x, begin, end, axes, c.w.constant(steps, INT64))


@rule("slice_update")
def _slice_update(c: Call) -> str:
    x, y = c.inputs[:2]
    if isinstance(c.given[1], Scalar):
        raise UnsupportedError("export: writing a number into a slice is not supported")
    return c.w.node("ScatterND", x, _places(c), y)


def _places(c: Call) -> str:
    """The indices of all elements of a slice: one axis each, and one behind them for the axes."""
    starts, sizes, n = c.given[2:], c.shape_of(1), c.ndim(0)
    steps = list(c.statics["steps"] or [1] * n)
    first = [s.value for s in starts if isinstance(s, Scalar)]
    known = [k for k in sizes if isinstance(k, int)]
    if len(first) == n == len(known):
        lines = [
            int(a.real) + by * np.arange(k) for a, by, k in zip(first, steps, known, strict=True)
        ]
        return c.w.constant(np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1), INT64)
    shape, planes = c.w.shape([*sizes, 1]), []
    for axis, (start, by, k) in enumerate(zip(c.inputs[2:], steps, sizes, strict=True)):
        line = c.w.arange(k)
        line = c.w.node("Mul", line, c.w.constant(by, INT64)) if by != 1 else line
        line = c.w.node("Add", line, c.w.cast(start, INT64))
        line = c.w.reshape(line, [-1 if a == axis else 1 for a in range(n + 1)])
        planes.append(c.w.node("Expand", line, shape))
    return c.w.node("Concat", *planes, axis=-1)


@rule("concat")
def _concat(c: Call) -> str:
    return c.w.node("Concat", *c.inputs, axis=c.statics["axis"])


@rule("take")
def _take(c: Call) -> str:
    return c.w.node("Gather", *c.inputs, axis=c.statics["axis"])


@rule("take_along_axis")
def _take_along(c: Call) -> str:
    return c.w.node("GatherElements", *c.inputs, axis=c.statics["axis"])


@rule("scatter_add", "scatter_set")
def _scatter(c: Call) -> str:
    """Slices along an axis, which comes first for as long."""
    axis, n = c.statics["axis"] % c.ndim(0), c.ndim(0)
    if c.ndim(1) != 1:
        raise UnsupportedError(f"export: {c.name} by indices of {c.ndim(1)} axes is not supported")
    x, indices, updates = c.inputs
    order = [axis, *[a for a in range(n) if a != axis]]
    if axis:
        x, updates = (c.w.node("Transpose", t, perm=order) for t in (x, updates))
    rows = c.w.node("Unsqueeze", c.w.cast(indices, INT64), c.w.constant([1], INT64))
    how = "add" if c.name == "scatter_add" else "none"
    done = c.w.node("ScatterND", x, rows, updates, reduction=how)
    return c.w.node("Transpose", done, perm=list(np.argsort(order))) if axis else done


def axes_of(c: Call) -> list[int]:
    """The axes of a reduction."""
    axis = c.statics["axis"]
    if axis is None:
        return list(range(c.ndim(0)))
    return [axis] if isinstance(axis, int) else list(axis)


@rule(*REDUCTIONS)
def _reduce(c: Call) -> str:
    x, dtype = c.inputs[0], c.dtype_of(0)
    work = np.dtype(np.int32) if dtype.kind == "b" else dtype
    x = x if work == dtype else c.w.cast(x, work)
    y = c.w.node(
        REDUCTIONS[c.name], x, c.w.constant(axes_of(c), INT64),
        keepdims=int(c.statics["keepdims"]), noop_with_empty_axes=1,
    )  # fmt: skip
    return y if work == c.dtype else c.w.cast(y, c.dtype)


@rule("argmax", "argmin")
def _argument(c: Call) -> str:
    x, axis, keep = c.inputs[0], c.statics["axis"], bool(c.statics["keepdims"])
    if axis is None:
        x, axis = c.w.node("Reshape", x, c.w.constant([-1], INT64)), 0
    kind = "ArgMax" if c.name == "argmax" else "ArgMin"
    return c.w.cast(c.w.node(kind, x, axis=axis, keepdims=int(keep)), c.dtype)


@rule("argsort")
def _argsort(c: Call) -> str:
    axis = c.statics["axis"]
    count = c.w.node("Shape", c.inputs[0], start=axis, end=axis + 1)
    down = int(bool(c.statics["descending"]))
    found = c.w.nodes_of("TopK", [c.inputs[0], count], 2, axis=axis, largest=down)
    return c.w.cast(found[1], c.dtype)


@rule("cumulative_sum")
def _cumulative_sum(c: Call) -> str:
    return c.w.node("CumSum", c.inputs[0], c.w.constant(c.statics["axis"], INT64))


@rule("softmax", "log_softmax")
def _softmax(c: Call) -> str:
    kind = "Softmax" if c.name == "softmax" else "LogSoftmax"
    return c.w.node(kind, c.inputs[0], axis=c.statics["axis"])


@rule("linear")
def _linear(c: Call) -> str:
    x, weight, bias = c.inputs
    rest = [] if c.absent(2) else [bias]
    if c.ndim(0) == 2:
        return c.w.node("Gemm", x, weight, *rest, transB=1)
    y = c.w.node("MatMul", x, c.w.node("Transpose", weight, perm=[1, 0]))
    return c.w.node("Add", y, *rest) if rest else y


@rule("batch_norm")
def _batch_norm(c: Call) -> Sequence[str]:
    x, mean, var, weight, bias = c.inputs
    if c.absent(3):
        weight = c.w.expand(c.w.constant(1, c.dtype), c.shape_of(1), c.dtype)
    if c.absent(4):
        bias = c.w.expand(c.w.constant(0, c.dtype), c.shape_of(1), c.dtype)
    return [c.w.node("BatchNormalization", x, weight, bias, mean, var, epsilon=c.statics["eps"])]
