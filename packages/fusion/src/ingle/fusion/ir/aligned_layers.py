"""Which layer of what a pass made comes of which layer of the graph that it was given.

Inputs and outputs tell, which keep their positions. A block of the new graph may begin in the
middle of a layer of the old one, and so have values of two of them that follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from .graph import Graph
from .layers import Layers, Spot, layers_like, likeness_of, step_between
from .repeated_runs import runs_of
from .short_graph import ShortGraph, UnlikeError

FEWEST_ALIKE = 3
"""The layer that is written again, and one on each side of it that is like it."""

Numbered: TypeAlias = "Callable[[int], int]"
"""The number of a layer in a graph, by that in the short one."""
Pairs: TypeAlias = "dict[tuple[int, int], list[tuple[int, int]]]"
"""For a place in the new layers and one in the old: numbers of layers there and here."""


class Chain(NamedTuple):
    """Where the values of a place come from that are inputs or scalars.

    Attributes:
        place: their place in the layers of the old graph; None if it is the same number everywhere.
        ahead: how many layers before theirs it is that they are taken by.
    """

    place: int | None
    ahead: int


class Aligned(NamedTuple):
    """The layers of what a pass made of a short graph.

    Attributes:
        layers: by the numbers that they have in the short graph.
        chains: for places of inputs and scalars where they come from.
        returned: positions of outputs that layers give, with their spots in the old graph.
        blocks: the positions of the nodes of the steady layer, those in a row together.
    """

    layers: Layers
    chains: dict[int, Chain]
    returned: list[tuple[int, Spot]]
    blocks: list[list[int]]


def aligned(short: ShortGraph, made: Graph, sources: Mapping[int, object]) -> Aligned:
    """The layers of what a pass made of a short graph.

    Args:
        short: what it was given.
        made: what it made of it.
        sources: for inputs and scalars of `made` the value of the whole graph, or what else is
            equal for scalars that are the same number.

    Raises:
        UnlikeError: it has none, or it cannot be told which they are, or the one in the middle
            takes other things than those beside it.
    """
    found = layers_like(made, FEWEST_ALIKE, short.layers)
    if found is None:
        raise UnlikeError
    theirs = short.layers
    given, fixed = _given(short, made, found, sources)
    returned = [
        (at, spot)
        for at, output in enumerate(short.whole.outputs)
        if (spot := theirs.value_spots.get(output)) is not None
        and short.whole.values[output].kind == "result"
        and theirs.holds(spot[1])
    ]
    pairs: Pairs = {key: list(those) for key, those in given.items()}
    for at, (place, layer) in returned:
        there = found.value_spots.get(made.outputs[at])
        if there is not None and not short.is_gone(layer) and found.holds(there[1]):
            pair = there[1], short.number_among_kept(layer)
            pairs.setdefault((there[0], place), []).append(pair)
    turn, start = _numbering([*pairs.values()], short.steady, _middle(made, found))
    chains = {place: Chain(None, 0) for place in fixed}
    for (place, of), ((layer, number), *_) in given.items():
        chains[place] = Chain(of, number - turn * layer - start)
    layers = _renumbered(found, turn, start)
    if not layers.first < short.steady < layers.last:
        raise UnlikeError
    layers = layers._replace(steps=_steps(short, made, layers))
    _check_alike(short, short.whole, theirs, short.number_in_whole)
    _check_alike(short, made, layers, lambda layer: layer)
    near = _near(short, short.whole, theirs, short.number_in_whole)
    _check_apart(short.whole, theirs, near, ())
    blocks = _blocks(layers, short.steady)
    telling = {place for place, chain in chains.items() if chain.place is not None}
    telling.update(place for place, _ in pairs)
    near = _near(short, made, layers, lambda layer: layer)
    untold = _untold(made, layers, blocks, telling)
    pieces = _starts(short.whole, theirs, short.steady) <= _starts(made, layers, short.steady)
    if untold and (theirs.steps or not pieces or not _are_alone(short, made, layers)):
        raise UnlikeError
    near.update(untold)
    known = {at for at, _ in returned}
    others = [o for at, o in enumerate(made.outputs) if at not in known]
    _check_apart(made, layers, near, others)
    return Aligned(layers, chains, returned, blocks)


def _given(
    short: ShortGraph, made: Graph, found: Layers, sources: Mapping[int, object]
) -> tuple[Pairs, set[int]]:
    """The places of inputs and scalars: those that are other ones in each layer, with the numbers
    of the layers, and those that are the same number."""
    pairs: Pairs = {}
    fixed: dict[int, object] = {}
    for value, (place, layer) in found.value_spots.items():
        if made.values[value].kind == "result":
            continue
        source = sources.get(value)
        if type(source) is not int:
            if source is None or fixed.setdefault(place, source) != source:
                raise UnlikeError
            continue
        spot = short.layers.value_spots.get(source)
        if spot is None:  # at an end of the layers
            continue
        if short.is_gone(spot[1]):
            raise UnlikeError
        pair = layer, short.number_among_kept(spot[1])
        pairs.setdefault((place, spot[0]), []).append(pair)
    places = [place for place, _ in pairs]
    if len({*places, *fixed}) != len(places) + len(fixed):
        raise UnlikeError
    return pairs, {*fixed}


def _middle(made: Graph, found: Layers) -> int:
    """The new layer that takes the place of the one behind which others were left out, where
    nothing else tells: that from which it is furthest to where the next one's pieces begin."""
    if not found.steps:
        return (found.first + found.last) // 2
    gaps: set[int] = set()
    for place, number in found.steps:
        row = range(found.first, found.last + 1)
        starts = [made.values[made.nodes[found.nodes[place, n]].args[number]].data for n in row]
        far = [abs(b - a) for a, b in pairwise(starts)]
        gaps.add(found.first + far.index(max(far)))
    if len(gaps) > 1:
        raise UnlikeError
    return gaps.pop()


