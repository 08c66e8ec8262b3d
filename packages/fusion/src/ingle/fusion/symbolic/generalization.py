"""A graph in which symbols stand for sizes: which sizes vary, and which follow from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

from ..ir.graph import Graph
from .answers import Answers
from .form import (
    VARYING,
    SymbolicGraph,
    infer_results,
    places_of_results,
    with_numbers,
)
from .inquiry import Inquiry
from .relations import symbols_for
from .sizes import Terms, terms_of

RULED = 2
"""Operations of a graph up to which shape rules say what sizes of results are. In longer ones these
show how the other sizes are related."""


class Generalization(NamedTuple):
    """A graph for all of its form: passes take a symbol for each size that varies.

    Attributes:
        graph: with a `Size` in place of each size that varies.
        sources: for each of its scalars the place of its value; see `FilledSequence`.
        inquiry: notes what is asked of the sizes.
        sizes: all sizes that vary, in terms of the symbols.
        fixed, expected: for each number whether it never varies, and those that do not.
        symbols, whole: places of the symbols, and of all sizes that vary.
        varies: whether numbers vary that are no sizes; they are scalars of the graph.
    """

    graph: Graph
    sources: Sequence[int]
    inquiry: Inquiry
    sizes: tuple[Any, ...]
    fixed: bytes
    expected: tuple[Any, ...]
    symbols: Sequence[int]
    whole: Sequence[int]
    varies: bool

    def answers(self, *parts: Any) -> Answers:
        """What becomes of some parts, in whose tuples symbols stand. Nothing can be asked any
        more."""
        program = self.inquiry.program((self.sizes, *parts))
        return Answers(self.fixed, self.expected, self.symbols, self.whole, program)


def generalized(
    graph: Graph, examples: Sequence[tuple[Any, ...]], apart: bool = False
) -> Generalization:
    """A graph with a symbol for each size that varies.

    Args:
        graph: the last of the examples.
        examples: numbers of graphs of the form.
        apart: of the inquiry; such a graph is one before it is decomposed.
    """
    columns = list(zip(*examples, strict=True))
    places = [k for k, column in enumerate(columns) if len({*column}) > 1]
    whole = [k for k in places if all(type(n) is int for n in columns[k])]
    made = places_of_results(graph) if apart and len(graph.nodes) <= RULED else {}
    guessed = [k for k in whole if k not in made]
    inquiry, sizes, chosen = symbols_for(
        [[e[k] for k in guessed] for e in examples], apart, related=not made
    )
    last = list(examples[-1])
    for k in places:
        last[k] = VARYING
    filled = partial(_filled, graph, last, guessed, made)
    new, sources, known = filled(sizes)
    solved = inquiry.solved() if made else {}
    if solved:
        inquiry, sizes, chosen = _with_fewer(inquiry, sizes, chosen, solved)
        new, sources, known = filled(sizes)
    fixed = bytes([len({*column}) == 1 for column in columns])
    return Generalization(
        new, sources, inquiry, tuple([known[k] for k in whole]), fixed,
        tuple(compress(known, fixed)), [guessed[c] for c in chosen], whole,
        len(whole) < len(places),
    )  # fmt: skip


def _filled(
    graph: Graph, last: Sequence[Any], guessed: Sequence[int],
    made: Mapping[int, tuple[int, int]], sizes: Sequence[Any],
) -> tuple[SymbolicGraph, list[int], list[Any]]:  # fmt: skip
    """The graph with sizes at some places, the places of its scalars' values, and all its numbers.

    Args:
        graph: the last of the examples.
        last: its numbers, of which others vary.
        guessed: the places.
        made: places of results, of which shape rules say what they are.
        sizes: for each of the places.
    """
    known = list(last)
    for k, size in zip(guessed, sizes, strict=True):
        known[k] = size
    new, sources = with_numbers(graph, known)
    if made:
        infer_results(new)
    for k, (value, axis) in made.items():
        known[k] = new.values[value].aval.shape[axis]
    return new, sources, known


def _with_fewer(
    inquiry: Inquiry, sizes: Sequence[Any], chosen: Sequence[int], solved: Mapping[int, Terms]
) -> tuple[Inquiry, list[Any], list[int]]:
    """Symbols without those that shape rules say to follow from others; see `symbols_for`."""
    free = [n for n in range(len(chosen)) if n not in solved]
    fewer = Inquiry([inquiry.symbols[n].example for n in free], inquiry.apart)
    values: list[Any] = [None] * len(chosen)
    for n, symbol in zip(free, fewer.symbols, strict=True):
        values[n] = symbol
    for n, terms in solved.items():
        values[n] = inquiry.at(terms, values)
    return fewer, [inquiry.at(terms_of(size), values) for size in sizes], [chosen[n] for n in free]
