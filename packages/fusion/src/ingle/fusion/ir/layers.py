"""The layers of a graph: what of its repeated runs belongs together.

The forward pass goes through the layers in one direction, the gradient in the other, and each
layer's parameters are inputs of both. A layer is a block of each run such that one layer becomes
the next one when its values are replaced by those of the next: the same operations, on what the
same operations of the next layer, or of the layers beside it, have made. The turns of a loop over
the steps of a sequence are layers, too: each takes a piece that begins a step further on.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from .graph import Graph, Value
from .repeated_runs import OF_LAYERS, OF_TURNS, Likeness, Run, runs_of

FEWEST_LAYERS = 8
"""Fewer of them are planned in no time."""
MOST_JOINED = 6
"""Blocks of a run that may be one layer together."""

Spot: TypeAlias = "tuple[int, int]"
"""A place in a layer, the same in all layers, and the number of the layer."""


class Layers(NamedTuple):
    """Layers that follow each other, of which each becomes the next one.

    Attributes:
        first, last: their numbers.
        node_spots: for positions of nodes that are in some layer the spot.
        value_spots: likewise for values, inputs and numbers of each run among them.
        nodes, values: the other way round, by spot.
        moving: for each place of a node whether its operands belong to layers, so that those of
            the next layer are others.
        steps: for the operands that say where a piece begins, by the place of the node and the
            number of the operand: how much further on that is in the next layer, if it is.
    """

    first: int
    last: int
    node_spots: dict[int, Spot]
    value_spots: dict[int, Spot]
    nodes: dict[Spot, int]
    values: dict[Spot, int]
    moving: dict[int, tuple[bool, ...]]
    steps: dict[tuple[int, int], int]

    def holds(self, layer: int) -> bool:
        """Whether a number is that of a layer which is whole."""
        return self.first <= layer <= self.last


class _Next(NamedTuple):
    """What differs from a layer to the next one.

    Attributes:
        inputs: those of the next one by those of the layer.
        steps: as those of `Layers`.
    """

    inputs: dict[int, int]
    steps: dict[tuple[int, int], int]


class _NoLayersError(Exception):
    """The runs do not belong together."""


def layers_of(graph: Graph) -> Layers | None:
    """The layers of a graph; None if it has none, or few."""
    found = _layers(graph, FEWEST_LAYERS, OF_LAYERS)
    if found is None and any(n.op.operation.traits.starts is not None for n in graph.nodes):
        found = _layers(graph, FEWEST_LAYERS, OF_TURNS)
    return found


def layers_like(graph: Graph, fewest: int, layers: Layers) -> Layers | None:
    """The layers of what became of some of a graph's layers; None if it has fewer than that.

    Where pieces begin further on in each of the graph's, they begin anywhere here: these need not
    have followed each other.
    """
    return _layers(graph, fewest, likeness_of(layers), evenly=False)


def likeness_of(layers: Layers) -> Likeness:
    """By what layers were found."""
    return OF_TURNS if layers.steps else OF_LAYERS


def step_between(one: Value, other: Value) -> int | None:
    """How much further on a piece begins; None if that is no number, or if one of them is counted
    from the front and the other from the end."""
    if (one.kind, one.aval, other.kind) != ("constant", other.aval, "constant"):
        return None
    if type(one.data) is not int or type(other.data) is not int:
        return None
    return other.data - one.data if (one.data < 0) == (other.data < 0) else None


def _layers(graph: Graph, fewest: int, likeness: Likeness, evenly: bool = True) -> Layers | None:
    runs = runs_of(graph, likeness)
    if not runs or runs[0].blocks < fewest:
        return None
    try:
        return _Matching(graph, runs, fewest, likeness.anywhere, evenly).layers()
    except _NoLayersError:
        return None


class _Matching:
    """Finds out which block of each run belongs to which layer.

    Args:
        graph: whose layers are looked for.
        runs: its repeated runs.
        fewest: layers that are wanted.
        anywhere: whether pieces of the next layer may begin elsewhere.
        evenly: whether it is equally far to the next one everywhere.
    """

    def __init__(
        self, graph: Graph, runs: list[Run], fewest: int, anywhere: bool, evenly: bool
    ) -> None:
        self._graph = graph
        self._fewest = fewest
        self._anywhere = anywhere
        self._evenly = evenly
        self._maker = {r: p for p, node in enumerate(graph.nodes) for r in node.results}
        self._runs = runs
        self._block: dict[int, tuple[int, int]] = {}
        self._links: dict[int, dict[int, tuple[int, int]]] = {}

    def _joined(self) -> bool:
        """Links runs; where one has several blocks for a block of another, these become one.

        Parameters of the same shape are updated alike, also those that other layers have.
        """
        self._block = {}
        for number, run in enumerate(self._runs):
            for position in range(run.first, run.first + run.period * run.blocks):
                self._block[position] = number, position - run.first
        self._links = {}
        for number in range(len(self._runs)):
            for other, (by, step, shift) in self._read_by(number).items():
                for wide, times in ((number, by), (other, step)):
                    if abs(times) > 1:
                        first, period, count = self._runs[wide]
                        self._runs[wide] = Run(first, period * abs(times), count // abs(times))
                if by > 1 or abs(step) > 1:
                    return True
                self._links.setdefault(number, {}).setdefault(other, (step, shift))
                self._links.setdefault(other, {}).setdefault(number, (step, -step * shift))
        return False

    def _read_by(self, number: int) -> dict[int, tuple[int, int, int]]:
        """For runs that a run reads: after how many blocks it reads the same place of another
        block, how much further on that is, and which block the first one would read."""
        run, found = self._runs[number], dict[int, tuple[int, int, int]]()
        for by in range(1, min(MOST_JOINED, run.blocks // 4) + 1):
            half = run.blocks // 2 // by
            here = run.first + half * by * run.period
            for position in range(here, here + by * run.period):
                one = self._graph.nodes[position].args
                other = self._graph.nodes[position + by * run.period].args
                for a, b in zip(one, other, strict=True):
                    read = self._block.get(self._maker.get(a, -1))
                    then = self._block.get(self._maker.get(b, -1))
                    if read is None or then is None or read[0] != then[0] or read[0] == number:
                        continue
                    period = self._runs[read[0]].period
                    step, rest = divmod(then[1] - read[1], period)
                    if not rest and step and abs(step) <= MOST_JOINED:
                        shift = read[1] // period - step * half
                        found.setdefault(read[0], (by, step, shift))
        return found

    def layers(self) -> Layers:
        """The layers that the runs are made of.

        Raises:
            _NoLayersError: the runs are no layers.
        """
        while self._joined():
            pass
        starts = self._numbered()
        node_spots: dict[int, Spot] = {}
        value_spots: dict[int, Spot] = {}
        places = 0
        for number, (direction, start) in starts.items():
            run = self._runs[number]
            for offset in range(run.period):
                for block in range(run.blocks):
                    position = run.first + block * run.period + offset
                    layer = start + direction * block
                    node_spots[position] = places, layer
                    for n, result in enumerate(self._graph.nodes[position].results):
                        value_spots[result] = places + n, layer
                places += max(1, len(self._graph.nodes[run.first + offset].results))
        return self._checked(node_spots, value_spots, places)

    def _numbered(self) -> dict[int, tuple[int, int]]:
        """For runs that hang together with the longest: the direction, and the first layer."""
        found = {0: (1, 0)}
        waiting = [0]
        while waiting:
            number = waiting.pop()
            direction, start = found[number]
            for other, (along, shift) in self._links.get(number, {}).items():
                if other not in found:
                    # layer = start + direction * k, and that reads block k' = along * k + shift
                    turned = direction * along
                    found[other] = turned, start - turned * shift
                    waiting.append(other)
        return found

    def _checked(
        self, node_spots: dict[int, Spot], value_spots: dict[int, Spot], places: int
    ) -> Layers:
        """The longest row of layers of which each becomes the next one."""
        nodes = {spot: position for position, spot in node_spots.items()}
        values = {spot: value for value, spot in value_spots.items()}
        inside: dict[int, list[int]] = {}
        for position, (_, layer) in node_spots.items():
            inside.setdefault(layer, []).append(position)
        outputs = set(self._graph.outputs)
        full = max(map(len, inside.values()))
        best: list[int] = []
        row: list[int] = []
        following: dict[int, _Next] = {}
        for layer in sorted(inside):
            found = None
            if len(inside[layer]) == full and len(inside.get(layer + 1, ())) == full:
                found = self._followed(inside[layer], node_spots, nodes, value_spots, outputs)
            if found is None:
                row = []
                continue
            following[layer] = found
            uneven = self._evenly and row and following[layer - 1].steps != found.steps
            row = [layer] if uneven else [*row, layer]
            best = max(best, row, key=len)
        if len(best) + 1 < self._fewest:
            raise _NoLayersError
        self._add_inputs([following[layer].inputs for layer in best], best[0], value_spots, places)
        values.update({spot: value for value, spot in value_spots.items()})
        moving: dict[int, tuple[bool, ...]] = {}
        for position in inside[best[0]]:
            place, layer = node_spots[position]
            here = self._graph.nodes[position].args
            there = self._graph.nodes[nodes[place, layer + 1]].args
            moving[place] = tuple([a != b for a, b in zip(here, there, strict=True)])
        steps = following[best[0]].steps
        return Layers(best[0], best[-1] + 1, node_spots, value_spots, nodes, values, moving, steps)

    def _followed(
        self, positions: list[int], node_spots: dict[int, Spot], nodes: dict[Spot, int],
        value_spots: dict[int, Spot], outputs: set[int],
    ) -> _Next | None:  # fmt: skip
        """What differs in the next layer from a layer that becomes it; None if it does not."""
        graph = self._graph
        pairs: dict[int, int] = {}
        steps: dict[tuple[int, int], int] = {}
        for position in positions:
            place, layer = node_spots[position]
            there = nodes.get((place, layer + 1))
            if there is None:
                return None
            one, other = graph.nodes[position], graph.nodes[there]
            if one.op is not other.op or len(one.args) != len(other.args):
                return None
            for a, b in zip(one.results, other.results, strict=True):
                if (a in outputs) != (b in outputs) or graph.values[a].aval != graph.values[b].aval:
                    return None
            first = one.op.operation.traits.starts if self._anywhere else None
            for number, (a, b) in enumerate(zip(one.args, other.args, strict=True)):
                if a == b:
                    continue
                spot = value_spots.get(a)
                if spot is not None:
                    if value_spots.get(b) != (spot[0], spot[1] + 1):
                        return None
                    continue
                kind, aval, _ = graph.values[a]
                if kind == "constant" and first is not None and number >= first:
                    step = step_between(graph.values[a], graph.values[b])
                    if step is None:
                        return None
                    steps[place, number] = step
                    continue
                if kind not in ("input", "scalar") or graph.values[b][:2] != (kind, aval):
                    return None
                if pairs.setdefault(a, b) != b or a in outputs or b in outputs:
                    return None
        return _Next(pairs, steps)

    def _add_inputs(
        self, following: list[dict[int, int]], first: int, value_spots: dict[int, Spot], places: int
    ) -> None:
        """Gives inputs their spots: each chain from layer to layer is a place."""
        after: dict[int, int] = {}
        begins: dict[int, int] = {}
        for layer, pairs in enumerate(following, first):
            for a, b in pairs.items():
                if after.setdefault(a, b) != b:
                    raise _NoLayersError
                begins.setdefault(a, layer)
        later = {*after.values()}
        if len(later) != len(after):
            raise _NoLayersError
        for start in [a for a in after if a not in later]:
            value, layer = start, begins[start]
            value_spots[value] = places, layer
            while value in after:
                value, layer = after[value], layer + 1
                if value == start:
                    raise _NoLayersError
                value_spots[value] = places, layer
            places += 1
