"""Elementwise operations, sums and products of complex numbers, of which no kernel is generated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingle.tensor.operation import Op

_ELEMENTWISE = (
    "add", "subtract", "multiply", "divide", "equal", "not_equal", "negative", "conj", "real",
    "imag", "abs", "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "where",
    "matmul",
)  # fmt: skip
"""Operations of CuPy's name and meaning, without attributes."""
_REDUCTIONS = ("sum", "prod")


def _named(name: str) -> Callable[..., Any]:
    def call(xp: Any, op: Op, *given: Any) -> Any:
        return getattr(xp, name)(*given)

    return call


def _reduced(name: str) -> Callable[..., Any]:
    def call(xp: Any, op: Op, x: Any) -> Any:
        have = op.attributes
        return getattr(xp, name)(x, axis=have["axis"], keepdims=have["keepdims"])

    return call


def _power(xp: Any, op: Op, x1: Any, x2: Any) -> Any:
    return xp.power(x1, x2)


def _sign(xp: Any, op: Op, x: Any) -> Any:
    """The number of magnitude 1 in its direction, and 0 of 0."""
    size = xp.abs(x)
    return xp.where(size == 0, x, x / size)


def _cast(xp: Any, op: Op, x: Any) -> Any:
    return x.astype(op.attributes["dtype"].dtype)


CALLS: dict[str, Callable[..., Any]] = {
    **{name: _named(name) for name in _ELEMENTWISE},
    **{name: _reduced(name) for name in _REDUCTIONS},
    "astype": _cast,
    "pow": _power,
    "sign": _sign,
}
"""Each takes CuPy, the operation and its operands."""
