"""Passes over a few of many equal layers: what they make of one is written again for the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ingle.tensor.operation import typed_key

from ..ir.graph import Graph
from ..ir.layers import Layers, layers_of
from ..ir.repeated_runs import OF_LAYERS
from ..ir.short_graph import ShortGraph, UnlikeError
from ..ir.written_again import Source, written_again
from .decompose import Decomposed, decompose
from .regions_opened import Opened, with_regions_opened

if TYPE_CHECKING:
    from ..fusion import Fusion
    from ..grouping.legality import Legality

KEPT, TURNS = 5, 7
"""Layers that passes see at least, and turns of a loop; the one in the middle is written again.
Those at the ends become other things, and what takes a value of a layer in the middle is in a layer
itself. Where one loop takes what another one has made, ends reach further into both."""
FEWEST_RECORDED = 256
"""Graphs of fewer operations are decomposed in less time."""
FEWEST_LEFT_OUT = 4
"""As many as there have to be for finding them and writing them again to take less time."""

_GIVEN = re.compile(r"\bx([0-9]+)\b")

Pass = Callable[[Graph], Graph]


def recorded_layers(graph: Graph, legality: Legality) -> RecordedLayers | None:
    """A recorded graph as a few of its layers; None if it does not have many."""
    if type(graph) is not Graph or graph.places or len(graph.nodes) < FEWEST_RECORDED:
        return None
    opened = with_regions_opened(graph, legality)
    short = _short(opened.graph, layers_of(opened.graph))
    return None if short is None else RecordedLayers(opened, short)


class RecordedLayers:
    """A recorded graph as a few of its layers; made by `recorded_layers`.

    Args:
        opened: the graph without regions.
        short: the same with fewer layers.
    """

    def __init__(self, opened: Opened, short: ShortGraph) -> None:
        self._opened = opened
        self._short = short

    def decomposed(self, examples: Sequence[Any], fusion: Fusion, legality: Legality) -> Decomposed:
        """These layers with the bodies of composites in their place; arguments are those of
        `decompose`."""
        return decompose(self._short.graph, examples, fusion, legality)

    def whole(self, found: Decomposed) -> tuple[Decomposed, Layers]:
        """What comes of all layers, with these, by what came of a few.

        Raises:
            UnlikeError: layers in the middle have become different things, or something of a layer
                is no part of a graph: what is computed of its numbers, or a flag.
        """
        short, scalars = self._short, found.scalars
        layers = short.layers
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
            checks.append(check._replace(node=self._opened.origins[position]))
        sources = [_source(result) for result in scalars.results]
        results = dict(zip(sources, scalars.results, strict=True))
        again = written_again(short, found.graph, sources)
        every = [results.get(s, f"x{s}") for s in again.scalars]
        now = scalars._replace(results=tuple(every))
        return Decomposed(again.graph, found.constants, checks, now), again.layers

    def inputs(self, positions: Sequence[int]) -> tuple[int, ...]:
        """Inputs of all layers that are like some of these, by position."""
        short, chosen = self._short, set(positions)
        layers, inputs = short.layers, short.whole.inputs
        for at, value in enumerate(inputs):
            place, layer = layers.value_spots.get(value, (-1, -1))
            if short.is_gone(layer):
                like = short.whole.values[layers.values[place, short.steady]]
                if like.data in chosen:
                    chosen.add(at)
        return tuple(sorted(chosen))


def decomposed_by_layers(
    graph: Graph, recorded: RecordedLayers | None, examples: Sequence[Any], fusion: Fusion,
    legality: Legality, last: Pass,
) -> tuple[Decomposed, Layers | None]:  # fmt: skip
    """A graph with the bodies of composites in their place, and its layers if it has many.

    Args:
        graph, examples, fusion, legality: as `decompose` takes them.
        recorded: the layers of the graph, if it has many.
        last: a pass that follows.
    """
    if recorded is not None:
        found = recorded.decomposed(examples, fusion, legality)
        with suppress(UnlikeError):
            return recorded.whole(found._replace(graph=last(found.graph)))
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
    if layers is None or _adds_up_pieces(graph, layers):
        return None
    # Layers are looked for again in what passes make of these: small ones are not found in a few.
    fewest = TURNS if layers.steps else KEPT
    kept = max(fewest, -(-OF_LAYERS.shortest // len(layers.moving)))
    if layers.last - layers.first + 1 < kept + FEWEST_LEFT_OUT:
        return None
    return ShortGraph.of(graph, layers, kept, fewest // 2)


def _adds_up_pieces(graph: Graph, layers: Layers) -> bool:
    """Whether turns put pieces into zeros, as the gradients of what they take: the sum of these is
    put together from the pieces of all turns."""
    if not layers.steps:
        return False
    maker = {r: node.op for node in graph.nodes for r in node.results}
    for place, _ in layers.steps:
        node = graph.nodes[layers.nodes[place, layers.first]]
        before = maker.get(node.args[0])
        if node.op.operation.traits.access == "update" and before is not node.op:
            return True
    return False


def _source(result: str | tuple[Any]) -> Source:
    """What a number of the kernels is: a given one, a computed one, or a number."""
    if isinstance(result, str):
        return int(result[1:]) if result[0] == "x" else ("computed", result)
    return ("number", typed_key(result[0]))
