"""Graphs of many layers, decomposed and passed over by layers and as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.grouping.legality import Legality
from ingle.fusion.ir.graph import Graph, Node
from ingle.fusion.ir.layers import Layers
from ingle.fusion.ir.short_graph import UnlikeError
from ingle.fusion.passes.by_layers import by_layers, decomposed_by_layers, recorded_layers
from ingle.fusion.passes.concat_of_pads import with_concat_of_pads
from ingle.fusion.passes.decompose import decompose
from ingle.fusion.passes.simplify import simplify
from ingle.fusion.passes.split_leading_axes import with_split_rows
from ingle.fusion.runtime import graph_plans, planning_work
from ingle.fusion.runtime.input_layouts import read_by_products
from ingle.tensor.operation import typed_key


class RecordedError(BaseException):
    """The graph is known: nothing has to run."""


def recorded(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """What the plan of a function is made from, if it has a hundred operations."""
    found: list[tuple[Any, ...]] = []
    own = planning_work.compile_graph

    def noting(device: Any, fusion: Any, graph: Graph, *given: Any) -> Any:
        if len(graph.nodes) < 100:  # of what is made before
            return own(device, fusion, graph, *given)
        found.append((device, fusion, graph, *given))
        raise RecordedError

    with pytest.MonkeyPatch.context() as patch, it.device("cpu"):
        patch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
        patch.setenv("INGLE_PLAN_SLICES", "0")
        patch.setattr(planning_work, "compile_graph", noting)
        with pytest.raises(RecordedError):
            compile(function)(*args)
    return found[0]


def passes(graph: Graph) -> Graph:
    return with_split_rows(with_concat_of_pads(simplify(graph)))


def same(graph: Graph) -> Graph:
    return graph


def compact(graph: Graph) -> Graph:
    """The graph without the values that nobody makes any more."""
    made = {result for node in graph.nodes for result in node.results}
    kept = [n for n, v in enumerate(graph.values) if v.kind != "result" or n in made]
    place = {number: new for new, number in enumerate(kept)}

    def placed(numbers: Any) -> tuple[int, ...]:
        return tuple([place[number] for number in numbers])

    nodes = [Node(node.op, placed(node.args), placed(node.results)) for node in graph.nodes]
    inputs, scalars = [*placed(graph.inputs)], [*placed(graph.scalars)]
    values = [graph.values[number] for number in kept]
    return Graph(values, nodes, inputs, scalars, placed(graph.outputs))


def described(graph: Graph, numbers: Sequence[Any]) -> Any:
    """What a graph does, whatever the order in which it has its scalars and constants.

    Args:
        graph: which it is.
        numbers: what its scalars are.
    """
    known: dict[int, Any] = {n: ("scalar", numbers[k]) for k, n in enumerate(graph.scalars)}
    for number, (kind, aval, data) in enumerate(graph.values):
        if kind in ("input", "constant"):
            known[number] = (kind, aval, typed_key(data))
    nodes = []
    for node in graph.nodes:
        nodes.append((node.op, [known[a] for a in node.args]))
        known.update({r: ("result", len(nodes), n) for n, r in enumerate(node.results)})
    return nodes, [known[o] for o in graph.outputs]


def alike(layers: Layers | None, graph: Graph, other: Graph) -> bool:
    """Whether two graphs are the same, number by number; but for where pieces begin, which are
    numbers of their own where layers were written again."""
    if layers is None or not layers.steps:
        return compact(graph) == compact(other)
    numbers = range(len(graph.scalars))
    return bool(described(graph, numbers) == described(other, numbers))


def checked(device: Any, fusion: Any, graph: Graph, examples: Any, *_: Any) -> tuple[bool, bool]:
    """Whether the graph was decomposed by layers, and other passes went over a few of these. Both
    give what they give for the whole graph."""
    legality = Legality(device)
    known = recorded_layers(graph, legality)
    found, layers = decomposed_by_layers(graph, known, examples, fusion, legality, same)
    whole = decompose(graph, examples, fusion, legality)
    assert alike(layers, found.graph, whole.graph)
    assert (found.scalars, found.checks) == (whole.scalars, whole.checks)
    assert [x.shape for x in found.constants] == [x.shape for x in whole.constants]
    now, others = by_layers(found.graph, layers, passes)
    assert alike(layers, now, passes(whole.graph))
    if known is not None:
        few = known.decomposed(examples, fusion, legality)
        assert known.inputs(read_by_products(few.graph)) == read_by_products(whole.graph)
        with suppress(UnlikeError):
            once, _ = known.whole(few._replace(graph=passes(few.graph)))
            last = described(passes(whole.graph), whole.scalars.results)
            assert described(once.graph, once.scalars.results) == last
            assert [c.shape for c in once.constants] == [c.shape for c in whole.constants]
            assert once.checks == whole.checks
    for has, of in ((layers, found.graph), (others, now)):
        if has is not None:
            for (place, layer), position in has.nodes.items():
                assert has.node_spots[position] == (place, layer)
                if has.first < layer <= has.last:
                    before = of.nodes[has.nodes[place, layer - 1]]
                    assert of.nodes[position].op is before.op
    return layers is not None, others is not None
