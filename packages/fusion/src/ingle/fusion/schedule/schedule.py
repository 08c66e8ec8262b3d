"""What a plan does, and where in memory: from calls in order to steps with offsets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, overload

from ..grouping.two_stage_reduction import is_columns
from ..ir.graph import Graph
from ..ir.views import View, Views
from ..lowering.contraction import ContractionCall
from ..lowering.nests import NestCall
from ..lowering.one_nest import end_of_run
from ..lowering.operands import Argument
from ..support.time_slices import tick
from .arena import LiveBuffer, packed
from .reach import Reaches
from .whole_calls import WholeCall
from .written_over import written_over

MOST_BYTES = 1 << 23
"""Of a value that waits for others of its kind, so that their kernels can be one launch."""

Call: TypeAlias = "NestCall | ContractionCall"


@dataclass(frozen=True, slots=True)
class HostStep:
    """An operation that the backend runs by itself, between kernels."""

    position: int


class KernelSequence(NamedTuple):
    """What a plan calls, before it is known where in memory.

    Attributes:
        graph: with composites expanded, each value once.
        views: of its values.
        calls: in the order in which they run.
        inline: values that kernels compute wherever they need them.
    """

    graph: Graph
    views: Views
    calls: Sequence[Call | HostStep]
    inline: dict[int, int]

    def host_steps(self) -> list[int]:
        """Positions of the operations that the backend runs by itself."""
        return [call.position for call in self.calls if isinstance(call, HostStep)]


@dataclass(slots=True)
class Schedule:
    """What a plan does.

    Attributes:
        graph, views, inline: see `KernelSequence`.
        steps: runs of kernels, and operations that the backend runs itself.
        offsets: where in the arena a value lies; in bytes.
        arena: the arena's size in bytes.
        own: values that get memory of their own in each run: outputs, and what the backend's own
            operations read.
        workspaces: where in the arena a call has memory while it runs, by its number among all.
    """

    graph: Graph
    views: Views
    steps: list[list[Call | WholeCall] | HostStep]
    offsets: dict[int, int]
    arena: int
    own: list[int]
    inline: dict[int, int]
    workspaces: dict[int, int] = field(default_factory=dict)

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


def laid_out(
    sequence: KernelSequence, whole: Mapping[int, WholeCall] | None = None, *,
    joins_launches: bool = False, workspace: Callable[[WholeCall], int] | None = None,
    beside: int = 0,
) -> Schedule:  # fmt: skip
    """The steps and their memory.

    Args:
        sequence: the calls in order.
        whole: what executables do of the operations that are no kernels, by position.
        joins_launches: whether small values of neighbours of one nest get memory apart, so that
            these can be one launch.
        workspace: the bytes that an operation of the device's own takes while it runs.
        beside: calls behind the last that needs a small value, during which nothing else gets its
            memory, so that they can run beside that one.
    """
    return _MemoryLayout(sequence, whole or {}, joins_launches, workspace, beside).schedule()


class _MemoryLayout:
    """Finds memory for what lies between calls."""

    def __init__(
        self, sequence: KernelSequence, whole: Mapping[int, WholeCall], joins_launches: bool,
        workspace: Callable[[WholeCall], int] | None,
        beside: int,
    ) -> None:  # fmt: skip
        self._graph, self._views, calls, self._inline = sequence
        self._calls: list[Call | WholeCall | HostStep] = [
            whole.get(c.position, c) if isinstance(c, HostStep) else c for c in calls
        ]
        self._touched = [touched(self._graph, self._views, call) for call in self._calls]
        self._elements: dict[int, int] = {}
        self._reaches = Reaches()
        self._joins_launches = joins_launches
        self._workspace = workspace
        self._beside = beside
        self._by_host = {
            result
            for call in self._calls
            if isinstance(call, HostStep)
            for result in self._graph.nodes[call.position].results
        }

    def schedule(self) -> Schedule:
        graph, views, calls = self._graph, self._views, self._calls
        maker = {r: p for p, node in enumerate(graph.nodes) for r in node.results}
        for call in calls:
            tick("finding memory")
            if isinstance(call, NestCall):
                self._check_bounds(call, maker)
        own = self._own()
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for at, (roots, run) in enumerate(zip(self._touched, self._runs(), strict=True)):
            for root, output in roots:
                is_small = self._nbytes(root) <= MOST_BYTES
                begin, end = run if is_small else (at, at)
                if output:
                    first.setdefault(root, begin)
                last[root] = min(end + self._beside * is_small, len(calls) - 1)
        spans = [
            LiveBuffer(v, self._nbytes(v), at, last[v])
            for v, at in first.items()
            if v not in own and v not in self._by_host
        ]
        spans, over = written_over(spans, calls)
        beside = self._workspaces()
        offsets, arena = packed([*spans, *beside])
        workspaces = {span.first: offsets.pop(span.value) for span in beside}
        offsets.update({value: offsets[first] for value, first in over.items()})
        steps: list[list[Call | WholeCall] | HostStep] = []
        for call in calls:
            if isinstance(call, HostStep):
                steps.append(call)
            elif steps and isinstance(steps[-1], list):
                steps[-1].append(call)
            else:
                steps.append([call])
        return Schedule(graph, views, steps, offsets, arena, sorted(own), self._inline, workspaces)

    def _workspaces(self) -> list[LiveBuffer]:
        """What large operations of the device's own need while they run, as values that are none:
        much of the arena may be free then."""
        found = []
        for at, call in enumerate(self._calls):
            if self._workspace is not None and isinstance(call, WholeCall):
                nbytes = self._workspace(call)
                if nbytes > MOST_BYTES:
                    found.append(LiveBuffer(-1 - at, nbytes, at, at))
        return found

    def _runs(self) -> list[tuple[int, int]]:
        """For each call the first and the last of the neighbours that may be one launch."""
        found: list[tuple[int, int]] = []
        first = 0
        while first < len(self._calls):
            end = self._end_of_run(first) if self._joins_launches else first + 1
            found += [(first, end - 1)] * (end - first)
            first = end
        return found

    def _end_of_run(self, first: int) -> int:
        """Behind the last of the calls of one nest that read nothing that others of them write."""
        written: set[int] = set()
        for at in range(first, end_of_run(self._calls, first)):
            roots = self._touched[at]
            if any(root in written for root, output in roots if not output):
                return at
            written.update([root for root, output in roots if output])
        return max(at + 1, first + 1)

    def _check_bounds(self, call: NestCall, maker: dict[int, int]) -> None:
        """A kernel that left its operands would take the process with it."""
        nodes = self._graph.nodes
        by_columns = tuple([a.output and is_columns(nodes[maker[a.root]]) for a in call.arguments])
        for argument, reach in zip(call.arguments, self._reaches.of(call, by_columns), strict=True):
            # What begins at computed places is kept within limits by the kernel.
            at = 0 if reach.anywhere else argument.offset
            if at + reach.first < 0 or at + reach.last >= self._count(argument.root):
                names = " ".join(self._graph.nodes[p].op.operation.name for p in call.nodes)
                raise RuntimeError(
                    f"the plan of [{names}] would read or write outside of "
                    f"{self._graph.values[argument.root].aval}: loops {call.sizes}, strides "
                    f"{call.strides}, offset {argument.offset}; this is a mistake in Ingle, please "
                    "report it. INGLE_FUSION=0 avoids it"
                )

    def _count(self, value: int) -> int:
        """How many elements it has."""
        found = self._elements.get(value)
        if found is None:
            found = self._elements[value] = math.prod(self._graph.values[value].aval.shape)
        return found

    def _nbytes(self, value: int) -> int:
        return self._count(value) * self._graph.values[value].aval.dtype.itemsize

    def _own(self) -> set[int]:
        made = {
            root
            for call, roots in zip(self._calls, self._touched, strict=True)
            if not isinstance(call, HostStep)
            for root, output in roots
            if output
        }
        wanted = {self._views.of(o).root for o in self._graph.outputs}
        for call in self._calls:
            if isinstance(call, HostStep):
                args = self._graph.nodes[call.position].args
                wanted.update(self._views.of(a).root for a in args)
        return made & wanted


def touched(
    graph: Graph, views: Views, call: Call | WholeCall | HostStep
) -> list[tuple[int, bool]]:
    """The roots that a call reads or writes, and whether it writes them."""
    if isinstance(call, HostStep):
        node = graph.nodes[call.position]
        reads = [(views.of(a).root, False) for a in node.args]
        return reads + [(r, True) for r in node.results]
    return [(a.root, a.output) for a in arguments_of(call)]


def arguments_of(call: Call | WholeCall) -> Sequence[Argument]:
    """The operands of a kernel, in the order in which it takes them."""
    if isinstance(call, ContractionCall):
        return call.a, call.b, *call.operands
    return call.arguments


@overload
def of_values(
    call: Call, arguments: Sequence[Argument], scalars: tuple[int, ...], nodes: tuple[int, ...]
) -> Call: ...
@overload
def of_values(
    call: WholeCall, arguments: Sequence[Argument], scalars: tuple[int, ...], nodes: tuple[int, ...]
) -> WholeCall: ...
def of_values(
    call: Call | WholeCall, arguments: Sequence[Argument], scalars: tuple[int, ...],
    nodes: tuple[int, ...],
) -> Call | WholeCall:  # fmt: skip
    """The call of a kernel on other operands, in the order of `arguments_of`."""
    if isinstance(call, ContractionCall):
        a, b, *operands = arguments
        return call._replace(a=a, b=b, operands=tuple(operands), scalars=scalars, nodes=nodes)
    return call._replace(arguments=tuple(arguments), scalars=scalars, nodes=nodes)


def whole(view: View, shape: tuple[int, ...]) -> bool:
    """Whether a view is its root, of that shape: every element at its place."""
    return view.shape == shape and view.contiguous and view.offset == 0
