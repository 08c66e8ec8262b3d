"""Passes over a few of many equal layers: what they make of one is written again for the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ingle.tensor.operation import typed_key

from ..ir.graph import Graph
from ..ir.layers import Layers, layers_of
from ..ir.short_graph import ShortGraph, UnlikeError
from ..ir.written_again import Source, written_again
from .decompose import Decomposed, decompose
from .regions_opened import Opened, with_regions_opened

if TYPE_CHECKING:
    from ..fusion import Fusion
    from ..grouping.legality import Legality

KEPT, STEADY = 6, 2
"""Layers that passes see, and the one of these that is written again. Those at the ends become
other things, and what takes a value of a layer in the middle is in a layer itself."""
FEWEST_RECORDED = 256
"""Graphs of fewer operations are decomposed in less time."""
FEWEST_LEFT_OUT = 4
"""As many as there have to be for finding them and writing them again to take less time."""

_GIVEN = re.compile(r"\bx([0-9]+)\b")

Pass = Callable[[Graph], Graph]


def decomposed_by_layers(
    graph: Graph, examples: Sequence[Any], fusion: Fusion, legality: Legality, last: Pass
) -> tuple[Decomposed, Layers | None]:
    """A graph with the bodies of composites in their place, and its layers if it has many.

    Args:
        graph, examples, fusion, legality: as `decompose` takes them.
        last: a pass that follows.
    """
    if type(graph) is Graph and not graph.places and len(graph.nodes) >= FEWEST_RECORDED:
        opened = with_regions_opened(graph, legality)
        short = _short(opened.graph, layers_of(opened.graph))
        if short is not None:
            found = decompose(short.graph, examples, fusion, legality)
            try:
                return _whole(short, found._replace(graph=last(found.graph)), opened)
            except UnlikeError:
                pass
    found = decompose(graph, examples, fusion, legality)
    return found._replace(graph=last(found.graph)), None


def by_layers(graph: Graph, layers: Layers | None, passes: Pass) -> tuple[Graph, Layers | None]:
    """What passes make of a graph, and its layers if they are known.

    Args:
        graph: with composites expanded.
        layers: its layers, if they are known.
        passes: keep inputs, scalars and outputs.
    """
    short = _short(graph, layers)
    if short is not None:
        try:
            found = written_again(short, passes(short.graph))
            return found.graph, found.layers
        except UnlikeError:
            pass
    return passes(graph), None


def _short(graph: Graph, layers: Layers | None) -> ShortGraph | None:
    if layers is None or layers.last - layers.first + 1 < KEPT + FEWEST_LEFT_OUT:
        return None
    return ShortGraph.of(graph, layers, KEPT, STEADY)


def _whole(short: ShortGraph, found: Decomposed, opened: Opened) -> tuple[Decomposed, Layers]:
    """What comes of the whole graph, by what came of the short one.

    Raises:
        UnlikeError: something of a layer is no part of a graph: what is computed of its numbers,
            or a flag.
    """
    layers, scalars = short.layers, found.scalars
    moving = {
        short.whole.values[value].data
        for value in layers.value_spots
        if short.whole.values[value].kind == "scalar"
    }
    if any(int(n) in moving for line in scalars.lines for n in _GIVEN.findall(line)):
        raise UnlikeError
    checks = []
    for check in found.checks:
        position = short.nodes[check.node]
        spot = layers.node_spots.get(position)
        if spot is not None and layers.holds(spot[1]):
            raise UnlikeError
        checks.append(check._replace(node=opened.origins[position]))
    sources = [_source(result) for result in scalars.results]
    results = dict(zip(sources, scalars.results, strict=True))
    again = written_again(short, found.graph, sources)
    every = [results.get(s, f"x{s}") for s in again.scalars]
    now = scalars._replace(results=tuple(every))
    return Decomposed(again.graph, found.constants, checks, now), again.layers


def _source(result: str | tuple[Any]) -> Source:
    """What a number of the kernels is: a given one, a computed one, or a number."""
    if isinstance(result, str):
        return int(result[1:]) if result[0] == "x" else ("computed", result)
    return ("number", typed_key(result[0]))
