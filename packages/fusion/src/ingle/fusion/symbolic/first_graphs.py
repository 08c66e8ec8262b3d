"""The first graphs of a form, which are planned without being written out.

Of a graph of many layers only a few are decomposed. What comes of the whole graph is asked for when
another size of it comes, as an example for a plan for all sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from ingle.tensor.locks import renewed

from ..ir.graph import Graph
from .families import Families

Recorded: TypeAlias = "tuple[Graph, Sequence[Any]]"
"""A graph, and its scalars in some run."""


class FirstGraphs:
    """Graphs of one form, up to the second."""

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._numbers: tuple[Any, ...] | None = None
        self._waiting: list[Recorded] = []
        self._alone = True

    def is_alone(self, graph: Graph, scalars: Sequence[Any], numbers: tuple[Any, ...]) -> bool:
        """Whether no graph with other numbers has come before.

        Args:
            graph: the one that comes now.
            scalars: its own in the run at hand.
            numbers: of its form.
        """
        with self._lock:
            if self._numbers is None:
                self._numbers = numbers
                self._waiting = [(graph, scalars)]
            self._alone = self._alone and self._numbers == numbers
            return self._alone

    def taken(self) -> list[Recorded]:
        """The first graph, for the first who asks."""
        with self._lock:
            found, self._waiting = self._waiting, []
            return found


_of: WeakKeyDictionary[Any, Families[FirstGraphs]] = WeakKeyDictionary()


def first_graphs_of(device: Any) -> Families[FirstGraphs]:
    """The first graphs that were planned for a device, by form."""
    return _of.setdefault(device, Families(FirstGraphs))
