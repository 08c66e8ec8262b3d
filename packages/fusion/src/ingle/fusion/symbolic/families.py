"""Plans that serve many sizes: made once for graphs that differ in their sizes alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any
from weakref import WeakKeyDictionary

from ingle.tensor.locks import renewed

from ..ir.graph import Graph
from .form import form_of
from .sequences import FilledSequence, SymbolicSequence

EXAMPLES = 3
"""Sizes of a graph from which on the next ones are taken to vary: two are a batch and the rest."""
AGAIN = 8
"""After so many plans for one size each another one for all sizes is tried."""
MOST_FAMILIES, MOST_PLANS, MOST_EXAMPLES = 512, 8, 4
"""How many forms are known, and of each how many plans and examples."""


class Families:
    """Kernel sequences of graphs, by the form of these.

    The first sizes of a graph are planned for themselves. Then sizes are taken to vary, and what
    was made holds for all of those that answer the passes' questions alike.
    """

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._families: OrderedDict[Any, Family] = OrderedDict()

    def family_of(self, graph: Graph, surroundings: Hashable) -> tuple[Family, tuple[Any, ...]]:
        """What is known of graphs of a graph's form, and the graph's own numbers.

        Args:
            graph: with composites expanded.
            surroundings: what else sequences depend on.
        """
        skeleton, numbers = form_of(graph)
        key = skeleton, surroundings
        with self._lock:
            family = self._families.setdefault(key, Family())
            self._families.move_to_end(key)
            while len(self._families) > MOST_FAMILIES:
                self._families.popitem(last=False)
        return family, numbers


_of: WeakKeyDictionary[Any, Families] = WeakKeyDictionary()


def families_of(device: Any) -> Families:
    """The sequences that were made for a device."""
    return _of.setdefault(device, Families())


class Family:
    """Sequences of graphs that differ in their numbers."""

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._examples: list[tuple[Any, ...]] = []
        self._plans: list[SymbolicSequence] = []
        self._made = self._served = self._fixed = 0

    def found(self, graph: Graph, numbers: tuple[Any, ...]) -> FilledSequence | None:
        """The sequence of a graph of the form, if one that was kept holds for its numbers."""
        for plan in self._plans:
            found = plan.at(graph, numbers)
            if found is not None:
                self._served += 1
                return found
        return None

    def keep(self, made: SymbolicSequence) -> None:
        """Has a sequence serve the next graphs."""
        with self._lock:
            self._plans = [made, *self._plans[: MOST_PLANS - 1]]

    def worth_a_symbol(self, numbers: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """The examples that a plan for all sizes is to be made of; none if it is not yet time."""
        with self._lock:
            if numbers in self._examples:
                return []
            self._note(numbers)
            # What serves nobody is not worth making: it takes longer than a plan of fixed sizes.
            # Sizes may grow out of where each is a case of its own, though, as short rows are.
            self._fixed += 1
            worth = 2 + self._served // 2 + self._fixed // AGAIN
            if len(self._examples) < EXAMPLES or self._made > worth:
                return []
            self._made += 1
            return list(self._examples)

    def note(self, numbers: tuple[Any, ...]) -> None:
        """Makes an example of numbers that nothing is planned for."""
        with self._lock:
            if numbers not in self._examples:
                self._note(numbers)

    def _note(self, numbers: tuple[Any, ...]) -> None:
        """Keeps examples, of many the first and the last ones."""
        if len(self._examples) == MOST_EXAMPLES:
            del self._examples[2]
        self._examples.append(numbers)
