"""Inputs that lie in memory in another order of axes, where products or convolutions read them.

How a product's sums are ordered depends on which of its operands lie transposed. Inside a plan that
is known of every value that the plan makes. An input is put in C order, though, and what a view of
it was made of is forgotten. So a plan with products is made anew for inputs that lie otherwise: the
plan of the same graph whose input is what lies in memory, and whose first operation is the view.
A convolution that wants its image with the channels last finds one that lies so in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingle.tensor.contract import Aval, Handle
from ingle.tensor.operation import Op
from ingle.tensor.ops.convolution.channels_last import CHANNELS_LAST
from ingle.tensor.ops.movement.shapes import PERMUTE_DIMS

from ..grouping.legality import is_product
from ..ir.graph import Graph
from ..support.source_location import Line
from .device import KernelDevice

Layout = tuple[tuple[int, tuple[int, ...]], ...]
"""Positions of inputs that do not lie in C order, with the order of their axes in memory."""


def read_by_products(graph: Graph) -> tuple[int, ...]:
    """Positions of the inputs of at least two axes that matrix products read, or convolutions with
    the channels last, perhaps as views."""
    last = CHANNELS_LAST.values()
    readers = [n for n in graph.nodes if is_product(n.op) or n.op.operation in last]
    reached = {v for node in readers for v in node.args}
    for node in reversed(graph.nodes):
        if node.op.operation.traits.family == "movement" and not reached.isdisjoint(node.results):
            reached.update(node.args)
    return tuple(
        [
            i
            for i, v in enumerate(graph.inputs)
            if v in reached and len(graph.values[v].aval.shape) > 1
        ]
    )


def layout_of(device: KernelDevice, given: Sequence[Handle], positions: Sequence[int]) -> Layout:
    """Which of some inputs do not lie in C order."""
    asked, usual = device.axes_in_memory, device.ordered_type
    return tuple(
        [
            (i, axes)
            for i in positions
            if type(h := given[i]) is not usual and (axes := asked(h)) is not None
        ]
    )


def as_in_memory(
    device: KernelDevice, given: Sequence[Handle], layout: Layout
) -> list[Handle]:  # fmt: skip
    """The inputs of the plan for a layout."""
    handles = list(given)
    for i, axes in layout:
        (handles[i],) = device.execute_native(_permuting(axes), (handles[i],))
    return handles


def laid_out(graph: Graph, layout: Layout) -> Graph:
    """The graph whose inputs are as they lie in memory."""
    orders = dict(layout)
    new, place = type(graph)(), dict[int, int]()
    for number, value in enumerate(graph.values):
        if value.kind == "input" and value.data in orders:
            axes = orders[value.data]
            aval = Aval(tuple([value.aval.shape[a] for a in axes]), value.aval.dtype)
            back = tuple(sorted(range(len(axes)), key=axes.__getitem__))
            (place[number],) = new.append(_permuting(back), (new.input(aval),), (value.aval,))
        elif value.kind == "input":
            place[number] = new.input(value.aval)
        elif value.kind == "scalar":
            place[number] = new.scalar(value.aval.dtype)
        elif value.kind == "constant":
            place[number] = new.constant(value.data, value.aval.dtype)
    for node in graph.nodes:
        avals = [graph.values[r].aval for r in node.results]
        results = new.append(node.op, [place[a] for a in node.args], avals)
        place.update(zip(node.results, results, strict=True))
    new.outputs = tuple([place[o] for o in graph.outputs])
    if graph.lines:  # what lays an input out is nobody's
        new.lines = [Line(None, 0)] * len(layout) + [*graph.lines]
    kept = [(tuple([i for i in given if i not in orders]), made) for given, made in graph.donors]
    new.donors = tuple([(given, made) for given, made in kept if given])
    return new


def _permuting(axes: tuple[int, ...]) -> Op:
    return PERMUTE_DIMS.op(axes=axes)
