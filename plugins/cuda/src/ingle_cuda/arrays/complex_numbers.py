"""Arithmetic, sums and matrix products of complex numbers, of which no kernel is generated.

Functions such as roots and logarithms stay the host's: CuPy's have other answers where numbers end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingle.tensor.operation import Op

_NAMED = (
    "add", "subtract", "multiply", "equal", "not_equal", "negative", "conj", "real", "imag", "abs",
    "where",
)  # fmt: skip
"""Operations of CuPy's name and meaning, without attributes."""


def _named(name: str) -> Callable[..., Any]:
    def call(xp: Any, op: Op, *given: Any) -> Any:
        return getattr(xp, name)(*given)

    return call


def _in_order(x: Any) -> Any:
    """An operand in C order: CuPy's sums and products add in another order for other strides."""
    return x if x.flags.c_contiguous else x.copy()


def _sum(xp: Any, op: Op, x: Any) -> Any:
    return xp.sum(_in_order(x), axis=op.attributes["axis"], keepdims=op.attributes["keepdims"])


def _matmul(xp: Any, op: Op, x1: Any, x2: Any) -> Any:
    return xp.matmul(_in_order(x1), _in_order(x2))


def _cast(xp: Any, op: Op, x: Any) -> Any:
    return x.astype(op.attributes["dtype"].dtype)


def _divide(xp: Any, op: Op, x1: Any, x2: Any) -> Any:
    """Smith, Algorithm 116: Complex division (1962), as NumPy's; CuPy's has NaN for 1 / inf."""
    a, b, c, d = xp.real(x1), xp.imag(x1), xp.real(x2), xp.imag(x2)
    is_real = xp.abs(c) >= xp.abs(d)
    large, small = xp.where(is_real, c, d), xp.where(is_real, d, c)
    ratio = small / large
    scale = 1 / (large + small * ratio)
    top = xp.where(is_real, a + b * ratio, a * ratio + b) * scale
    side = xp.where(is_real, b - a * ratio, b * ratio - a) * scale
    nothing = (c == 0) & (d == 0)
    size = xp.abs(c)
    found = xp.empty(top.shape, xp.result_type(x1, x2))
    found.real = xp.where(nothing, a / size, top)
    found.imag = xp.where(nothing, b / size, side)
    return found


CALLS: dict[str, Callable[..., Any]] = {
    **{name: _named(name) for name in _NAMED},
    "astype": _cast, "divide": _divide, "matmul": _matmul, "sum": _sum,
}  # fmt: skip
"""Each takes CuPy, the operation and its operands."""
