"""Plans that serve many sizes: made once for graphs that differ in their sizes alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from ingle.tensor.locks import renewed

from .sequences import FilledSequence, LateSequence, SymbolicSequence

T = TypeVar("T")

EXAMPLES = 3
"""Sizes of a graph from which on the next ones are taken to vary: two are a batch and the rest."""
AGAIN = 8
"""After so many plans for one size each another one for all sizes is tried."""
MOST_FAMILIES, MOST_PLANS, MOST_EXAMPLES = 512, 8, 4
"""How many forms are known, and of each how many plans and examples."""


class Families(Generic[T]):
    """What is known of graphs, by the form of these.

    The first sizes of a graph are planned for themselves. Then sizes are taken to vary, and what
    was made holds for all of those that answer the passes' questions alike.

    Args:
        begin: makes what is known of a form that comes for the first time.
    """

    def __init__(self, begin: Callable[[], T]) -> None:
        self._lock = renewed(self, "_lock")
        self._begin = begin
        self._families: OrderedDict[Any, T] = OrderedDict()

    def family_of(self, skeleton: Any, surroundings: Hashable) -> T:
        """What is known of graphs of a form.

        Args:
            skeleton: of the form.
            surroundings: what else the results of passes depend on.
        """
        key = skeleton, surroundings
        with self._lock:
            family = self._families.get(key)
            if family is None:
                family = self._families[key] = self._begin()
            self._families.move_to_end(key)
            while len(self._families) > MOST_FAMILIES:
                self._families.popitem(last=False)
        return family


class Family:
    """Sequences of graphs that differ in their numbers."""

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._examples: list[tuple[Any, ...]] = []
        self._plans: list[SymbolicSequence | LateSequence] = []
        self._made = self._served = self._fixed = 0

    def found(
        self, numbers: tuple[Any, ...], constants: Sequence[Any]
    ) -> FilledSequence | None:  # fmt: skip
        """The sequence of a graph of the form, if one that was kept holds for its numbers; see
        `SymbolicSequence.at`."""
        for plan in self._plans:
            found = plan.at(numbers, constants)
            if found is not None:
                self._served += 1
                return found
        return None

    def keep(self, made: SymbolicSequence | LateSequence) -> None:
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


_of: WeakKeyDictionary[Any, Families[Family]] = WeakKeyDictionary()


def families_of(device: Any) -> Families[Family]:
    """The sequences that were made for a device, by the forms of decomposed graphs."""
    return _of.setdefault(device, Families(Family))
