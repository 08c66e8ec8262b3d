"""What passes make of a short graph, with the layers that were left out written again.

A pass makes of each layer in the middle the same; so what it made of one of them becomes what it
would have made of the others when its values are replaced by theirs. The graph is the one that the
pass would have made of the whole graph, operation by operation, without the values that nobody
makes. Scalars may come in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from ingle.tensor.operation import Op

from ..support.time_slices import tick
from .aligned_layers import aligned
from .graph import Graph, Node, Value
from .layers import Layers, Spot
from .short_graph import ShortGraph, UnlikeError

Source: TypeAlias = "int | tuple[object, ...]"
"""Of a scalar: the position of the one that it is in the graph before; or what it is else, which
is equal for the same."""


_new: Any = tuple.__new__
"""Makes named tuples in half the time."""


class WrittenAgain(NamedTuple):
    """A graph of all layers.

    Attributes:
        graph: the first inputs and outputs are those of the graph that it was made of.
        layers: its layers.
        scalars: for each of its scalars what it is.
    """

    graph: Graph
    layers: Layers
    scalars: list[Source]


def written_again(
    short: ShortGraph, made: Graph, scalars: Sequence[Source] | None = None
) -> WrittenAgain:
    """The graph that passes would have made of the whole one.

    Args:
        short: what they were given.
        made: what they made of it. The first inputs and outputs are those of the short graph.
        scalars: what its scalars are; None if they are those of the short graph.

    Raises:
        UnlikeError: they have made different things of layers in the middle, or it cannot be told
            what they made of which.
    """
    return _Writing(short, made, range(len(made.scalars)) if scalars is None else scalars).written()


class _Recipe(NamedTuple):
    """A node of the layer that is written again.

    Attributes:
        op, place: what it does, and its place in the layer.
        made: its results.
        before: places of scalars that are written before it.
        operands: the value, or the place and how many layers ahead.
        starts: of operands that say where a piece begins the number, where that is in the layer
            that is written again, and how much further on in the next one.
    """

    op: Op
    place: int
    made: list[Value]
    before: list[int]
    operands: list[tuple[int | None, int]]
    starts: list[tuple[int, Value, int]]


class _Writing:
    """Writes layers again, in the order of the numbers of values.

    Args:
        short, made, scalars: as `written_again` takes them.
    """

    def __init__(self, short: ShortGraph, made: Graph, scalars: Sequence[Source]) -> None:
        whole = short.whole
        if len(made.inputs) < len(whole.inputs) or len(made.outputs) < len(whole.outputs):
            raise UnlikeError
        self._short = short
        self._made = made
        self._source_of = dict(zip(made.scalars, scalars, strict=True))
        sources: dict[int, object] = dict(zip(made.inputs, whole.inputs, strict=False))
        for value, source in self._source_of.items():
            sources[value] = whole.scalars[source] if type(source) is int else source
        self._layers, self._chains, self._returned, self._blocks = aligned(short, made, sources)
        self._there = {
            (source, made.values[value].aval): value
            for value, source in self._source_of.items()
            if type(source) is int
        }
        self._new = Graph(donors=made.donors)
        self._scalars: list[Source] = []
        self._place: dict[int, int] = {}
        self._given = [n for n, value in enumerate(made.values) if value.kind != "result"][::-1]
        """Values that are no results and are not written, the next one last."""
        self._recipes: dict[int, _Recipe] = {}
        self._values: dict[Spot, int] = {}
        self._nodes: dict[Spot, int] = {}
        self._starts: dict[Any, int] = {}

    def written(self) -> WrittenAgain:
        """The graph of all layers."""
        short, layers, nodes = self._short, self._layers, self._made.nodes
        between = range(short.steady + 1, short.steady + 1 + short.left_out)
        before: dict[int, list[int]] = {}
        behind: dict[int, list[int]] = {}
        for block in self._blocks:
            if layers.nodes[layers.node_spots[block[0]][0], short.steady + 1] > block[0]:
                behind[block[-1]] = block
            else:
                before[block[0]] = block
        for position, node in enumerate(nodes):
            for layer in reversed(between) if position in before else ():
                self._copy(before[position], layer)
            self._write_given(node.results[0])
            self._write(position, node)
            for layer in between if position in behind else ():
                self._copy(behind[position], layer)
        self._write_given(len(self._made.values))
        self._new.outputs = tuple(self._outputs())
        for place in self._chains:
            for layer in range(layers.first, short.number_in_whole(layers.last) + 1):
                self._value(place, layer)
        found = Layers(
            layers.first, short.number_in_whole(layers.last),
            {position: spot for spot, position in self._nodes.items()},
            {value: spot for spot, value in self._values.items()},
            self._nodes, self._values, layers.moving, layers.steps,
        )  # fmt: skip
        return WrittenAgain(self._new, found, self._scalars)

    def _write_given(self, end: int) -> None:
        """Writes inputs, scalars and constants up to a value."""
        while self._given and self._given[-1] < end:
            self._placed(self._given.pop())

    def _placed(self, number: int) -> int:
        """Where a value is that is there; what is no result is written when it is needed first."""
        found = self._place.get(number)
        if found is None:
            value = self._made.values[number]
            if value.kind == "result":
                raise UnlikeError
            found = self._written_given(value, self._source_of.get(number))
            self._place[number] = found
        return found

    def _written_given(self, value: Value, source: Source | None) -> int:
        if value.kind == "input":
            return self._new.input(value.aval)
        if value.kind == "constant":
            return self._new.constant(value.data, value.aval.dtype)
        assert source is not None, "it is a scalar of the graph"
        self._scalars.append(source)
        return self._new.scalar(value.aval.dtype)

    def _write(self, position: int, node: Node) -> None:
        """Writes a node that is there."""
        spot = self._layers.node_spots.get(position)
        if spot is not None:
            layer = self._short.number_in_whole(spot[1])
            if self._layers.holds(spot[1]):
                self._append(node, spot, layer)
                self._place.update(zip(node.results, self._new.nodes[-1].results, strict=True))
                return
            self._nodes[spot[0], layer] = len(self._new.nodes)
        avals = [self._made.values[r].aval for r in node.results]
        results = self._new.append(node.op, [self._placed(a) for a in node.args], avals)
        self._place.update(zip(node.results, results, strict=True))
        if spot is not None:
            self._values.update({(n, layer): r for n, r in enumerate(results, spot[0])})

    def _copy(self, block: list[int], layer: int) -> None:
        """Writes a block of the steady layer again, for another layer."""
        tick("writing layers again", len(block))
        known, nodes, values = self._values, self._new.nodes, self._new.values
        for position in block:
            recipe = self._recipes.get(position)
            if recipe is None:
                recipe = self._recipes[position] = self._recipe(position)
            op, place, made, before, operands, starts = recipe
            for chain in before:
                self._value(chain, layer)
            args = []
            for of, number in operands:
                if of is None:
                    args.append(number)
                else:
                    found = known.get((of, layer + number))
                    args.append(self._value(of, layer + number) if found is None else found)
            for n, start, step in starts:
                args[n] = self._start(start, step * (layer - self._short.steady))
            first, end = len(values), len(values) + len(made)
            self._nodes[place, layer] = len(nodes)
            nodes.append(_new(Node, (op, tuple(args), tuple(range(first, end)))))
            values += made
            known[place, layer] = first
            for n in range(1, len(made)):
                known[place + n, layer] = first + n

    def _recipe(self, position: int) -> _Recipe:
        """How a node of the steady layer is written again."""
        values, nodes, spots = self._made.values, self._made.nodes, self._layers.value_spots
        node, (place, steady) = nodes[position], self._layers.node_spots[position]
        operands: list[tuple[int | None, int]] = []
        for value, moves in zip(node.args, self._layers.moving[place], strict=True):
            spot = spots.get(value) if moves else None
            if spot is None:
                operands.append((None, self._placed(value)))
            else:
                operands.append((spot[0], spot[1] - steady))
        end = nodes[position - 1].results[-1] + 1 if position else 0
        given = [n for n in range(end, node.results[0]) if values[n].kind == "scalar"]
        before = [spots[n][0] for n in given if n in spots]
        steps = enumerate([self._layers.steps.get((place, n), 0) for n in range(len(node.args))])
        starts = [(n, values[node.args[n]], step) for n, step in steps if step]
        return _Recipe(node.op, place, [values[r] for r in node.results], before, operands, starts)

    def _start(self, first: Value, on: int) -> int:
        """Where a piece of another layer begins, so much further on."""
        number = first.data + on
        found = self._starts.get((number, first.aval))
        if found is None:
            found = self._new.constant(number, first.aval.dtype)
            self._starts[number, first.aval] = found
        return found

    def _append(self, node: Node, spot: Spot, layer: int) -> None:
        """Writes a node of a layer for a layer, which may be another one."""
        args = []
        for value, moves in zip(node.args, self._layers.moving[spot[0]], strict=True):
            taken = self._layers.value_spots.get(value) if moves else None
            if taken is None:
                args.append(self._placed(value))
            else:
                args.append(self._value(taken[0], layer + taken[1] - spot[1]))
        values = self._made.values
        self._nodes[spot[0], layer] = len(self._new.nodes)
        results = self._new.append(node.op, args, [values[r].aval for r in node.results])
        for place, result in enumerate(results, spot[0]):
            self._values[place, layer] = result

    def _value(self, place: int, layer: int) -> int:
        """The value of a place in a layer of the whole graph."""
        found = self._values.get((place, layer))
        if found is None:
            if place not in self._chains:
                raise UnlikeError
            found = self._values[place, layer] = self._chained(place, layer)
        return found

    def _chained(self, place: int, layer: int) -> int:
        """An input or a scalar of a layer."""
        short, (of, ahead) = self._short, self._chains[place]
        here = None if short.is_gone(layer) else short.number_among_kept(layer)
        member = None if here is None else self._layers.values.get((place, here))
        if of is None:
            if member is not None:
                return self._placed(member)
            like = self._layers.values[place, short.steady]
            return self._written_given(self._made.values[like], self._source_of[like])
        number = short.layers.values.get((of, layer + ahead))
        if number is None:
            if member is None:
                raise UnlikeError
            return self._placed(member)
        value = short.whole.values[number]
        if value.kind == "input":
            return self._placed(self._made.inputs[value.data])
        there = self._there.get((value.data, value.aval))
        return self._written_given(value, value.data) if there is None else self._placed(there)

    def _outputs(self) -> list[int]:
        """The outputs of all layers."""
        short, layers = self._short, self._layers
        found = [self._placed(o) for o in self._made.outputs]
        from_place: dict[int, Spot] = {}
        for at, (place, layer) in self._returned:
            spot = layers.value_spots.get(self._made.outputs[at])
            if short.is_gone(layer) or spot is None or not layers.holds(spot[1]):
                continue
            there = spot[0], short.number_among_kept(layer) - spot[1]
            if from_place.setdefault(place, there) != there:
                raise UnlikeError
        for at, (place, layer) in self._returned:
            of, spot = from_place.get(place), layers.value_spots.get(self._made.outputs[at])
            inside = spot is not None and layers.holds(spot[1])
            if of is not None and (inside or short.is_gone(layer)):
                found[at] = self._value(of[0], layer - of[1])
            elif short.is_gone(layer):
                raise UnlikeError
        return found
