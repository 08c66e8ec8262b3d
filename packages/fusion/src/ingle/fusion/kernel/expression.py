"""Operators on positions of a code under construction, to write formulas as formulas."""

from __future__ import annotations

from collections.abc import Sequence

from .code import FLOATS, HALVES, SIZES, CodeBuilder

Operand = "Expression | float"


class Expression:
    """A value in a builder; Python numbers beside it become constants of its dtype.

    >>> b = CodeBuilder()
    >>> x = Expression(b, b.load(0, "float32"))
    >>> y = where(x < 0, -x, x * 2.0)
    >>> y.dtype, b.instructions[y.at].name
    ('float32', 'select')
    """

    __slots__ = ("at", "builder")

    def __init__(self, builder: CodeBuilder, at: int) -> None:
        self.builder = builder
        self.at = at

    @property
    def dtype(self) -> str:
        return self.builder.dtype(self.at)

    def constant(self, value: bool | float, dtype: str | None = None) -> Expression:
        """A number as a value of this one's dtype, or of another."""
        return Expression(self.builder, self.builder.constant(value, dtype or self.dtype))

    def bits(self, pattern: int, dtype: str | None = None) -> Expression:
        """A bit pattern as a value of this one's dtype, or of another."""
        at = self.builder.append("constant", dtype or self.dtype, (), pattern)
        return Expression(self.builder, at)

    def call(self, name: str, *others: Expression | float, dtype: str | None = None) -> Expression:
        """An operation of this value and others."""
        places = [self.at]
        for other in others:
            same = other if isinstance(other, Expression) else self.constant(other)
            places.append(same.at)
        at = self.builder.append(name, dtype or self.dtype, tuple(places))
        return Expression(self.builder, at)

    def __add__(self, other: Expression | float) -> Expression:
        return self.call("add", other)

    def __radd__(self, other: float) -> Expression:
        return self.constant(other).call("add", self)

    def __sub__(self, other: Expression | float) -> Expression:
        return self.call("sub", other)

    def __rsub__(self, other: float) -> Expression:
        return self.constant(other).call("sub", self)

    def __mul__(self, other: Expression | float) -> Expression:
        return self.call("mul", other)

    def __rmul__(self, other: float) -> Expression:
        return self.constant(other).call("mul", self)

    def __truediv__(self, other: Expression | float) -> Expression:
        return self.call("div", other)

    def __rtruediv__(self, other: float) -> Expression:
        return self.constant(other).call("div", self)

    def __neg__(self) -> Expression:
        return self.call("neg")

    def __abs__(self) -> Expression:
        return self.call("abs")

    def __invert__(self) -> Expression:
        return self.call("not")

    def __and__(self, other: Expression | int) -> Expression:
        return self.call("and", other)

    def __or__(self, other: Expression | int) -> Expression:
        return self.call("or", other)

    def __xor__(self, other: Expression | int) -> Expression:
        return self.call("xor", other)

    def __lshift__(self, other: Expression | int) -> Expression:
        return self.call("shl", other)

    def __rshift__(self, other: Expression | int) -> Expression:
        return self.call("shr", other)

    def __lt__(self, other: Expression | float) -> Expression:
        return self.call("lt", other, dtype="bool")

    def __le__(self, other: Expression | float) -> Expression:
        return self.call("le", other, dtype="bool")

    def __gt__(self, other: Expression | float) -> Expression:
        return self.call("gt", other, dtype="bool")

    def __ge__(self, other: Expression | float) -> Expression:
        return self.call("ge", other, dtype="bool")

    def equals(self, other: Expression | float) -> Expression:
        return self.call("eq", other, dtype="bool")

    def differs(self, other: Expression | float) -> Expression:
        return self.call("ne", other, dtype="bool")

    def is_nan(self) -> Expression:
        return self.differs(self)

    def fma(self, factor: Expression | float, addend: Expression | float) -> Expression:
        """`self * factor + addend`."""
        return self.call("fma", factor, addend)

    def cast(self, dtype: str) -> Expression:
        return self.call("cast", dtype=dtype)

    def bitcast(self, dtype: str) -> Expression:
        return self.call("bitcast", dtype=dtype)

    def widen(self) -> Expression:
        """A half type as float32; others as they are."""
        return self.cast("float32") if self.dtype in HALVES else self

    def at_most(self, bound: float) -> Expression:
        """The smaller one; NaN stays. One instruction where min takes three."""
        limit = self.constant(bound)
        return where(limit < self, limit, self)

    def at_least(self, bound: float) -> Expression:
        """The larger one; NaN stays."""
        limit = self.constant(bound)
        return where(limit > self, limit, self)

    def polynomial(self, coefficients: Sequence[float]) -> Expression:
        """By Horner's rule; the highest power comes first."""
        total = self.constant(coefficients[0])
        for c in coefficients[1:]:
            total = total.fma(self, c)
        return total

    def table(self, entries: Sequence[float], dtype: str) -> Expression:
        """The entry of a constant table that this integer chooses."""
        bits = tuple(self.constant(e, dtype).pattern for e in entries)
        at = self.builder.append("table", dtype, (self.at,), bits)
        return Expression(self.builder, at)

    def permute(self, entries: Sequence[float], dtype: str) -> Expression:
        """The entry of 16 that the lowest four bits of this int32 choose."""
        bits = tuple(self.constant(e, dtype).pattern for e in entries)
        at = self.builder.append("permute", dtype, (self.at,), bits)
        return Expression(self.builder, at)

    @property
    def pattern(self) -> int:
        """The bits of a constant."""
        found: int = self.builder.instructions[self.at].value
        return found