def _steps(short: ShortGraph, made: Graph, layers: Layers) -> dict[tuple[int, int], int]:
    """How much further on pieces begin from each layer of the whole graph to the next one.

    Raises:
        UnlikeError: it is not as far to the layer behind those that were left out as it is to that
            many layers.
    """
    found: dict[tuple[int, int], int] = {}
    for place, number in layers.steps:
        before, here, behind = [
            made.values[made.nodes[layers.nodes[place, short.steady + by]].args[number]]
            for by in (-1, 0, 1)
        ]
        step, far = step_between(before, here), step_between(here, behind)
        if step is None or far != step * (short.left_out + 1):
            raise UnlikeError
        found[place, number] = step
    return found


def _are_alone(short: ShortGraph, made: Graph, layers: Layers) -> bool:
    """Whether layers that nothing tells are those of the short graph, as there are not more of them
    and nothing else repeats: what comes behind them, or in front, may be another loop's turns."""
    kept = short.layers.last - short.layers.first + 1 - short.left_out
    if layers.last - layers.first + 1 > kept:
        return False
    for run in runs_of(made, likeness_of(short.layers)):
        block = range(run.first, run.first + run.period)
        taken = [a for position in block for a in made.nodes[position].args]
        follows = any(made.values[a].kind == "result" for a in taken)
        if follows and layers.node_spots.keys().isdisjoint(block):
            return False
    return True


def _starts(graph: Graph, layers: Layers, layer: int) -> set[object]:
    """The numbers at which pieces begin in a layer."""
    found: set[object] = set()
    for place in layers.moving:
        node = graph.nodes[layers.nodes[place, layer]]
        first = node.op.operation.traits.starts
        if first is not None:
            starts = [graph.values[a] for a in node.args[first:]]
            found.update([value.data for value in starts if value.kind == "constant"])
    return found


