"""A run of operations in relative form: values are known by their order, not by their makers.

A `Log` is how a run is recorded: one short tuple for each thing that happens, cheap to append
and to hash. Two runs that do the same write equal logs, whatever tensors they ran on, so that a log
is the key of what was planned for it. A `Graph` is the same, spelled out for passes to work on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from ingle.tensor.contract import Aval, Backend
from ingle.tensor.dtypes import DType
from ingle.tensor.operation import Op, infer, typed_key

from ..kernel.code import HALVES
from ..support.source_location import Line

Donors: TypeAlias = "tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]"
"""Positions of inputs, and those of outputs: each output may lie in the memory of any of these."""
Kind = Literal["input", "scalar", "constant", "result"]
LogEntry: TypeAlias = "tuple[Any, ...]"
"""`("input", shape, dtype)`, `("scalar", dtype)` or `("constant", dtype, key, number)`, each of
which is a value; or `(op, *numbers of values)`, which makes as many values as it has outputs."""


class Value(NamedTuple):
    """What a graph knows of one value before it runs.

    Attributes:
        kind: `"input"`: a tensor that is given; `"scalar"`: a number that is given; `"constant"`:
            a number that is part of the graph; `"result"`: what a node computes.
        aval: shape and dtype.
        data: the position among the inputs or the scalars; the number of a constant.
    """

    kind: Kind
    aval: Aval
    data: Any = None

    @property
    def is_half(self) -> bool:
        """Whether kernels compute with it in float32, and round what memory holds of it."""
        return self.aval.dtype.name in HALVES


class Node(NamedTuple):
    """One operation, the values that it takes and those that it makes."""

    op: Op
    args: tuple[int, ...]
    results: tuple[int, ...]


_new: Any = tuple.__new__
"""Makes named tuples in half the time; planning makes them by the ten thousand."""


@dataclass(slots=True)
class Graph:
    """Operations in an order in which each follows what it needs.

    Attributes:
        values: everything that occurs, by number.
        nodes: the operations.
        inputs, scalars: the numbers of the values that are given to each run.
        outputs: the numbers of the values that a run returns.
        donors: inputs, and outputs of the same shape and dtype; a run of the graph may give an
            input's memory to an output. See `DonationState`.
        places: of a graph for several devices: the hardware backends of those values that are not
            on the first one. A node runs where its results are.
        lines: for each node the line of the user's code that asked for it; empty if none is known.
    """

    values: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    scalars: list[int] = field(default_factory=list)
    outputs: tuple[int, ...] = ()
    donors: Donors = field(default=(), compare=False)
    places: dict[int, Backend] = field(default_factory=dict, compare=False)
    lines: Sequence[Line] = field(default=(), compare=False)

    def input(self, aval: Aval) -> int:
        """A new tensor input."""
        self.inputs.append(len(self.values))
        return self._add(Value("input", aval, len(self.inputs) - 1))

    def scalar(self, dtype: DType) -> int:
        """A new number that each run is given."""
        self.scalars.append(len(self.values))
        return self._add(Value("scalar", Aval((), dtype), len(self.scalars) - 1))

    def constant(self, number: Any, dtype: DType) -> int:
        """A number that is part of the graph."""
        return self._add(Value("constant", Aval((), dtype), number))

    def node(self, op: Op, args: Sequence[int]) -> tuple[int, ...]:
        """Appends an operation and returns its results."""
        return self.append(op, args, self.infer(op, [self.values[a].aval for a in args]))

    def append(self, op: Op, args: Sequence[int], avals: Sequence[Aval]) -> tuple[int, ...]:
        """Appends an operation whose results are known to be like these."""
        values = self.values
        results: tuple[int, ...] = (len(values),)
        if len(avals) == 1:
            values.append(_new(Value, ("result", avals[0], None)))
        else:
            values += [_new(Value, ("result", a, None)) for a in avals]
            results = tuple(range(results[0], len(values)))
        self.nodes.append(_new(Node, (op, tuple(args), results)))
        return results

    def infer(self, op: Op, avals: Sequence[Aval]) -> tuple[Aval, ...]:
        """What an operation's results are like."""
        return infer(op, avals)

    def avals_of(self, nodes: Iterable[Node]) -> list[tuple[Aval, ...]]:
        """What the results of some nodes are like, for `read_log` of a part."""
        values = self.values
        return [
            (values[r[0]][1],) if len(r) == 1 else tuple([values[n][1] for n in r])
            for _, _, r in nodes
        ]

    def emptied(self) -> tuple[Graph, dict[int, int]]:
        """A graph of the same inputs, scalars and constants without nodes, and where each is.

        Equal constants are one there.
        """
        new, place = type(self)(), dict[int, int]()
        known: dict[Any, int] = {}
        for number, value in enumerate(self.values):
            if value.kind == "input":
                place[number] = new.input(value.aval)
            elif value.kind == "scalar":
                place[number] = new.scalar(value.aval.dtype)
            elif value.kind == "constant":
                key = (value.aval.dtype, typed_key(value.data))
                if key not in known:
                    known[key] = new.constant(value.data, value.aval.dtype)
                place[number] = known[key]
        return new, place

    def _add(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def users(self) -> dict[int, list[int]]:
        """For each value the positions of the nodes that take it."""
        found: dict[int, list[int]] = {}
        for position, node in enumerate(self.nodes):
            for value in dict.fromkeys(node.args):
                found.setdefault(value, []).append(position)
        return found

    def __str__(self) -> str:
        lines = []
        for number, value in enumerate(self.values):
            if value.kind in ("input", "scalar"):
                lines.append(f"%{number}: {value.kind} {value.aval}")
            elif value.kind == "constant":
                lines.append(f"%{number} = {value.data!r}: {value.aval.dtype}")
        for node in self.nodes:
            left = ", ".join(f"%{r}: {self.values[r].aval}" for r in node.results)
            right = ", ".join(f"%{a}" for a in node.args)
            lines.append(f"{left} = {node.op!r} on {right}")
        lines.append("return " + ", ".join(f"%{o}" for o in self.outputs))
        return "\n".join(lines)


def constant_entry(number: Any, dtype: DType) -> LogEntry:
    """How a log records a number that is part of it."""
    return ("constant", dtype, typed_key(number), number)


def has_halves(log: Sequence[LogEntry]) -> bool:
    """Whether a log computes with half types, which have other bits in a plan than one by one."""
    for entry in log:
        head = entry[0]
        if type(head) is Op:
            dtypes = [x for x in head.attributes.values() if type(x) is DType]
        else:
            dtypes = [entry[2 if head == "input" else 1]]
        if any(dtype.name in HALVES for dtype in dtypes):
            return True
    return False


_numbers: dict[DType, Aval] = {}
"""What is known of a number of each dtype."""


def read_log(
    log: Sequence[LogEntry], outputs: Sequence[int], known: Iterable[Sequence[Aval]] = ()
) -> Graph:
    """The graph of a log, with the numbers of values as the log counts them.

    What results are like is asked of `infer` again, which knows it: a log that carried it along
    would take longer to grow, in each call, than this takes in the first two.

    Args:
        log, outputs: what is read.
        known: what the results of the first operations are like, where somebody knows it.
    """
    graph = Graph(outputs=tuple(outputs))
    values, nodes, scalars = graph.values, graph.nodes, graph.scalars
    told = iter(known)
    for entry in log:
        head = entry[0]
        if type(head) is Op:
            args = entry[1:]
            avals = next(told, None)
            if avals is None:
                avals = infer(head, [values[a][1] for a in args])
            if len(avals) == 1:
                nodes.append(_new(Node, (head, args, (len(values),))))
                values.append(_new(Value, ("result", avals[0], None)))
            else:
                graph.append(head, args, avals)
        elif head == "scalar":  # most logs have as many as operations
            dtype = entry[1]
            aval = _numbers.get(dtype) or _numbers.setdefault(dtype, Aval((), dtype))
            values.append(_new(Value, ("scalar", aval, len(scalars))))
            scalars.append(len(values) - 1)
        elif head == "input":
            graph.input(Aval(entry[1], entry[2]))
        else:
            graph.constant(entry[3], entry[1])
    return graph
