"""Conditions on sizes: what was asked of an example's while something was made, as a guard.

The function that an inquiry writes takes values of the symbols, checks that each question would be
answered as it was, and returns what was made with these values in place of the example's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingle.tensor.static_values import largest

from .size_program import SizeProgram
from .sizes import Size, Terms, terms_of, written


class Inquiry:
    """Notes what is asked of sizes.

    Args:
        examples: the values of the symbols.
        apart: whether its sizes meet no numbers in dictionaries; see `Size.__hash__`.

    Attributes:
        symbols: the sizes that everything is a polynomial of.
    """

    def __init__(self, examples: Sequence[int], apart: bool = False) -> None:
        self.apart = apart
        self.symbols = [Size(self, (((k,), 1),), n) for k, n in enumerate(examples)]
        self._atoms = len(examples)
        self._derived: dict[tuple[str, Terms, Terms], int] = {}
        self._negative: dict[Terms, bool] = {}
        self._zero: dict[Terms, bool] = {}
        self._steps: list[str] = []
        self._ranges = [_Range() for _ in examples]
        for symbol in self.symbols:
            if symbol.example > 0:
                self.is_negative(-symbol)

    def is_negative(self, size: Any) -> bool:
        """Whether a size is less than 0."""
        if not isinstance(size, Size):
            return bool(size < 0)
        answer = self._negative.get(size.terms)
        if answer is None:
            answer = self._negative[size.terms] = size.example < 0
            single = self._single(size.terms)
            if single is not None:
                symbol, by, rest = single
                self._ranges[symbol].note_sign(by, rest, answer)
            elif not self._follows(size.terms):
                self._check(f"{written(size.terms)} < 0", answer)
        return answer

    def is_zero(self, size: Any) -> bool:
        """Whether a size is 0."""
        if not isinstance(size, Size):
            return bool(size == 0)
        terms = size.terms
        if terms[0][1] < 0:
            terms = tuple([(monomial, -count) for monomial, count in terms])
        answer = self._zero.get(terms)
        if answer is None:
            answer = self._zero[terms] = size.example == 0
            single = self._single(terms)
            if single is not None:
                symbol, by, rest = single
                self._ranges[symbol].note_zero(by, rest, answer)
            elif answer or not self._follows(terms):
                self._check(f"{written(terms)} == 0", answer)
        return answer

    def settle(self, size: Size) -> None:
        """Nothing but the example will do for a size."""
        self.is_zero(size - size.example)

    @property
    def is_settled(self) -> bool:
        """Whether nothing but the example will do for one of the symbols."""
        return any(r.least == r.most for r in self._ranges)

    def solved(self) -> dict[int, Terms]:
        """Symbols that follow from others by what was found to be equal: a symbol's number, and the
        polynomial that it is."""
        found: dict[int, Terms] = {}
        taken: set[int] = set()
        for terms in [terms for terms, equal in self._zero.items() if equal]:
            for monomial, count in terms:
                if len(monomial) != 1 or abs(count) != 1 or monomial[0] >= len(self.symbols):
                    continue
                (symbol,) = monomial
                rest = tuple([term for term in terms if term[0] != monomial])
                used = self.symbols_in(rest)
                if used and symbol not in used | taken and not used & found.keys():
                    found[symbol] = tuple([(m, -count * n) for m, n in rest])
                    taken |= used
                    break
        return found

    def symbols_in(self, terms: Terms) -> set[int]:
        """The symbols that a polynomial depends on."""
        parts = {atom: (left, right) for (_, left, right), atom in self._derived.items()}
        found: set[int] = set()
        for atom in {atom for monomial, _ in terms for atom in monomial}:
            if atom < len(self.symbols):
                found.add(atom)
            else:
                found |= self.symbols_in(parts[atom][0]) | self.symbols_in(parts[atom][1])
        return found

    def at(self, terms: Terms, symbols: Sequence[Any]) -> Any:
        """A polynomial with other values in place of the symbols."""
        parts = {atom: whole for whole, atom in self._derived.items()}
        total: Any = 0
        for monomial, count in terms:
            product: Any = count
            for atom in monomial:
                if atom < len(self.symbols):
                    product = product * symbols[atom]
                    continue
                operation, one, other = parts[atom]
                left, right = self.at(one, symbols), self.at(other, symbols)
                product = product * (left // right if operation == "//" else largest(left, right))
            total = total + product
        return total

    def quotient(self, left: Terms, right: Terms) -> Terms:
        """The polynomial of a quotient, rounded down, that is none of the symbols."""
        return self._atom(f"({written(left)}) // ({written(right)})", "//", left, right)

    def larger(self, left: Any, right: Any) -> Any:
        """The larger one of two sizes, without a question which that is."""
        difference = left - right
        if isinstance(difference, Size):
            negative = self._known_sign(difference.terms)
        else:
            negative = difference < 0
        if negative is not None:
            return right if negative else left
        one, other = sorted([terms_of(left), terms_of(right)])
        text = f"max({written(one)}, {written(other)})"
        example = max(example_of(left), example_of(right))
        return Size(self, self._atom(text, "larger", one, other), example)

    def _atom(self, text: str, operation: str, left: Terms, right: Terms) -> Terms:
        """What is no polynomial of the symbols, as one of its own."""
        atom = self._derived.get((operation, left, right))
        if atom is None:
            atom = self._derived[operation, left, right] = self._atoms
            self._atoms += 1
            self._steps.append(f"a{atom} = {text}")
        return (((atom,), 1),)

    def _known_sign(self, terms: Terms) -> bool | None:
        """Whether a polynomial is negative for all symbols that answer what was asked; None if that
        is not seen at once."""
        single = self._single(terms)
        if single is None:
            return terms[0][1] < 0 if self._follows(terms) else None
        symbol, by, rest = single
        ends = self._ranges[symbol].least * by + rest, self._ranges[symbol].most * by + rest
        return True if max(ends) < 0 else False if min(ends) >= 0 else None

    def _check(self, question: str, answer: bool) -> None:
        self._steps.append(f"if {'not ' if answer else ''}({question}): return None")

    def _single(self, terms: Terms) -> tuple[int, int, int] | None:
        """`symbol * by + rest`, if a polynomial has that form."""
        (monomial, by), *others = terms
        if len(monomial) != 1 or monomial[0] >= len(self.symbols) or len(others) > 1:
            return None
        if others and others[0][0] != ():
            return None
        return monomial[0], by, others[0][1] if others else 0

    def _follows(self, terms: Terms) -> bool:
        """Whether the sign of a polynomial follows from all symbols being positive."""
        signs = {count > 0 for _, count in terms}
        atoms = {atom for monomial, _ in terms for atom in monomial}
        return len(signs) == 1 and all(
            atom < len(self.symbols) and self._ranges[atom].least >= 1 for atom in atoms
        )

    def function(self, result: Any) -> Callable[..., Any]:
        """A function of the symbols that returns a result in whose tuples sizes occur, or None.

        None is for symbols that would have led elsewhere. Nothing can be asked any more.
        """
        return self.program(result).function()

    def program(self, result: Any) -> SizeProgram:
        """That function as data."""
        names: dict[str, Any] = {}
        spelling = _Spelling(names)
        text = spelling.of(result)
        checks = [r.source(f"a{k}") for k, r in enumerate(self._ranges)]
        lines = [f"if not ({c}): return None" for c in checks if c]
        lines += [*self._steps, *spelling.lines]
        for known in (self._negative, self._zero, self._derived):
            known.clear()  # sizes may outlive this, in operations that others have seen
        return SizeProgram(len(self.symbols), tuple(lines), text, names)


class _Range:
    """The values of a symbol that answer alike."""

    def __init__(self) -> None:
        self.least: float = float("-inf")
        self.most: float = float("inf")
        self._excluded: set[int] = set()

    def note_sign(self, by: int, rest: int, negative: bool) -> None:
        """Whether `symbol * by + rest` is less than 0."""
        if negative and by > 0:
            self.most = min(self.most, (-rest - 1) // by)
        elif negative:
            self.least = max(self.least, rest // -by + 1)
        elif by > 0:
            self.least = max(self.least, -(rest // by))
        else:
            self.most = min(self.most, rest // -by)

    def note_zero(self, by: int, rest: int, zero: bool) -> None:
        """Whether `symbol * by + rest` is 0."""
        if rest % by:
            return
        if zero:
            self.least = max(self.least, -rest // by)
            self.most = min(self.most, -rest // by)
        else:
            self._excluded.add(-rest // by)

    def source(self, name: str) -> str:
        """The condition as Python has it; empty if there is none."""
        parts = []
        if self.least > float("-inf"):
            parts.append(f"{name} >= {self.least}")
        if self.most < float("inf"):
            parts.append(f"{name} <= {self.most}")
        excluded = sorted(n for n in self._excluded if self.least <= n <= self.most)
        if excluded:
            parts.append(f"{name} not in {{{', '.join(map(str, excluded))}}}")
        return " and ".join(parts)


class _Spelling:
    """Writes values as source code, each polynomial computed once.

    Args:
        names: what the code may name; what has no code of its own is added.
    """

    def __init__(self, names: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self._names = names
        self._known: dict[Terms, str] = {}

    def of(self, value: Any) -> str:
        """The code of a value."""
        if isinstance(value, Size):
            name = self._known.get(value.terms)
            if name is None:
                name = self._known[value.terms] = f"n{len(self._known)}"
                self.lines.append(f"{name} = {written(value.terms)}")
            return name
        if isinstance(value, tuple):
            inside = "".join([f"{self.of(x)}, " for x in value])
            if not hasattr(value, "_fields"):
                return f"({inside})"
            self._names[type(value).__name__] = type(value)
            return f"{type(value).__name__}({inside})"
        if value is None or type(value) in (int, bool):
            return repr(value)
        name = f"k{len(self._names)}"
        self._names[name] = value
        return name


def has_sizes(value: Any) -> bool:
    """Whether sizes occur in tuples of tuples."""
    if isinstance(value, tuple):
        return any(map(has_sizes, value))
    return isinstance(value, Size)


def settled(value: Any) -> Any:
    """Tuples of tuples, with their examples for the sizes that occur in them."""
    if isinstance(value, Size):
        return value.__index__()
    if not has_sizes(value):
        return value
    inside = [settled(x) for x in value]
    return type(value)(*inside) if hasattr(value, "_fields") else tuple(inside)


def example_of(value: Any) -> Any:
    """The same, without a question: what it is good for has to hold for other values, too."""
    if isinstance(value, Size):
        return value.example
    if not has_sizes(value):
        return value
    inside = [example_of(x) for x in value]
    return type(value)(*inside) if hasattr(value, "_fields") else tuple(inside)
