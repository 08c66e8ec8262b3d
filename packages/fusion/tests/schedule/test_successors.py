"""What a step makes of its state, found among all that it makes of the same size."""

from __future__ import annotations

from ingle.fusion.ir.graph import Graph
from ingle.fusion.schedule.successors import Successors
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import float32
from ingle.tensor.operation import OPERATIONS

ROWS = Aval((4, 4), float32)


def of(graph: Graph, name: str, *args: int) -> int:
    return graph.node(OPERATIONS[name].op(), args)[0]


def test_each_state_has_what_follows_from_it_in_the_fewest_operations() -> None:
    """A weight follows from its mean, too, and the mean of the weights from the weight."""
    graph = Graph()
    mean, weight, slow, gradient = (graph.input(ROWS) for _ in range(4))
    part = graph.constant(0.5, float32)
    first = of(graph, "add", of(graph, "multiply", mean, part), gradient)
    second = of(graph, "subtract", weight, of(graph, "multiply", first, part))
    third = of(graph, "add", of(graph, "multiply", slow, part), second)
    kept = of(graph, "negative", gradient)
    found = Successors(graph).of([mean, weight, slow], [kept, third, second, first])
    assert found == {mean: first, weight: second, slow: third}


def test_products_and_other_shapes_are_no_new_values_of_what_they_take() -> None:
    graph = Graph()
    x, row = graph.input(ROWS), graph.input(Aval((4,), float32))
    product = of(graph, "matmul", x, x)
    wide = of(graph, "add", row, x)
    assert Successors(graph).of([x], [product]) == {}
    assert Successors(graph).of([row], [wide]) == {}
    assert Successors(graph).of([x], [wide, product]) == {x: wide}
    assert Successors(graph).of([x], [x]) == {}
    assert Successors(graph).of([], [product]) == {}


def test_of_many_inputs_the_nearest_are_followed() -> None:
    graph = Graph()
    inputs = [graph.input(ROWS) for _ in range(40)]
    total = inputs[0]
    for x in inputs[1:]:
        total = of(graph, "add", total, x)
    assert Successors(graph).of(inputs, [total]) == {inputs[-1]: total}
