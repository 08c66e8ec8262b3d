"""Relations among the numbers of a graph, as examples show them: few symbols, the rest follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .inquiry import Inquiry

Examples = tuple[int, ...]

LARGEST = 4
"""By what a size is multiplied at most where something is added, too, as by the step of a
convolution: three sizes of images lie on some such line more often than one would think.
"""


def symbols_for(
    examples: Sequence[Sequence[int]], apart: bool = False, related: bool = True
) -> tuple[Inquiry, list[Any], list[int]]:
    """Symbols for places whose numbers vary, and what the other places are in terms of these.

    That they are this in every case is not certain: the caller has to check each place.

    Args:
        examples: for each example the numbers at the places; the last one is the inquiry's.
        apart: of the inquiry.
        related: whether there are more relations than that places are equal.

    Returns:
        The inquiry; for each place its size; for each symbol the place whose number it is.
    """
    columns: list[Examples] = list(zip(*examples, strict=True))
    chosen: list[Examples] = []
    for column in sorted(set(columns), key=lambda c: (abs(c[-1]), c)):
        if not related or _in_terms_of(chosen, column) is None:
            chosen.append(column)
    inquiry = Inquiry([c[-1] for c in chosen], apart)
    known: dict[Examples, Any] = {}
    for column in set(columns):
        factors, by, rest = _itself(chosen, column) or _in_terms_of(chosen, column) or ((), 0, 0)
        size: Any = by
        for factor in factors:
            size = size * inquiry.symbols[factor]
        known[column] = size + rest
    return inquiry, [known[c] for c in columns], [columns.index(c) for c in chosen]


def _in_terms_of(
    chosen: Sequence[Examples], column: Examples
) -> tuple[tuple[int, ...], int, int] | None:
    """A column as a product of others, times one number, plus another."""
    for k, one in enumerate(chosen):
        found = _line(one, column)
        if found is not None:
            return (k,), *found
    for k, one in enumerate(chosen):
        for j, other in enumerate(chosen[: k + 1]):
            product = tuple([a * b for a, b in zip(one, other, strict=True)])
            found = _line(product, column)
            if found is not None:
                return (j, k), *found
    return None


def _itself(
    chosen: Sequence[Examples], column: Examples
) -> tuple[tuple[int, ...], int, int] | None:
    return ((chosen.index(column),), 1, 0) if column in chosen else None


def _line(one: Examples, other: Examples) -> tuple[int, int] | None:
    """The whole numbers by which one column gives another, times the first plus the second."""
    x, y = next(((x, y) for x, y in zip(one, other, strict=True) if x != one[-1]), (0, 0))
    if x == one[-1] or (other[-1] - y) % (one[-1] - x):
        return None
    by = (other[-1] - y) // (one[-1] - x)
    rest = other[-1] - by * one[-1]
    fits = all(a * by + rest == b for a, b in zip(one, other, strict=True))
    usual = not rest or abs(by) <= LARGEST
    return (by, rest) if fits and by and usual else None
