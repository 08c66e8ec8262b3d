"""Sizes that stand for any: polynomials that remember what was asked of them.

Passes compute with the sizes of a graph and decide by them. Given a `Size` in place of an int they
do the same, on the example that the size carries; each decision, a comparison of two polynomials,
is noted by its `Inquiry`. Another value that answers all that was asked in the same way would have
led to the same result. So nothing can be forgotten: what needs the number itself (an index, a
dictionary that others use, a C function) has to ask for it by `__index__`, and only the example
will do from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ingle.tensor.static_values import SymbolicInt

if TYPE_CHECKING:
    from .inquiry import Inquiry

Monomial: TypeAlias = "tuple[int, ...]"
"""Numbers of the atoms whose product it is, sorted."""
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"
"""Monomials and how often they count, sorted, none of them 0 times."""


class Size(SymbolicInt):
    """A polynomial with whole coefficients.

    Attributes:
        inquiry: which notes what is asked.
        terms: of the polynomial; never a constant, which is an int.
        example: its value in the example.
    """

    __slots__ = ("example", "inquiry", "terms")

    def __init__(self, inquiry: Inquiry, terms: Terms, example: int) -> None:
        self.inquiry = inquiry
        self.terms = terms
        self.example = example

    def __repr__(self) -> str:
        return f"Size({written(self.terms)} = {self.example})"

    # Arithmetic ------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return NotImplemented
        return self._with(_sum(self.terms, terms, 1), self.example + _example(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return NotImplemented
        return self._with(_sum(self.terms, terms, -1), self.example - _example(other))

    def __rsub__(self, other: Any) -> Any:
        return -(self - other)

    def __neg__(self) -> Any:
        return self * -1

    def __mul__(self, other: Any) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return NotImplemented
        return self._with(_product(self.terms, terms), self.example * _example(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return NotImplemented
        if not other:
            raise ZeroDivisionError(f"{self!r} // {other!r}")
        exact = _exact(self.terms, terms)
        if exact is None and len(terms) == 1 and terms[0][0] == ():
            exact = self._quotient(terms[0][1])
        elif exact is None:
            exact = self.inquiry.quotient(self.terms, terms)
        return self._with(exact, self.example // _example(other))

    def _quotient(self, by: int) -> Terms:
        """The quotient by a number: what is a multiple of that is divided by itself, so that equal
        quotients are seen to be equal."""
        whole = tuple([(m, n // by) for m, n in self.terms if n // by])
        rest = tuple([(m, n % by) for m, n in self.terms if n % by])
        if not rest or rest[0][0] == ():
            return whole  # what is left is less than the divisor
        return _sum(whole, self.inquiry.quotient(rest, _constant(by)), 1)

    def __rfloordiv__(self, other: Any) -> Any:
        if self._terms_of(other) is None:
            return NotImplemented
        if not self:
            raise ZeroDivisionError(f"{other!r} // {self!r}")
        example = other // self.example
        return self._with(
            self.inquiry.quotient(_constant(other), self.terms), example
        )  # fmt: skip

    def __mod__(self, other: Any) -> Any:
        return self - self // other * other

    def __rmod__(self, other: Any) -> Any:
        return other - other // self * self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def larger(self, other: Any) -> Any:
        return self.inquiry.larger(self, other)

    def _with(self, terms: Terms, example: int) -> Any:
        if not terms or terms[0][0] == ():
            return example
        return Size(self.inquiry, terms, example)

    def _terms_of(self, other: Any) -> Terms | None:
        """Those of another operand; None for what is no whole number of this inquiry."""
        if isinstance(other, Size):
            return other.terms if other.inquiry is self.inquiry else None
        return _constant(int(other)) if isinstance(other, int) else None

    # Questions -------------------------------------------------------------------------------

    def __lt__(self, other: Any) -> Any:
        return self._asked(other, lambda: self.inquiry.is_negative(self - other))

    def __ge__(self, other: Any) -> Any:
        return self._asked(other, lambda: not self.inquiry.is_negative(self - other))

    def __gt__(self, other: Any) -> Any:
        return self._asked(other, lambda: self.inquiry.is_negative(other - self))

    def __le__(self, other: Any) -> Any:
        return self._asked(other, lambda: not self.inquiry.is_negative(other - self))

    def __eq__(self, other: object) -> Any:
        return self._asked(other, lambda: self.inquiry.is_zero(self - other))

    def __ne__(self, other: object) -> Any:
        return self._asked(other, lambda: not self.inquiry.is_zero(self - other))

    def _asked(self, other: object, answer: Any) -> Any:
        return NotImplemented if self._terms_of(other) is None else answer()

    def __bool__(self) -> bool:
        return not self.inquiry.is_zero(self)

    def __hash__(self) -> int:
        # What has the same example meets in a dictionary, which then asks whether it is the same.
        # That something is missing there is no question: where this decides anything, it has to
        # be right for things that are different only in general. Tables that outlive a plan, such
        # as those of shape rules, hold numbers as well: no symbol of what stands apart meets one.
        return hash(self.terms) if self.inquiry.apart else hash(self.example)

    def __index__(self) -> int:
        self.inquiry.settle(self)
        return self.example

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())


def terms_of(x: Any) -> Terms:
    """Those of a size, which may be a number."""
    return x.terms if isinstance(x, Size) else _constant(int(x))


def written(terms: Terms) -> str:
    """A polynomial as Python has it.

    >>> written((((0, 1), 4), ((2,), -1), ((), 7)))
    'a0*a1*4 - a2 + 7'
    """
    text = ""
    for monomial, count in terms:
        factors = [f"a{atom}" for atom in monomial]
        if abs(count) != 1 or not factors:
            factors.append(str(abs(count)))
        sign = ("-" if not text else " - ") if count < 0 else " + " if text else ""
        text += sign + "*".join(factors)
    return text or "0"


def _example(x: Any) -> int:
    return x.example if isinstance(x, Size) else int(x)


def _constant(number: int) -> Terms:
    return (((), number),) if number else ()


def _sorted(found: dict[Monomial, int]) -> Terms:
    """Long monomials first, the constant last."""
    return tuple(sorted(found.items(), key=lambda term: (-len(term[0]), term[0])))


def _sum(left: Terms, right: Terms, factor: int) -> Terms:
    found = dict(left)
    for monomial, count in right:
        total = found.get(monomial, 0) + factor * count
        if total:
            found[monomial] = total
        else:
            del found[monomial]
    return _sorted(found)


def _product(left: Terms, right: Terms) -> Terms:
    if len(right) == 1 and right[0][0] == ():
        return tuple([(monomial, count * right[0][1]) for monomial, count in left])
    found: dict[Monomial, int] = {}
    for monomial, count in left:
        for other, times in right:
            both = tuple(sorted(monomial + other))
            found[both] = found.get(both, 0) + count * times
    return _sorted({monomial: count for monomial, count in found.items() if count})


def _exact(left: Terms, right: Terms) -> Terms | None:
    """The quotient if it is a polynomial and the divisor a single term."""
    if len(right) != 1:
        return None
    ((divisor, by),) = right
    found: dict[Monomial, int] = {}
    for monomial, count in left:
        rest = list(monomial)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        if count % by:
            return None
        found[tuple(rest)] = count // by
    return _sorted(found)
