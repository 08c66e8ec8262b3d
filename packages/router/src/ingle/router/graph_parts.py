"""A graph for several devices as parts of one device each, planned by that device's own backend.

Nodes are gone through in an order in which each part grows as long as something of its device can
run, so there are few parts: a step of training with a model split in two has three or four.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ingle.fusion.grouped import Executable, Graph, Node, PlannedPart
from ingle.tensor.contract import Handle

from .composition import Asked, any_number

if TYPE_CHECKING:
    from .member import Member


def is_for_one(member: Member, graph: Graph) -> bool:
    """Whether a member runs all of a graph itself."""
    return all(member.runner(_asked(graph, node)) is member for node in graph.nodes)


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive work of one device.

    Attributes:
        member: whose.
        inputs: the values that it takes, as the whole graph counts them.
        scalars: positions of the numbers that it takes.
        results: the values that somebody behind it needs.
        graph: of the part.
        executable: runs it.
        dying: values that nobody needs any more behind it, with the member that has them.
    """

    member: Member
    inputs: tuple[int, ...]
    scalars: tuple[int, ...]
    results: tuple[int, ...]
    graph: Graph
    executable: Executable
    dying: tuple[tuple[Member, int], ...]


class PartedGraph:
    """Runs the parts in order and moves what lies between them.

    Parts make new memory for all that they return: one that wrote over its inputs could not be
    taken back when a later part fails. So the state of a step is committed whole or not at all.

    Args:
        home: where values are that the graph names no place of.
        graph: what was recorded.
    """

    def __init__(self, home: Member, graph: Graph) -> None:
        router = home.router
        self._router = router
        self._inputs = tuple(graph.inputs)
        self._outputs = graph.outputs
        self._place: dict[int, Member] = {}
        self._alias: dict[int, int] = {}
        for number in range(len(graph.values)):
            hardware = graph.places.get(number)
            self._place[number] = home if hardware is None else router.member_of(hardware)
        work: list[tuple[Node, Member]] = []
        self._elsewhere: list[tuple[Member, Asked, Member]] = []
        self._runs_at: dict[int, Member] = {}
        for node in graph.nodes:
            here = self._place[node.results[0]]
            if self._only_moves(graph, node, here):
                self._alias[node.results[0]] = self.root(node.args[0])
                continue
            asked = _asked(graph, node)
            runner = here.runner(asked)
            if runner is not here:
                self._elsewhere.append((here, asked, runner))
            work.append((node, runner))
            for result in node.results:
                self._runs_at[result] = runner
        self.parts = self._planned(graph, _runs(graph, work, self.root))

    def _only_moves(self, graph: Graph, node: Node, here: Member) -> bool:
        if len(node.args) != 1 or graph.values[node.args[0]].kind not in ("input", "result"):
            return False
        return self._place[node.args[0]] is not here

    def root(self, value: int, /) -> int:
        """The value that one of the graph stands for: itself, unless it is only moved."""
        return self._alias.get(value, value)

    def _source(self, number: int) -> Member:
        """Which member has a value first."""
        return self._runs_at.get(number, self._place[number])

    def _planned(self, graph: Graph, runs: Sequence[tuple[Member, list[Node]]]) -> list[Part]:
        needed = {self.root(o) for o in self._outputs}
        asked = zip(graph.nodes, graph.lines, strict=False)
        lines = {node.results: line for node, line in asked}
        made: list[tuple[Member, Graph, list[int], list[int], list[int]]] = []
        for member, nodes in reversed(runs):
            part, place = Graph(), dict[int, int]()
            inputs: list[int] = []
            scalars: list[int] = []
            for node in nodes:
                args = []
                for arg in map(self.root, node.args):
                    if arg not in place:
                        value = graph.values[arg]
                        if value.kind == "constant":
                            place[arg] = part.constant(value.data, value.aval.dtype)
                        elif value.kind == "scalar":
                            place[arg] = part.scalar(value.aval.dtype)
                            scalars.append(value.data)
                        else:
                            place[arg] = part.input(value.aval)
                            inputs.append(arg)
                    args.append(place[arg])
                avals = [graph.values[r].aval for r in node.results]
                made_here = part.append(node.op, args, avals)
                place.update(zip(node.results, made_here, strict=True))
            results = [r for node in nodes for r in node.results if r in needed]
            if not results:  # nobody needs any of it
                continue
            part.outputs = tuple([place[r] for r in results])
            part.lines = [lines[node.results] for node in nodes] if lines else ()
            needed.update(inputs)
            made.append((member, part, inputs, scalars, results))
        made.reverse()
        last: dict[int, int] = {}
        for index, (_, _, taken, _, given) in enumerate(made):
            last.update(dict.fromkeys((*taken, *given), index))
        for output in self._outputs:
            last.pop(self.root(output), None)
        dying: list[list[int]] = [[] for _ in made]
        for number, index in last.items():
            dying[index].append(number)
        return [
            Part(
                member, tuple(inputs), tuple(scalars), tuple(results), part, member.prepare(part),
                tuple([(m, n) for n in dying[i] for m in self._router.members]),
            )
            for i, (member, part, inputs, scalars, results) in enumerate(made)
        ]  # fmt: skip

    def __call__(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle]:
        """Runs them, and waits for what their devices check as they go, such as indices."""
        found = [getattr(m.hardware, "checks", None) for m in self._router.members]
        lines = [checks for checks in found if checks is not None]
        failures = [line.failures for line in lines]
        outputs = self.begin(given, numbers)
        for line, count in zip(lines, failures, strict=True):
            line.settle(count)
        return outputs

    def begin(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle]:
        """Runs them where nothing is written that a failed run must not have changed."""
        for here, asked, runner in self._elsewhere:
            here.announce(asked, runner)
        known = self._received(given)
        for part in self.parts:
            self._run(part, known, numbers)
        return [self._at(self._place[o], self.root(o), known) for o in self._outputs]

    def explained(
        self, given: Sequence[Handle], numbers: Sequence[Any], runs: bool, /
    ) -> Iterator[PlannedPart]:
        """The parts, with what each runs on if they run one after the other."""
        known = self._received(given) if runs else {}
        for part in self.parts:
            inputs = [self._at(part.member, n, known) for n in part.inputs] if runs else []
            yield PlannedPart(
                str(part.member.device), part.member.hardware, part.graph, part.executable,
                part.inputs, part.results, inputs, [numbers[i] for i in part.scalars],
            )  # fmt: skip
            if runs:
                self._run(part, known, numbers)

    def _received(self, given: Sequence[Handle]) -> dict[tuple[Member, int], Handle]:
        """The inputs, wherever they are needed. A copy to another device waits for all that its own
        was asked for before."""
        known: dict[tuple[Member, int], Handle] = {}
        for number, handle in zip(self._inputs, given, strict=True):
            known[self._place[number], number] = handle
        for part in self.parts:
            for number in part.inputs:
                if (self._source(number), number) in known:
                    self._at(part.member, number, known)
        return known

    def _run(
        self, part: Part, known: dict[tuple[Member, int], Handle], numbers: Sequence[Any]
    ) -> None:
        """Runs one, and forgets what nobody behind it needs."""
        inputs = [self._at(part.member, n, known) for n in part.inputs]
        taken = [numbers[i] for i in part.scalars]
        begin = getattr(part.executable, "begin", part.executable)
        with part.member.answering("a part of a plan"):
            results = begin(inputs, taken)
        for number, handle in zip(part.results, results, strict=True):
            known[part.member, number] = handle
        for key in part.dying:
            known.pop(key, None)

    def _at(self, member: Member, number: int, known: dict[tuple[Member, int], Handle]) -> Handle:
        """A value at a member, moved there if it is not yet."""
        found = known.get((member, number))
        if found is None:
            handle = known[self._source(number), number]
            found = known[member, number] = self._router.carry(handle, member.hardware)
        return found


def _asked(graph: Graph, node: Node) -> Asked:
    operands = [
        any_number(value.aval.dtype) if value.kind in ("constant", "scalar") else value.aval
        for value in map(graph.values.__getitem__, node.args)
    ]
    return Asked(node.op, tuple(operands))


def _runs(
    graph: Graph, work: Iterable[tuple[Node, Member]], root: Any
) -> list[tuple[Member, list[Node]]]:
    """The nodes in runs of one member each, in an order in which each follows what it needs."""
    left = list(work)
    ready = {n for n, v in enumerate(graph.values) if v.kind != "result"}
    runs: list[tuple[Member, list[Node]]] = []
    while left:
        member = next(m for node, m in left if ready.issuperset(map(root, node.args)))
        run: list[Node] = []
        rest: list[tuple[Node, Member]] = []
        for node, where in left:  # in recorded order, so one pass finds all that can run
            if where is member and ready.issuperset(map(root, node.args)):
                run.append(node)
                ready.update(node.results)
            else:
                rest.append((node, where))
        runs.append((member, run))
        left = rest
    return runs
