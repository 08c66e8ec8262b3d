"""A graph without a plan: one operation after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Any

from ingle.tensor.blocks import call_holding
from ingle.tensor.contract import Backend, Handle, Scalar, capability
from ingle.tensor.device import call_staged, staged_on
from ingle.tensor.interruptions import is_from_outside
from ingle.tensor.operation import Op

from ..ir.graph import Graph, LogEntry, Node, read_log
from ..record.cut_log import live_nodes
from .custom_kernels import registrations
from .pending_checks import call_at
from .ready_calls import ASKED, Call

in_single_steps: ContextVar[bool] = ContextVar("ingle_single_steps", default=False)
"""Whether the operation at hand is of many parts that run one by one, like those around it."""


class Replay:
    """Runs a graph by `execute` of a backend, one operation after the other.

    So do the parts of an operation that stands for many. A plan for these alone would
    keep everybody waiting, and serve this run only: where the whole comes again, they are a part of
    its plan.

    While that is made, the same graph runs again and again. From the second run on each operation
    is asked for the call that a backend with the capability `ready` has for it, and has that from
    then on: its operands are of the same shapes in all runs.
    """

    def __init__(self, backend: Backend, graph: Graph) -> None:
        self._backend: Any = backend
        self._graph = graph
        live = live_nodes(graph)
        self._nodes = [node for node, lives in zip(graph.nodes, live, strict=True) if lives]
        # What is no result stays: it is given, or part of the graph.
        given = [n for n, value in enumerate(graph.values) if value.kind != "result"]
        uses = [(*node.args, *node.results) for node in self._nodes]
        self._last = _last_uses(uses, (*graph.outputs, *given))
        self._has_ready = capability(backend, "ready")
        self._calls: dict[int, Call] = {}
        self._version: Any = None
        self._runs = 0

    def __call__(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Any]:
        graph = self._graph
        known: dict[int, Any] = dict(zip(graph.inputs, given, strict=True))
        for number, value in enumerate(graph.values):
            if value.kind == "constant":
                known[number] = Scalar(value.data, value.aval.dtype)
        for number, x in zip(graph.scalars, numbers, strict=True):
            known[number] = Scalar(x, graph.values[number].aval.dtype)
        # What a composite's body creates belongs below, too.
        calls, asks = self._begun()
        with staged_on(self._backend):
            for place, (node, dying) in enumerate(zip(self._nodes, self._last, strict=True)):
                args = [known[a] for a in node.args]
                call = calls.get(place)
                results = None if call is None else self._called(call, node, args)
                if results is None:
                    results = self._execute(node, args)
                    if asks:
                        self._ask(place, node, args)
                known.update(zip(node.results, results, strict=True))
                for number in dying:
                    del known[number]
        return [self._ensured(known[o]) for o in graph.outputs]

    def _begun(self) -> tuple[dict[int, Call], bool]:
        """The calls that are known when a run begins, and whether it asks for others."""
        if self._version != registrations():
            self._version, self._calls, self._runs = registrations(), {}, 0
        self._runs += 1
        return self._calls, self._has_ready and 1 < self._runs <= ASKED

    def _called(self, call: Call, node: Node, args: Sequence[Any]) -> Sequence[Any] | None:
        """What a call gives; None where it does not take these operands, or fails: then who runs
        the operation says what is wrong with it."""
        try:
            return call(node.op, args)
        except Exception as error:
            if is_from_outside(error):
                raise
            return None

    def _ask(self, place: int, node: Node, args: Sequence[Any]) -> None:
        call = None if node.op.operation.traits.inlined else self._backend.ready(node.op, args)
        if call is None:
            self._calls.pop(place, None)
        else:
            self._calls[place] = call

    def _ensured(self, output: Any) -> Any:
        """An output that is there: cells take it without asking again."""
        if isinstance(output, Handle):
            output.ensure()
        return output

    def _execute(self, node: Node, args: Sequence[Any]) -> Sequence[Any]:
        execute, inlined = self._backend.execute, node.op.operation.traits.inlined
        if inlined == in_single_steps.get():
            results: Sequence[Any] = execute(node.op, args)
            return results
        return call_holding(in_single_steps, inlined, execute, node.op, args)


class Attempt(Replay):
    """A replay that goes on: where an operation raises, what depends on it is that error, which
    names the operation's line if the graph knows it."""

    def __init__(self, backend: Backend, graph: Graph) -> None:
        super().__init__(backend, graph)
        self._has_ready = False
        lines = zip(graph.nodes, graph.lines, strict=False)
        self._lines = {node.results: line for node, line in lines}

    def _execute(self, node: Node, args: Sequence[Any]) -> Sequence[Any]:
        failed = next((a for a in args if isinstance(a, BaseException)), None)
        if failed is None:
            try:
                line = self._lines.get(node.results)
                return call_at(line, self._backend, super()._execute, node, args)
            except Exception as error:
                if is_from_outside(error):  # of the program, not of this operation
                    raise
                failed = error
        return [failed] * len(node.results)

    def _ensured(self, output: Any) -> Any:
        return ensured(output)


def ensured(value: Any) -> Any:
    """A value that is there, or the error that was found when it was waited for."""
    if isinstance(value, Handle):
        try:
            value.ensure()
        except Exception as error:
            if is_from_outside(error):
                raise
            return error
    return value


def _last_uses(uses: Sequence[Sequence[int]], kept: Iterable[int]) -> list[list[int]]:
    """For each step, given by the values that it uses, those that none uses after it."""
    seen = set(kept)
    dying: list[list[int]] = []
    for used in reversed(uses):
        mine = [n for n in dict.fromkeys(used) if n not in seen]
        seen.update(mine)
        dying.append(mine)
    return dying[::-1]


def one_by_one(
    backend: Backend,
    log: Sequence[LogEntry],
    outputs: Sequence[int],
    given: Sequence[Handle],
    numbers: Sequence[Any],
) -> list[Any]:
    """The values of a short log."""
    tensors, rest = iter(given), iter(numbers)
    values: list[Any] = []
    if len(log) - len(given) - len(numbers) > len(outputs) and not _all_used(log, outputs):
        return Replay(backend, read_log(log, outputs))(given, numbers)
    for entry in log:
        op = entry[0]
        if type(op) is Op:
            operands = [values[n] for n in entry[1:]]
            if op.operation.body is None:
                values += backend.execute(op, operands)
            else:
                # What the body creates belongs below, too.
                values += call_staged(backend, backend.execute, op, operands)
        elif op == "input":
            values.append(next(tensors))
        else:
            values.append(Scalar(next(rest), entry[1]))
    return [values[n] for n in outputs]


def _all_used(log: Sequence[LogEntry], outputs: Sequence[int]) -> bool:
    """Whether each operation of a log is wanted, or is used by a later one, and has one result."""
    used = set(outputs)
    for entry in log:
        if type(entry[0]) is Op:
            used.update(entry[1:])
    return all(
        number in used
        and len(entry[0].operation.outputs) == 1
        and not entry[0].operation.many_outputs
        for number, entry in enumerate(log)
        if type(entry[0]) is Op
    )
