"""From a graph to a plan: which kernels run on what memory in which order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ingle.tensor.contract import Aval

from .graph import Graph
from .kernel.nest import BLOCK
from .passes.alignment import GATHERED
from .passes.assembly import Assembler, in_memory, placements
from .passes.columns import in_two_steps
from .passes.contractions import ContractionBuilder, ContractionCall
from .passes.decompositions import spreading
from .passes.groups import Group, Grouping
from .passes.nests import NestBuilder, NestCall
from .passes.operands import Argument, Unnestable
from .passes.rematerialization import rematerialized
from .passes.roles import roles_of
from .passes.storage import Span, packed
from .passes.views import View, Views

Call: TypeAlias = "NestCall | ContractionCall"


@dataclass(frozen=True, slots=True)
class HostStep:
    """An operation that the backend runs by itself, between kernels."""

    position: int


Begun: TypeAlias = "NestBuilder | Sequence[Call | HostStep]"
"""What becomes calls; of a nest only the operands and loops are known, its code is not made."""


@dataclass(slots=True)
class Schedule:
    """What a plan does.

    Attributes:
        graph: with composites expanded, each value once.
        views: of its values.
        steps: runs of kernels, and operations that the backend runs itself.
        offsets: where in the arena a value lies; in bytes.
        arena: the arena's size in bytes.
        own: values that get memory of their own in each run: outputs, and what the backend's own
            operations read.
        inline: values that kernels compute wherever they need them.
    """

    graph: Graph
    views: Views
    steps: list[list[Call] | HostStep]
    offsets: dict[int, int]
    arena: int
    own: list[int]
    inline: dict[int, int]

    def __str__(self) -> str:
        lines = []
        for step in self.steps:
            for call in [step] if isinstance(step, HostStep) else step:
                positions = [call.position] if isinstance(call, HostStep) else call.nodes
                names = " ".join(self.graph.nodes[p].op.operation.name for p in positions)
                sizes = "" if isinstance(call, HostStep) else "x".join(map(str, call.sizes))
                kind = "host" if isinstance(call, HostStep) else "kernel"
                lines.append(f"{kind:7}{sizes:>20}  {names}")
        head = f"{len(self.graph.nodes)} operations, {len(lines)} kernels, arena {self.arena} bytes"
        return "\n  ".join([head, *lines])


class Scheduler:
    """Groups a graph's nodes into kernels and finds memory for what lies between them.

    Args:
        graph: with composites expanded.
        generated: whether kernels can be generated for an operation on operands like these.
        donors: positions of inputs and of outputs that may lie in an input's memory.
    """

    def __init__(
        self, graph: Graph, generated: Any, donors: Sequence[tuple[int, int]] = ()
    ) -> None:  # fmt: skip
        self._generated = generated
        self._donors = donors
        self._begin(graph)

    def _begin(self, graph: Graph) -> None:
        """Takes up a graph, about whose nodes nothing is known yet."""
        self._graph = graph
        self._views = Views(graph)

        def can_lower(position: int) -> bool:
            node = graph.nodes[position]
            return bool(self._generated(node.op, [graph.values[a].aval for a in node.args]))

        self._roles = roles_of(graph, self._views, can_lower)
        self._maker = {r: p for p, node in enumerate(graph.nodes) for r in node.results}
        self._inline = self._inlined()
        self._alone = spreading(graph, self._views)
        self._materialize()

    def _inlined(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for position, role in enumerate(self._roles):
            if role == "inline":
                found[self._graph.nodes[position].results[0]] = position
        return found

    def schedule(self) -> Schedule:
        """The steps and their memory."""
        grouping = self._grouping()
        stepwise = in_two_steps(self._graph, self._views, grouping)
        if stepwise is not None:
            self._begin(stepwise)
            grouping = self._grouping()
        while True:
            stored = self._stored(grouping)
            placed = placements(self._graph, self._views, self._roles, grouping)
            begun: dict[Group, Begun] = {}
            failed = self._begin_all(begun, grouping.groups, stored, placed)
            if failed is None:
                break
            self._take_apart(failed)
            grouping = self._grouping()
        self._rematerialize(begun, grouping, stored, placed)
        calls: list[Call | HostStep] = []
        for made in begun.values():
            calls.extend([made.build()] if isinstance(made, NestBuilder) else made)
        return self._laid_out(calls)

    def _begin_all(
        self, begun: dict[Group, Begun], groups: Sequence[Group],
        stored: Mapping[Group, Sequence[int]], placed: dict[int, View],
    ) -> Group | None:  # fmt: skip
        """Begins the calls of groups; returns one that is no kernel."""
        for group in groups:
            if group.kind != "host" and not stored[group]:
                continue  # Something waits for it, but nobody needs it.
            try:
                begun[group] = self._begun(group, stored[group], placed)
            except Unnestable:
                return group
        return None

    def _rematerialize(
        self, begun: dict[Group, Begun], grouping: Grouping,
        stored: Mapping[Group, Sequence[int]], placed: dict[int, View],
    ) -> None:  # fmt: skip
        """Begins the calls anew that compute again what others stored for them, or store less.

        Which groups there are is settled before, and so is what is rounded on its way to memory.
        """
        nodes = {group: group.nodes for group in begun}
        kept = rematerialized(
            self._graph, self._views, self._roles, self._inline, grouping, stored, placed,
            self._donors,
        )  # fmt: skip
        for group, before in nodes.items():
            if not kept[group] and group.kind != "host":
                del begun[group]
            elif group.nodes != before or kept[group] != stored[group]:
                begun[group] = self._begun(group, kept[group], placed)

    def _grouping(self) -> Grouping:
        return Grouping(self._graph, self._views, self._roles, self._alone)

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

    def _take_apart(self, group: Group) -> None:
        """A group without a nest is tried again without its last node; a single one is left to
        the backend."""
        last = group.nodes[-1]
        sums = [p for p in group.nodes if self._roles[p] == "columns"]
        if sums and len(group.nodes) > 1:
            self._alone.update(sums)
            return
        if len(group.nodes) == 1:
            self._roles[last] = "host"
        self._alone.add(last)

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

    def _begun(self, group: Group, stored: Sequence[int], placed: dict[int, View]) -> Begun:
        if group.kind == "host":
            return [HostStep(group.nodes[0])]
        of = self._graph, self._views
        if group.kind == "assembly":
            return Assembler(*of, self._inline, placed).calls(group.nodes[0])
        if group.kind == "contraction":
            return [ContractionBuilder(*of, group, self._inline, stored).build()]
        return NestBuilder(*of, group, self._inline, stored, placed)

    def _laid_out(self, calls: Sequence[Call | HostStep]) -> Schedule:
        for call in calls:
            if isinstance(call, NestCall):
                self._check_bounds(call)
        own = self._own(calls)
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for at, call in enumerate(calls):
            for root, output in _touched(self._graph, self._views, call):
                if output:
                    first.setdefault(root, at)
                last[root] = at
        spans = [
            Span(v, self._nbytes(v), at, last[v])
            for v, at in first.items()
            if v not in own and not self._by_host(v, calls)
        ]
        offsets, arena = packed(spans)
        steps: list[list[Call] | HostStep] = []
        for call in calls:
            if isinstance(call, HostStep):
                steps.append(call)
            elif steps and isinstance(steps[-1], list):
                steps[-1].append(call)
            else:
                steps.append([call])
        return Schedule(self._graph, self._views, steps, offsets, arena, sorted(own), self._inline)

    def _check_bounds(self, call: NestCall) -> None:
        """A kernel that left its operands would take the process with it."""
        for argument, strides, operand in zip(
            call.arguments, call.strides, call.nest.operands, strict=True
        ):
            sizes = self._reached(argument, call)
            steps = [(n - 1) * s for n, s in zip(sizes, strides, strict=True)]
            first = argument.offset + sum(min(s, 0) for s in steps)
            last = argument.offset + sum(max(s, 0) for s in steps)
            if operand.beyond is not None:  # the kernel keeps where it begins within limits
                first, last = 0, last - first
            aval = self._graph.values[argument.root].aval
            if first < 0 or last >= math.prod(aval.shape):
                names = " ".join(self._graph.nodes[p].op.operation.name for p in call.nodes)
                raise RuntimeError(
                    f"the plan of [{names}] would read or write outside of {aval}: loops "
                    f"{call.sizes}, strides {strides}, offset {argument.offset}; this is a mistake "
                    "in Ingle, please report it. INGLE_FUSION=0 avoids it"
                )

    def _reached(self, argument: Argument, call: NestCall) -> tuple[int, ...]:
        """How far a kernel goes along each axis: in sums over rows to the last block of these."""
        if argument.output and self._roles[self._maker[argument.root]] == "columns":
            return (-(-call.sizes[0] // BLOCK), *call.sizes[1:])
        return call.sizes

    def _nbytes(self, value: int) -> int:
        aval: Aval = self._graph.values[value].aval
        return math.prod(aval.shape) * aval.dtype.itemsize

    def _by_host(self, value: int, calls: Sequence[Call | HostStep]) -> bool:
        return any(
            isinstance(c, HostStep) and value in self._graph.nodes[c.position].results
            for c in calls
        )

    def _own(self, calls: Sequence[Call | HostStep]) -> set[int]:
        made = {
            root
            for call in calls
            if not isinstance(call, HostStep)
            for root, output in _touched(self._graph, self._views, call)
            if output
        }
        wanted = {self._views.of(o).root for o in self._graph.outputs}
        for call in calls:
            if isinstance(call, HostStep):
                args = self._graph.nodes[call.position].args
                wanted.update(self._views.of(a).root for a in args)
        return made & wanted


def _touched(graph: Graph, views: Views, call: Call | HostStep) -> list[tuple[int, bool]]:
    """The roots that a call reads, and those that it writes."""
    if isinstance(call, HostStep):
        node = graph.nodes[call.position]
        return [(views.of(a).root, False) for a in node.args] + [(r, True) for r in node.results]
    if isinstance(call, NestCall):
        return [(a.root, a.output) for a in call.arguments]
    return [(a.root, a.output) for a in (call.a, call.b, *call.operands)]


def whole(view: View, shape: tuple[int, ...]) -> bool:
    """Whether a view is its root, of that shape: every element at its place."""
    return view.shape == shape and view.contiguous and view.offset == 0
