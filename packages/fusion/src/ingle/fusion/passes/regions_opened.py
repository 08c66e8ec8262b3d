"""Regions that stand for their operations are written out: what repeats in them is seen then.

The update of all parameters is recorded as one region, which belongs to no layer, and has a part
in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.operation import Op
from ingle.tensor.programs import Program

from ..ir.graph import Graph

if TYPE_CHECKING:
    from ..grouping.legality import Legality


class Opened(NamedTuple):
    """A graph without regions.

    Attributes:
        graph: with the steps of regions in their place.
        origins: for each node which one it comes from.
    """

    graph: Graph
    origins: list[int]


def with_regions_opened(graph: Graph, legality: Legality) -> Opened:
    """The graph with regions written out; itself if it has none."""
    if not any(node.op.operation.traits.inlined for node in graph.nodes):
        return Opened(graph, list(range(len(graph.nodes))))
    new, place = graph.emptied()
    origins: list[int] = []

    def write(op: Op, args: list[int], avals: Sequence[Aval]) -> Sequence[int]:
        body = _region(new, op, args, legality)
        if body is None:
            return new.append(op, args, avals)
        known = list(args)
        for step in body.steps:
            taken = [
                new.constant(x.value, x.dtype) if isinstance(x, Scalar) else known[x]
                for x in step.inputs
            ]
            known += write(step.op, taken, body.avals[len(known) : len(known) + step.results])
        return [known[number] for number in body.outputs]

    for position, node in enumerate(graph.nodes):
        avals = [graph.values[r].aval for r in node.results]
        results = write(node.op, [place[a] for a in node.args], avals)
        place.update(zip(node.results, results, strict=True))
        origins += [position] * (len(new.nodes) - len(origins))
    new.outputs = tuple([place[o] for o in graph.outputs])
    new.donors = graph.donors
    return Opened(new, origins)


def _region(graph: Graph, op: Op, args: list[int], legality: Legality) -> Program | None:
    """What an operation stands for, if it is written out as that wherever it comes."""
    if not op.operation.traits.inlined:
        return None
    body = op.attributes.get("body")
    if not isinstance(body, Program):
        return None
    avals = [graph.values[a].aval for a in args]
    if list(body.inputs) != avals or legality.answer(op, avals)[0] in ("custom", "whole"):
        return None
    return body
