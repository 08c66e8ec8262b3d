"""Plans that serve many sizes: made once for graphs that differ in their sizes alone."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ingle.tensor.locks import renewed

from ..errors import PlanWarning
from ..ir.graph import Graph
from .form import form_of
from .outlines import FilledSequence, Planned, SymbolicSequence

EXAMPLES = 3
"""Sizes of a graph from which on the next ones are taken to vary: two are a batch and the rest."""
AGAIN = 8
"""After so many plans for one size each another one for all sizes is tried."""
MOST_FAMILIES, MOST_PLANS, MOST_EXAMPLES = 512, 8, 4
"""How many forms are known, and of each how many plans and examples."""


class Families:
    """Outlines of graphs, by the form of these.

    The first sizes of a graph are planned for themselves. Then sizes are taken to vary, and what
    was made holds for all of those that answer the passes' questions alike.
    """

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._families: OrderedDict[Any, _Family] = OrderedDict()

    def outlined(self, graph: Graph, surroundings: Hashable, planned: Planned) -> FilledSequence:
        """The outline of a graph.

        Args:
            graph: with composites expanded.
            surroundings: what else outlines depend on.
            planned: makes them.
        """
        skeleton, numbers = form_of(graph)
        key = skeleton, surroundings
        with self._lock:
            family = self._families.setdefault(key, _Family())
            self._families.move_to_end(key)
            while len(self._families) > MOST_FAMILIES:
                self._families.popitem(last=False)
        return family.outlined(graph, numbers, planned)


_of: WeakKeyDictionary[Any, Families] = WeakKeyDictionary()


def families_of(device: Any) -> Families:
    """The outlines that were made for a device."""
    return _of.setdefault(device, Families())


class _Family:
    """Graphs that differ in their numbers."""

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._examples: list[tuple[Any, ...]] = []
        self._plans: list[SymbolicSequence] = []
        self._made = self._served = self._fixed = 0

    def outlined(self, graph: Graph, numbers: tuple[Any, ...], planned: Planned) -> FilledSequence:
        for plan in self._plans:
            found = plan.at(graph, numbers)
            if found is not None:
                self._served += 1
                return found
        examples = self._worth_a_symbol(numbers)
        # Not under the lock: planning may be interrupted, and wait for its turn; see `pace`.
        made = _attempted(graph, examples, planned) if examples else None
        if made is None:
            return FilledSequence(planned(graph))
        with self._lock:
            self._plans = [made, *self._plans[: MOST_PLANS - 1]]
        found = made.at(graph, numbers)
        assert found is not None, "the example answers like itself"
        return found

    def _worth_a_symbol(self, numbers: tuple[Any, ...]) -> list[tuple[Any, ...]]:
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

    def _note(self, numbers: tuple[Any, ...]) -> None:
        """Keeps examples, of many the first and the last ones."""
        if len(self._examples) == MOST_EXAMPLES:
            del self._examples[2]
        self._examples.append(numbers)


def _attempted(
    graph: Graph, examples: Sequence[tuple[Any, ...]], planned: Planned
) -> SymbolicSequence | None:
    """A symbolic outline, or a warning that a pass can do with numbers only."""
    try:
        return SymbolicSequence(graph, examples, planned)
    except Exception as error:
        warnings.warn(
            f"no plan could be made for all sizes at once, so each gets its own: "
            f"{type(error).__name__}: {error}; please report it",
            PlanWarning,
            stacklevel=2,
        )
        return None
