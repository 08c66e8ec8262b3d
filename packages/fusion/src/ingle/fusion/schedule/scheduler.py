"""From a graph to calls: which kernels compute it, in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from ..grouping.group import Group
from ..grouping.groups import Grouping, grouped, products_alone
from ..grouping.legality import Legality
from ..grouping.node_class import roles_of
from ..grouping.products_apart import stays_out
from ..grouping.totals_in_parts import with_totals_in_parts
from ..grouping.two_stage_reduction import in_two_steps, sums_in_two_steps
from ..ir.broadcast_axes import GATHERED
from ..ir.graph import Donors, Graph
from ..ir.layers import Layers
from ..ir.short_graph import UnlikeError
from ..ir.views import View, Views, views_of
from ..lowering.contraction import ContractionBuilder
from ..lowering.nest_pieces import pieces_of
from ..lowering.nests import NestBuilder, nest_builder
from ..lowering.region_copies import Assembler, in_memory, placements
from ..passes.decompositions import spreading
from ..passes.sums_in_pieces import with_sums_in_pieces
from ..support.time_slices import tick
from .moved_groups import LoweredGroup
from .moving_pieces import MovingPieces
from .narrowing import narrowed
from .rates import rates_of
from .rematerialize import GroupedPlan, rematerialized
from .repeated_layers import KEPT, is_complete, shortened
from .schedule import Call, HostStep, KernelSequence

Begin: TypeAlias = Callable[[Iterable["Call | HostStep"]], None]
"""Is told of calls whose kernels will be compiled."""

Begun: TypeAlias = "NestBuilder | Sequence[Call | HostStep]"
"""What becomes calls; of a nest only the operands and loops are known, its code is not made."""


class Scheduler:
    """Groups a graph's nodes into kernels.

    Args:
        graph: with composites expanded.
        legality: what kernels can do.
        donors: positions of inputs, and of outputs that may lie in their memory.
        begin: is told the calls as soon as they are known: of layers that repeat only a few.
        layers: of the graph, if they are known.
    """

    def __init__(
        self, graph: Graph, legality: Legality, donors: Donors = (), begin: Begin | None = None,
        layers: Layers | None = None,
    ) -> None:  # fmt: skip
        self._legality = legality
        self._donors = donors
        self._begin_compiling = begin
        self._layers = layers
        self._first: Grouping | None = None
        self._graph = graph
        self._known_views: Views | None = None

    def _take(self, graph: Graph) -> None:
        """Takes up a graph, about whose nodes nothing is known yet."""
        self._first = self._layers = None
        self._graph = graph
        self._known_views = None

    @property
    def _views(self) -> Views:
        """The views of the graph's values, found when they are asked for first."""
        found = self._known_views
        if found is None:
            found = self._known_views = views_of(self._graph)
        return found

    def _begin(self) -> None:
        """Finds out what each node of the graph is; of layers only a few need be looked at."""
        graph = self._graph
        legality = self._legality

        def can_lower(position: int) -> bool:
            node = graph.nodes[position]
            return legality.generates(node.op, [graph.values[a].aval for a in node.args])

        self._roles = roles_of(graph, self._views, can_lower)
        self._inline = self._inlined()
        self._alone = spreading(graph, self._views)
        self._materialize()

    def _inlined(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for position, role in enumerate(self._roles):
            if role == "inline":
                found[self._graph.nodes[position].results[0]] = position
        return found

    def sequence(self) -> KernelSequence:
        """The calls in order."""
        groups = self._repeated() or self._groups_in_two_steps()
        calls = [call for group in groups for call in group.calls]
        return KernelSequence(self._graph, self._views, calls, self._inline)

    def _repeated(self) -> list[LoweredGroup] | None:
        """The groups of a graph of layers, of which a few are planned; None of any other."""
        for kept in KEPT:
            try:
                return self._of_layers(kept)
            except UnlikeError:
                continue
        return None

    def _of_layers(self, kept: int) -> list[LoweredGroup] | None:
        """The same by so many of the layers.

        Raises:
            UnlikeError: they have become unlike.
        """
        short = shortened(self._graph, self._layers, kept)
        if short is None:
            return None
        part = self._of(short.graph)
        pieces = MovingPieces(short, part._views, self._views)
        if self._rewrite_sums(short.positions(part.sums_in_two_steps(), pieces)):
            short = shortened(self._graph, self._layers, kept)
            if short is None:
                return None
            part = self._of(short.graph)
            pieces = MovingPieces(short, part._views, self._views)
        groups = short.groups(part.groups(), pieces)
        inline = short.positions([*part._inline.values()], pieces)
        if not is_complete(self._graph, self._views, groups):
            raise UnlikeError
        self._inline = {self._graph.nodes[p].results[0]: p for p in inline}
        return groups

    def _of(self, graph: Graph) -> Scheduler:
        """The same for a part of the graph."""
        return Scheduler(graph, self._legality, self._donors, self._begin_compiling)

    def _groups_in_two_steps(self) -> list[LoweredGroup]:
        self._rewrite_sums(self.sums_in_two_steps())
        return self.groups()

    def _rewrite_sums(self, chosen: Sequence[int]) -> bool:
        """Has some sums in two steps, the operands of other pieces computed on their axes, and many
        sums of blocks added up in parts; returns whether anything is other than before."""
        graph = in_two_steps(self._graph, chosen) if chosen else self._graph
        if self._legality.device.splits_sums:
            graph = with_totals_in_parts(with_sums_in_pieces(graph))
        if graph is self._graph:
            return False
        self._take(graph)
        return True

    def sums_in_two_steps(self) -> list[int]:
        """The positions of sums over rows that kernels can make in two steps."""
        self._begin()
        self._begin_products()
        self._first = self._grouping()
        device = self._legality.device
        return sums_in_two_steps(self._graph, self._views, self._first, device)

    def _begin_products(self) -> None:
        """Has products compiled from here on, whose code is the longest: how their operands lie is
        known, and mostly stays so; what becomes of their results has code of its own."""
        if self._begin_compiling is None:
            return
        of = self._graph, self._views
        builders = (
            ContractionBuilder(*of, g, self._inline, self._graph.nodes[g.nodes[0]].results)
            for g in products_alone(*of, self._roles)
        )
        self._begin_compiling(call for b in builders if (call := b.build()) is not None)

    def groups(self) -> list[LoweredGroup]:
        """The groups in order, with their calls."""
        if self._first is None:
            self._begin()
        grouping, self._first = self._first or self._grouping(), None
        while True:
            stored: Mapping[Group, Sequence[int]] = self._stored(grouping)
            placed = placements(self._graph, self._views, self._roles, grouping)
            nodes = {group: tuple(group.nodes) for group in grouping.groups}
            stored = narrowed(self._plan(grouping, stored, placed))
            begun: dict[Group, Begun] = {}
            failed = self._begin_all(begun, grouping.groups, stored, placed)
            if not failed:
                break
            for group in grouping.apart(failed):
                self._take_apart(group, stored[group], placed)
            grouping = self._grouping()
        self._rematerialize(begun, grouping, stored, placed)
        found: list[LoweredGroup] = []
        for group, own in nodes.items():
            tick("writing kernels", 16)
            made = begun.get(group, ())
            calls = (made.build(),) if isinstance(made, NestBuilder) else tuple(made)
            needs = tuple([nodes[g][0] for g in grouping.needs(group)])
            found.append(LoweredGroup(own, needs, calls))
        if self._begin_compiling is not None:
            self._begin_compiling([call for group in found for call in group.calls])
        return found

    def _begin_all(
        self, begun: dict[Group, Begun], groups: Sequence[Group],
        stored: Mapping[Group, Sequence[int]], placed: dict[int, View],
    ) -> list[Group]:  # fmt: skip
        """Begins the calls of groups; returns those that are no kernels."""
        failed: list[Group] = []
        for group in groups:
            tick("finding loops", 11)
            if group.kind != "host" and not stored[group]:
                continue  # Something waits for it, but nobody needs it.
            made = self._begun(group, stored[group], placed)
            if made is None:
                failed.append(group)
            else:
                begun[group] = made
        return failed

    def _plan(
        self, grouping: Grouping, stored: Mapping[Group, Sequence[int]], placed: Mapping[int, View]
    ) -> GroupedPlan:
        """The plan as it stands, for what decides what groups store."""
        return GroupedPlan(
            self._graph, self._views, self._roles, self._inline, grouping, stored, placed,
            self._donors, rates_of(self._legality.device),
        )  # fmt: skip

    def _rematerialize(
        self, begun: dict[Group, Begun], grouping: Grouping,
        stored: Mapping[Group, Sequence[int]], placed: dict[int, View],
    ) -> None:  # fmt: skip
        """Begins the calls anew that compute again what others stored for them, or store less.

        Which groups there are is settled before, and so is what is rounded on its way to memory.
        """
        nodes = {group: group.nodes for group in begun}
        kept = rematerialized(self._plan(grouping, stored, placed))
        for group, before in nodes.items():
            if not kept[group] and group.kind != "host":
                del begun[group]
            elif group.nodes != before or kept[group] != stored[group]:
                again = self._begun(group, kept[group], placed)
                assert again is not None, "a group that computes again keeps its loops"
                begun[group] = again

    def _grouping(self) -> Grouping:
        apart = stays_out(self._graph, self._views, self._legality.device)
        return grouped(self._graph, self._views, self._roles, self._alone, apart)

    def _materialize(self) -> None:
        """Inline values that somebody needs in memory are computed there like any other."""
        needed = {self._views.of(o).root for o in self._graph.outputs}
        for position, role in enumerate(self._roles):
            args = self._graph.nodes[position].args
            if role in ("host", "contraction"):
                needed.update(self._views.of(a).root for a in args)
            elif role == "gather":
                needed.add(self._views.of(args[GATHERED]).root)
            elif role == "assembly":
                needed.update(in_memory(self._graph, self._views, position, self._inline))
        for value in [v for v in self._inline if v in needed]:
            self._roles[self._inline.pop(value)] = "map"

    def _take_apart(
        self, group: Group, stored: Sequence[int], placed: Mapping[int, View]
    ) -> None:  # fmt: skip
        """A group without a nest is tried again in the pieces that have one, or without its last
        node; a single one is left to the backend."""
        last = group.nodes[-1]
        sums = [p for p in group.nodes if self._roles[p] == "columns"]
        if sums and len(group.nodes) > 1:
            self._alone.update(sums)
            return
        if group.kind == "nest":
            of = self._graph, self._views
            pieces = pieces_of(*of, group, self._inline, stored, placed)
            if not self._alone.issuperset(pieces[1:]):
                self._alone.update(pieces[1:])
                return
        if len(group.nodes) == 1:
            self._roles[last] = "host"
        # The last one may begin the group, a product, that others have joined: then these go.
        self._alone.add(next((p for p in reversed(group.nodes) if p not in self._alone), last))

    def _stored(self, grouping: Grouping) -> dict[Group, list[int]]:
        """The values of each group that are needed outside of it."""
        found: dict[Group, dict[int, None]] = {g: {} for g in grouping.groups}
        for group in grouping.groups:
            for position in group.nodes:
                for value in self._graph.nodes[position].args:
                    self._note(found, grouping, value, group)
        for value in self._graph.outputs:
            self._note(found, grouping, value, None)
        return {g: sorted(values) for g, values in found.items()}

    def _note(
        self, found: dict[Group, dict[int, None]], grouping: Grouping, value: int,
        user: Group | None,
    ) -> None:  # fmt: skip
        root = self._views.of(value).root
        maker = grouping.producer(root)
        if maker is not None and maker is not user:
            found[maker][root] = None

    def _begun(self, group: Group, stored: Sequence[int], placed: dict[int, View]) -> Begun | None:
        """The calls of a group; None if the group has to be taken apart."""
        if group.kind == "host":
            return [HostStep(group.nodes[0])]
        of = self._graph, self._views
        if group.kind == "assembly":
            return Assembler(*of, self._inline, placed).calls(group.nodes[0])
        if group.kind == "contraction":
            call = ContractionBuilder(*of, group, self._inline, stored, placed).build()
            return None if call is None else [call]
        turns = self._legality.device.moves_by_vectors
        return nest_builder(*of, group, self._inline, stored, placed, turns)