def where(condition: Expression, yes: Expression | float, no: Expression | float) -> Expression:
    """One of two values, at least one of which is an expression."""
    if isinstance(yes, Expression):
        other = no if isinstance(no, Expression) else yes.constant(no)
    else:
        assert isinstance(no, Expression)
        yes, other = no.constant(yes), no
    builder = condition.builder
    at = builder.append("select", yes.dtype, (condition.at, yes.at, other.at))
    return Expression(builder, at)


def copysign(magnitude: Expression, sign: Expression) -> Expression:
    """A magnitude, which is not negative itself, with the sign of another float."""
    whole = INTEGER_OF[sign.dtype]
    top = sign.bits(1 << (8 * int(whole[3:]) // 8 - 1), whole)
    bits = (sign.bitcast(whole) & top) | magnitude.bitcast(whole)
    return bits.bitcast(magnitude.dtype)


def in_order(x: Expression, *, largest: bool, zeros: bool = False) -> Expression:
    """An integer for an element, in the same order, with one for all NaNs.

    Args:
        x: no half type.
        largest: whether NaN comes behind all others, or before them.
        zeros: whether the negative zero comes before the other, or they are equal.
    """
    if x.dtype == "bool":
        return x.cast("uint8")
    if x.dtype not in FLOATS:
        return x
    whole = INTEGER_OF[x.dtype]
    top = 8 * SIZES[whole] - 1
    bits = (x if zeros else x + 0.0).bitcast(whole)
    # Above infinity, and back to the NaN that arithmetic gives: a quiet one.
    beyond = QUIET[x.dtype] if largest else -(1 << top)
    return where(x.is_nan(), bits.constant(beyond), _turned(bits))


def out_of_order(key: Expression, dtype: str) -> Expression:
    """The float that an integer stands for; of NaN the one with these bits."""
    return _turned(key).bitcast(dtype)


def _turned(bits: Expression) -> Expression:
    """Of negative ones all bits but the sign, which is how floats and integers differ in order."""
    top = 8 * SIZES[bits.dtype] - 1
    return bits ^ ((bits >> top) & ((1 << top) - 1))


QUIET = {"float32": 0x7FC00000, "float64": 0x7FF8000000000000}
"""The bits of a quiet NaN."""
INTEGER_OF = {"float32": "int32", "float64": "int64", "float16": "int16", "bfloat16": "int16"}
"""The signed integer of the size of a float."""