def _numbering(alike: Sequence[Sequence[tuple[int, int]]], steady: int, middle: int) -> Spot:
    """The direction of the new layers by the old ones, and the number of the one that is 0."""
    if not alike:
        return 1, steady - middle
    turns: set[int] = set()
    for (layer, number), *others in alike:
        turns.update([(n - number) // (o - layer) for o, n in others if o != layer])
    if turns not in ({1}, {-1}):
        raise UnlikeError
    (turn,) = turns
    starts = [{number - turn * layer for layer, number in pairs} for pairs in alike]
    every = sorted([start for own in starts for start in own])
    start = every[len(every) // 2]
    if max(map(len, starts)) > 1 or max(start - every[0], every[-1] - start) > 1:
        raise UnlikeError
    return turn, start


def _renumbered(layers: Layers, turn: int, start: int) -> Layers:
    """The same layers by other numbers."""
    first, last = sorted((turn * layers.first + start, turn * layers.last + start))
    nodes = {p: (place, turn * layer + start) for p, (place, layer) in layers.node_spots.items()}
    values = {v: (place, turn * layer + start) for v, (place, layer) in layers.value_spots.items()}
    return Layers(
        first, last, nodes, values, {spot: p for p, spot in nodes.items()},
        {spot: v for v, spot in values.items()}, layers.moving, layers.steps,
    )  # fmt: skip


def _check_alike(short: ShortGraph, graph: Graph, layers: Layers, number: Numbered) -> None:
    """The layer that is written again takes of each value what those beside it take."""
    middle = number(short.steady)
    for place, moving in layers.moving.items():
        here = graph.nodes[layers.nodes[place, middle]].args
        for beside in (-1, 1):
            layer = number(short.steady + beside)
            there = graph.nodes[layers.nodes[place, layer]].args
            for n, (a, b, moves) in enumerate(zip(here, there, moving, strict=True)):
                if (place, n) in layers.steps:
                    continue
                spot = layers.value_spots.get(a) if moves else None
                if spot is None:
                    if a != b:
                        raise UnlikeError
                elif layers.value_spots.get(b) != (spot[0], spot[1] + layer - middle):
                    raise UnlikeError


def _blocks(layers: Layers, steady: int) -> list[list[int]]:
    """The positions of a layer's nodes, those in a row together."""
    found: list[list[int]] = []
    for position in sorted([layers.nodes[place, steady] for place in layers.moving]):
        if not found or found[-1][-1] != position - 1:
            found.append([])
        found[-1].append(position)
    return found


def _near(short: ShortGraph, graph: Graph, layers: Layers, number: Numbered) -> set[int]:
    """What the layers beside those that were left out have made."""
    beside = number(short.steady), number(short.steady + 1)
    return {
        value
        for value, (_, layer) in layers.value_spots.items()
        if layer in beside and graph.values[value].kind == "result"
    }


def _untold(
    made: Graph, layers: Layers, blocks: Sequence[Sequence[int]], telling: set[int]
) -> set[int]:
    """What blocks have made of which nothing tells their layers, but at the ends.

    A place tells, a piece that begins further on in the next layer does, and so does a block of
    which it is known that takes what the block makes, or makes what it takes.
    """
    spots, waiting = layers.value_spots, [*blocks]
    while True:
        known = set[int]()
        left: list[Sequence[int]] = []
        for block in waiting:
            nodes = [(made.nodes[p], layers.node_spots[p][0]) for p in block]
            places = {spots[r][0] for node, _ in nodes for r in node.results}
            for node, place in nodes:
                taken = zip(node.args, layers.moving[place], strict=True)
                places.update([spots[a][0] for a, moves in taken if moves and a in spots])
            steps = {place for place, _ in layers.steps}
            if telling.isdisjoint(places) and steps.isdisjoint([place for _, place in nodes]):
                left.append(block)
            else:
                known |= places
        if len(left) == len(waiting):
            break
        waiting, telling = left, telling | known
    inner = range(layers.first + 1, layers.last)
    results = [r for block in waiting for p in block for r in made.nodes[p].results]
    return {layers.values[spots[r][0], layer] for r in results for layer in inner}


def _check_apart(graph: Graph, layers: Layers, near: set[int], outputs: Sequence[int]) -> None:
    """What is in no layer takes nothing of which it is not known on which side of the layers that
    were left out it is."""
    for position, node in enumerate(graph.nodes):
        spot = layers.node_spots.get(position)
        apart = spot is None or not layers.holds(spot[1])
        if apart and not near.isdisjoint(node.args):
            raise UnlikeError
    if not near.isdisjoint(outputs):
        raise UnlikeError
