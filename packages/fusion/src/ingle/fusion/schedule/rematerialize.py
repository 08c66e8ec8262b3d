"""Rematerialisation: values that their readers compute again instead of reading them.

A value that another kernel needs is written once and read by each kernel that needs it. If it
follows in a few cheap operations from what is in memory anyway, its readers may do these again. It
is then not written, and not kept from the first reader to the last. All of that is counted in bytes
through memory: what is written and read no more, against what is read instead, and against
operations, which count as the bytes that the device could move meanwhile (`Rates`). A value is
computed again

- where that costs less, and the most memory that kernels need at a time does not grow, or not by
  more than an eighth of the value;
- or where it costs about the same, and they need less memory.

Only chains of elementwise operations are computed again: no sum, no product, no random number, and
no function that takes a polynomial unless the device says what that costs. Numbers that belong to a
whole row, such as a mean, are stored in addition if that saves storing the rows.

Bits stay: what was rounded to a half type when it was stored is rounded where it is computed again.
Loops stay, too: no reader gets other axes or strides than it had. An input that may be written over
is not read any later than it was.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from ..grouping.contraction_loops import column_stride, row_stride
from ..grouping.group import Group
from ..grouping.groups import Grouping
from ..grouping.node_class import Role
from ..ir.graph import Donors, Graph
from ..ir.views import View, Views
from ..lowering.operands import Operands, operands_of
from ..support.time_slices import tick
from .liveness import Liveness, LiveRange, liveness_of
from .rates import PER_BYTE, Rates
from .recompute_cost import FEW, Again, Recomputation

EVEN = 4
"""What part of a value's bytes it may cost to compute it again where that saves memory."""


class GroupedPlan(NamedTuple):
    """A plan as it stands before it is settled what its groups store.

    Attributes:
        graph, views, roles, inline, grouping: of its operations.
        stored: the values that each group stores.
        placed: of these the ones that lie in another value, with where.
        donors: positions of inputs, and of outputs that may lie in their memory.
        rates: what the device's operations cost.
    """

    graph: Graph
    views: Views
    roles: Sequence[Role]
    inline: Mapping[int, int]
    grouping: Grouping
    stored: Mapping[Group, Sequence[int]]
    placed: Mapping[int, View]
    donors: Donors
    rates: Rates


def rematerialized(plan: GroupedPlan) -> dict[Group, list[int]]:
    """What each group still stores, once groups compute again what is cheaper so.

    Groups get the nodes that they take over, and lose what nobody needs.
    """
    return Rematerialization(plan).run()


