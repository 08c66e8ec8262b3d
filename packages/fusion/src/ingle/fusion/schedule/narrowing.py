"""Halves are stored as such: readers widen them, instead of the kernel that makes them.

A product of half types whose result is computed with in float32 would store what follows in
float32, with twice the bytes, if the operation that widens it stands in the kernel of the product.
Here the half is stored if that is less, and readers do again what follows from it: widening, which
is exact, and a few cheap operations.

This comes before it is settled what is rounded on its way to memory, since what is stored is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..grouping.group import Group
from ..support.time_slices import tick
from .recompute_cost import Again, Recomputation
from .rematerialize import GroupedPlan, Rematerialization


def narrowed(plan: GroupedPlan) -> Mapping[Group, Sequence[int]]:
    """What each group stores, where halves are stored instead of what they are widened to."""
    graph = plan.graph
    wide = [
        (value, group)
        for group, values in plan.stored.items()
        if group.kind != "host" and any(graph.values[v].is_half for v in group.coordinates)
        for value in values
        if not graph.values[value].is_half
    ]
    return _Narrowing(plan).of(wide) if wide else plan.stored


class _Widening(Recomputation):
    """Finds ways to compute a value from halves of its maker, which are stored for it."""

    def _worth_storing(self, root: int, position: int, way: Again) -> bool:
        maker, value = self._grouping.producer(root), self._graph.nodes[way.nodes[0]].results[0]
        if maker is None or maker is not self._grouping.producer(value):
            return False
        return root in maker.coordinates and self._graph.values[root].is_half


class _Narrowing(Rematerialization):
    """Has halves stored instead of what follows from them."""

    ways = _Widening

    def of(self, wide: Sequence[tuple[int, Group]]) -> dict[Group, list[int]]:
        """What groups store, of which these values follow from halves perhaps."""
        for value, group in wide:
            tick("storing halves", 6)
            if value in self._liveness.stored[group] and self._may(value, group):
                self._consider(value, group)
        return {group: sorted(values) for group, values in self._liveness.stored.items()}

    def _consider(self, value: int, group: Group) -> None:
        """All readers compute it, or none does."""
        readers = list(self._liveness.readers.get(value, ()))
        ways = [w for reader in readers if (w := self._ways.way(value, reader)) is not None]
        if len(ways) == len(readers) and any(w.more for w in ways):
            self._instead(value, group, ways)

    def _same_storing(self, group: Group, more: Mapping[int, None]) -> bool:
        """A half lies as what follows from it would."""
        return group.kind == "contraction" or super()._same_storing(group, more)
