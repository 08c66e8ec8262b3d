"""Facts of operations that plans and calls of single operations depend on, as sets of names."""

from __future__ import annotations

from ingle.tensor.operation import OPERATIONS, Traits

CHEAP = {
    "abs", "add", "astype", "bitwise_and", "bitwise_invert", "bitwise_or", "bitwise_xor",
    "clip", "equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less",
    "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum",
    "minimum", "multiply", "negative", "not_equal", "sign", "square", "subtract", "where",
}  # fmt: skip
ROOT = {"divide", "reciprocal", "rsqrt", "sqrt"}
EXPENSIVE = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "erfc",
    "exp", "expm1", "log", "log10", "log1p", "log2", "pow", "random_bits", "random_pairs",
    "short_exp", "short_ndtr", "sin", "sinh", "take", "take_along_axis", "tan", "tanh",
}  # fmt: skip
DISCONTINUOUS = {
    "ceil", "equal", "floor", "floor_divide", "greater", "greater_equal", "isfinite", "isinf",
    "less", "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor",
    "not_equal", "remainder", "round", "sign", "trunc",
}  # fmt: skip
EXACTLY_ROUNDED = {
    "abs", "add", "argmax", "argmin", "argsort", "bitwise_and", "bitwise_invert", "bitwise_or",
    "bitwise_xor", "ceil", "cumulative_prod", "cumulative_sum", "divide", "equal", "floor",
    "full", "greater", "greater_equal", "iota", "isfinite", "isinf", "isnan", "kthvalue",
    "less", "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "max",
    "maximum", "matmul_integer", "min", "minimum", "multiply", "negative", "not_equal",
    "random_bits", "random_pairs", "round", "sort", "sqrt", "square", "subtract", "topk", "trunc",
    "where",
}  # fmt: skip


def traits() -> dict[str, Traits]:
    return {name: operation.traits for name, operation in OPERATIONS.items()}


def test_costs() -> None:
    for cost, names in (("cheap", CHEAP), ("root", ROOT), ("expensive", EXPENSIVE)):
        assert {name for name, t in traits().items() if t.cost == cost} == names


def test_discontinuous() -> None:
    assert {name for name, t in traits().items() if t.discontinuous} == DISCONTINUOUS


def test_exactly_rounded() -> None:
    assert {name for name, t in traits().items() if t.exactly_rounded} == EXACTLY_ROUNDED


def test_starts_of_pieces() -> None:
    starts = {name: t.starts for name, t in traits().items() if t.starts is not None}
    assert starts == {"slice": 1, "slice_update": 2}
    for name, first in starts.items():
        operation = OPERATIONS[name]
        assert operation.variadic
        assert operation.tensors.index("starts") == first
