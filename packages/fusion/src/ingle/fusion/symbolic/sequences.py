"""Kernel sequences in which sizes are symbols: made once, and written out for each size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ingle.tensor.contract import Aval
from ingle.tensor.locks import renewed

from ..ir.graph import Graph, Node, Value
from ..ir.views import View, Views
from ..lowering.contraction import ContractionCall
from ..lowering.nests import NestCall
from ..schedule.schedule import HostStep, KernelSequence
from ..schedule.whole_calls import WholeCall
from .answers import Answering
from .generalization import Generalization
from .inquiry import has_sizes, settled
from .sizes import Size


class FilledSequence(NamedTuple):
    """A kernel sequence of a graph.

    Attributes:
        sequence: it may have more scalars than the graph.
        sources: for each of its scalars the place of its value, first among the scalars of the
            graph, then among `constants`. None: they are the graph's.
        constants: the graph's.
    """

    sequence: KernelSequence
    sources: Sequence[int] | None = None
    constants: Sequence[Any] = ()


class _Places(NamedTuple):
    """Where in a kernel sequence symbols stand.

    Attributes:
        values, nodes: numbers of values and positions of nodes that depend on them.
        calls: each call, and what of it depends on them.
        views: of values that are another one's elements.
    """

    values: Sequence[int]
    nodes: Sequence[int]
    calls: Sequence[tuple[Any, tuple[Any, ...]]]
    views: dict[int, View]


def symbolic_sequence(general: Generalization, sequence: KernelSequence) -> SymbolicSequence:
    """The kernel sequence of all graphs of one form whose sizes answer alike.

    Args:
        general: the graph for all of them.
        sequence: of its graph.
    """
    graph, views, calls, inline = sequence
    places = _Places(
        [k for k, v in enumerate(graph.values) if has_sizes((v.aval.shape, v.data))],
        [k for k, node in enumerate(graph.nodes) if has_sizes(_statics(node))],
        [with_sizes(call) for call in calls],
        views.found(),
    )
    answers = general.answers(
        tuple([_sizes_of(graph.values[k]) for k in places.values]),
        tuple([_statics(graph.nodes[k]) for k in places.nodes]),
        tuple([part for _, part in places.calls if part]),
        tuple(places.views.values()),
    )
    settled = KernelSequence(graph, views, [call for call, _ in places.calls], inline)
    return SymbolicSequence(general.sources, settled, places, answers.function())


class SymbolicSequence:
    """A kernel sequence in which sizes are symbols; made by `symbolic_sequence`.

    Args:
        sources: for each of its scalars the place of its value; see `FilledSequence`.
        sequence: of the graph for all of its form.
        places: where symbols stand in it.
        answering: computes what stands there.
    """

    def __init__(
        self, sources: Sequence[int], sequence: KernelSequence, places: _Places,
        answering: Answering,
    ) -> None:  # fmt: skip
        self._sources = sources
        self._sequence = sequence
        self._places = places
        self._answering = answering

    def at(self, numbers: Sequence[Any], constants: Sequence[Any]) -> FilledSequence | None:
        """The kernel sequence of a graph of the form, if its numbers answer alike.

        Args:
            numbers: the graph's own.
            constants: those among them, as they are.
        """
        found = self._answering(numbers)
        if found is None:
            return None
        return FilledSequence(self._filled(*found), self._sources, constants)

    def _filled(
        self, values: Sequence[Any], nodes: Sequence[Any], calls: Sequence[Any],
        views: Sequence[Any],
    ) -> KernelSequence:  # fmt: skip
        graph, _, _, inline = self._sequence
        new = Graph(
            list(graph.values), list(graph.nodes), graph.inputs, graph.scalars, graph.outputs
        )
        for k, (shape, data) in zip(self._places.values, values, strict=True):
            kind, aval, other = graph.values[k]
            new.values[k] = Value(kind, Aval(shape, aval.dtype), other if data is None else data)
        for k, statics in zip(self._places.nodes, nodes, strict=True):
            op, args, results = graph.nodes[k]
            named = dict(zip(op.operation.statics, statics, strict=True))
            new.nodes[k] = Node(op.operation.op(**named), args, results)
        rest = iter(calls)
        made = [at_sizes(call, next(rest)) if part else call for call, part in self._places.calls]
        found = dict(zip(self._places.views, views, strict=True))
        return KernelSequence(new, Views(new, found), made, inline)


class LateSequence:
    """A symbolic sequence that is written when it first serves a graph, which may never be.

    Args:
        serves: says, by a graph's numbers, whether it does.
        make: writes it.
    """

    def __init__(
        self, serves: Callable[[Sequence[Any]], bool], make: Callable[[], SymbolicSequence]
    ) -> None:
        self._lock = renewed(self, "_lock")
        self._serves = serves
        self._make = make
        self._made: SymbolicSequence | None = None

    def at(self, numbers: Sequence[Any], constants: Sequence[Any]) -> FilledSequence | None:
        """As that of the sequence."""
        if self._made is None:
            if not self._serves(numbers):
                return None
            with self._lock:  # sizes that are asked note the answers
                self._made = self._made or self._make()
        return self._made.at(numbers, constants)


_FIELDS: dict[type, tuple[str, ...]] = {
    NestCall: ("arguments", "sizes", "strides", "fixed"),
    ContractionCall: ("batch", "sizes", "a", "b", "operands", "windows"),
    WholeCall: ("arguments", "avals", "results"),
}
"""What depends on sizes in a call; kernels do not."""


def with_sizes(call: Any) -> tuple[Any, tuple[Any, ...]]:
    """A call whose kernel is settled, and what of it sizes occur in; nothing if they do not."""
    if isinstance(call, HostStep):
        return call, ()
    names = _FIELDS[type(call)]
    part = tuple([getattr(call, name) for name in names])
    others = {n: settled(getattr(call, n)) for n in call._fields if n not in names}
    return call._replace(**others), part if has_sizes(part) else ()


def at_sizes(call: Any, part: tuple[Any, ...]) -> Any:
    """A call with what of it depends on sizes, which may be nothing; see `with_sizes`."""
    if not part:
        return call
    return call._replace(**dict(zip(_FIELDS[type(call)], part, strict=True)))


def _sizes_of(value: Value) -> tuple[Any, Any]:
    """A value's shape, and its number if that is a size."""
    return value.aval.shape, value.data if isinstance(value.data, Size) else None


def _statics(node: Node) -> tuple[Any, ...]:
    return tuple([node.op.attributes[name] for name in node.op.operation.statics])