class Rematerialization:
    """Decides what is computed again, value by value.

    Args:
        plan: as it stands.

    Attributes:
        ways: what finds how a reader would compute a value.
    """

    ways: type[Recomputation] = Recomputation

    def __init__(self, plan: GroupedPlan) -> None:
        graph, views, roles, inline, grouping, stored, placed, donors, rates = plan
        self._graph = graph
        self._views = views
        self._roles = roles
        self._inline = dict(inline)
        self._grouping = grouping
        self._placed = placed
        self._maker = {r: p for p, node in enumerate(graph.nodes) for r in node.results}
        self._stored = stored
        self._rounded = {v for values in stored.values() for v in values}
        self._donors = donors
        self._rates = rates
        self._sizes: dict[Group, tuple[int, ...]] = {}

    @cached_property
    def _liveness(self) -> Liveness:
        return liveness_of(self._graph, self._views, self._grouping, self._stored)

    @cached_property
    def _peak(self) -> Any:
        """The most bytes between kernels at a time, as values are stored now."""
        return self._liveness.peak({})

    @cached_property
    def _ways(self) -> Recomputation:
        return self.ways(
            self._graph, self._views, self._roles, self._inline, self._grouping, self._liveness,
            self._overwritten(), self._rates,
        )  # fmt: skip

    def _overwritten(self) -> dict[int, int]:
        """For inputs that may be written over, the first group that may do so."""
        liveness, found = self._liveness, dict[int, int]()
        for given, made in self._donors:
            roots = [self._views.of(self._graph.outputs[o]).root for o in made]
            makers = [m for r in roots if (m := self._grouping.producer(r)) is not None]
            places = sorted({liveness.place[m] for m in makers})
            for source in [self._graph.inputs[i] for i in given]:
                last = max([liveness.place[g] for g in liveness.readers.get(source, ())], default=0)
                first = bisect_left(places, last)
                if first < len(places):
                    found[source] = min(places[first], found.get(source, places[first]))
        return found

    def run(self) -> dict[Group, list[int]]:
        """Later values first: what these are made of is looked at with its new readers."""
        for group in reversed(self._grouping.groups):
            tick("choosing what is computed again", 6)
            if group.kind != "host":
                for value in sorted(self._liveness.stored[group], reverse=True):
                    if value in self._liveness.stored[group] and self._may(value, group):
                        self._consider(value, group)
        return {group: sorted(values) for group, values in self._liveness.stored.items()}

    def _may(self, value: int, group: Group) -> bool:
        """Whether a stored value is one to think about."""
        position = self._maker[value]
        op = self._graph.nodes[position].op
        if self._liveness.is_output(value) or self._roles[position] != "map":
            return False
        if not self._ways.repeats(op):
            return False
        if group.inner is None or self._ways.repeats_what_is_dear:
            return True
        return not self._holds(value, group)

    def _holds(self, value: int, group: Group) -> bool:
        """Whether something dear may wait for a later pass where a value of a row will lie."""
        values, own = self._graph.values, group.coordinates[value]
        for position in group.nodes:
            node = self._graph.nodes[position]
            if node.op.operation.traits.cost == "expensive":
                (dear,) = node.results
                alike = values[dear].aval.dtype is values[value].aval.dtype
                if alike and group.coordinates[dear] == own:
                    return True
        return False

    def _consider(self, value: int, group: Group) -> None:
        """Decides for all readers together, so that the value need not be stored, or for each."""
        readers = list(self._liveness.readers.get(value, ()))
        ways = [self._ways.way(value, reader) for reader in readers]
        able = [way for way in ways if way is not None]
        if len(able) == len(readers) and self._instead(value, group, able):
            return
        for way in able:
            pays = not way.more and self._pays(value, way.cost, [way], False)
            if pays and self._take(value, group, [way]):
                self._peak = self._liveness.peak({})

    def _instead(self, value: int, group: Group, ways: Sequence[Again]) -> bool:
        """Has all readers compute a value, if that pays, so that it is not stored."""
        moved = self._storing(ways) - self._liveness.nbytes(value)
        cost = sum([w.cost for w in ways]) + PER_BYTE * moved
        if self._ways.repeats_what_is_dear:
            more = [v for way in ways for v in way.more]
            gone = self._liveness.needless(group, {*self._liveness.stored[group], *more} - {value})
            cost -= self._ways.dear(group, gone)
        if not self._pays(value, cost, ways, True) or not self._take(value, group, ways):
            return False
        self._liveness.forget(value, group)
        self._peak = self._liveness.peak({})
        return True

    def _storing(self, ways: Sequence[Again]) -> int:
        """Bytes of what would be stored in addition."""
        return sum([self._liveness.nbytes(v) for v in {v: None for way in ways for v in way.more}])

    def _pays(self, value: int, cost: int, ways: Sequence[Again], whole: bool) -> bool:
        """Whether to compute a value again in these groups, and with `whole` not to store it."""
        nbytes = self._liveness.nbytes(value)
        if cost * EVEN > PER_BYTE * nbytes:
            return False
        more: int = self._liveness.peak(self._live_ranges(value, ways, whole)) - self._peak
        return more * FEW <= nbytes if cost < 0 else more < 0

    def _live_ranges(
        self, value: int, ways: Sequence[Again], whole: bool
    ) -> dict[int, LiveRange | None]:
        """How long values would be kept."""
        liveness = self._liveness
        maker = self._grouping.producer(value)
        assert maker is not None
        first, taken = liveness.place[maker], [way.group for way in ways]
        rest = [liveness.place[g] for g in liveness.readers.get(value, ()) if g not in taken]
        found: dict[int, LiveRange | None] = {value: None}
        if not whole:
            found[value] = first, max(rest, default=first)
        for way in ways:
            at = liveness.place[way.group]
            for root in [read.root for read in way.reads]:
                before = found.get(root) or liveness.live_range(root)
                if before is not None:
                    found[root] = before[0], max(before[1], at)
        return found

    def _take(self, value: int, maker: Group, ways: Sequence[Again]) -> bool:
        """Lets groups compute a value by themselves, unless that gives one of them other loops."""
        more = dict.fromkeys([v for way in ways for v in way.more])
        if not all(self._same_loops(value, way) for way in ways):
            return False
        if more and not self._same_storing(maker, more):
            return False
        self._liveness.store(maker, more)
        for way in ways:
            group = way.group
            self._liveness.leave(value, group)
            group.nodes = sorted(group.nodes + way.nodes)
            group.coordinates.update(way.places)
            group.rounded.update(self._rounded.intersection(way.places))
            self._liveness.note_reads(group, way.nodes)
        maker.rounded.add(value)
        return True

    def _same_loops(self, value: int, way: Again) -> bool:
        """Whether a group has the loops that it had when it computes a value by itself."""
        group = way.group
        if group.kind == "contraction":
            count = group.rows[0]
            batch = [(0,) * count] + [
                self._ways.argument(group, p, n).strides[:count]
                for p, n in self._liveness.readers[value][group]
            ]
            return all(
                read.strides[:count] in batch
                and row_stride(group, read.strides) is not None
                and column_stride(group, read.strides) is not None
                for read in way.reads
            )
        other = replace(
            group,
            nodes=sorted(group.nodes + way.nodes),
            coordinates={**group.coordinates, **way.places},
        )
        new = self._loops(other, self._liveness.stored[group])
        if new is None or new.sizes != self._sizes_of(group):
            return False
        added = [n for n, a in enumerate(new.arguments) if a in way.reads]
        return all(new.operand(n).lane != "strided" for n in added)

    def _same_storing(self, group: Group, more: Mapping[int, None]) -> bool:
        """Whether a group has the loops that it had when it stores more."""
        new = self._loops(group, {**self._liveness.stored[group], **more})
        return new is not None and new.sizes == self._sizes_of(group)

    def _sizes_of(self, group: Group) -> tuple[int, ...]:
        """Of a group's loops, which stay."""
        known = self._sizes.get(group)
        if known is None:
            loops = self._loops(group, self._liveness.stored[group])
            known = self._sizes[group] = () if loops is None else loops.sizes
        return known

    def _loops(self, group: Group, stored: Mapping[int, None]) -> Operands | None:
        return operands_of(
            self._graph, self._views, group, self._inline, sorted(stored), self._placed
        )
