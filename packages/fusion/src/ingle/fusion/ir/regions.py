"""Pieces of tensors: where concat, slice_update, slices and scatters read and write.

What they have in common: nothing is computed, parts of one value are parts of another. A kernel
copies each part, or the kernel that makes it writes it there at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.contract import Handle, Scalar
from ingle.tensor.operation import Op

from ..kernel.nest import MAX_OUTER
from .graph import Graph
from .movement import first_places, pieces
from .views import View, Views, from_the_front, sliced

PRODUCTS = frozenset({"matmul", "bytes", "windows"})
"""Families of operations that are calls of a template."""
ASSEMBLED = frozenset({"join", "slice", "update", "scatter"})
"""Accesses whose results are put together from pieces; slices are, where they are no views."""


class Region(NamedTuple):
    """A part of a result.

    Attributes:
        source: the elements that it consists of.
        target: where they lie in the result.
    """

    source: View
    target: View


class Regions(NamedTuple):
    """What a result is put together from, in the order in which it is written.

    Attributes:
        parts: the pieces.
        disjoint: whether no place is written twice.
    """

    ordered: tuple[Region, ...]
    disjoint: bool


def regions_of(graph: Graph, views: Views, position: int, home: View) -> Regions | None:
    """The pieces of a `concat`, or of a `slice_update` at a known place; else None.

    Args:
        graph, views, position: the node.
        home: where its result lies.
    """
    node = graph.nodes[position]
    out = graph.values[node.results[0]].aval
    inputs: list[Any] = [graph.values[a].aval for a in node.args]
    access = node.op.operation.traits.access
    joins = access == "join"
    if not joins:
        starts = [graph.values[a] for a in node.args[2:]]
        if access != "update" or any(s.kind != "constant" for s in starts):
            return None
        inputs[2:] = [Scalar(s.data, s.aval.dtype) for s in starts]
    found = [
        Region(
            views.of(node.args[number]),
            View(home.root, inputs[number].shape, steps, home.offset + offset),
        )
        for number, offset, steps in pieces(node.op, inputs, out, home.strides)
    ]
    found = [p for p in found if 0 not in p.target.shape]
    if joins:
        return Regions(tuple(found), True)
    whole, *rest = found
    steps = node.op.attributes["steps"]
    if rest and _repeats(views, whole.source) and set(steps) <= {1}:
        sizes = inputs[1].shape
        first = first_places(node.op, out.shape, inputs[2:], sizes, steps)
        return Regions((*_around(whole, first, sizes), *rest), True)
    return Regions(tuple(found), False)


def _lies_inside(op: Op, inputs: Sequence[Any]) -> bool:
    x, y, *starts = inputs
    each = zip(starts, x.shape, y.shape, op.attributes["steps"], strict=True)
    return all(from_the_front(s.value, n, m, t) is not None for s, n, m, t in each)


def _repeats(views: Views, view: View) -> bool:
    """Whether all elements of a view are one number."""
    return views.is_full(view.root) or not any(view.strides)


def _around(whole: Region, starts: Sequence[int], lengths: Sequence[int]) -> list[Region]:
    """What is left of a piece that repeats one element around a box in it."""
    found = []
    first, sizes = [0] * len(starts), list(whole.target.shape)
    ones = (1,) * len(starts)
    for axis, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        for begin, end in ((0, start), (start + length, sizes[axis])):
            if begin < end:
                at = [*first[:axis], begin, *first[axis + 1 :]]
                box = (*sizes[:axis], end - begin, *sizes[axis + 1 :])
                sides = [sliced(view, at, box, ones) for view in whole]
                found.append(Region(*sides))
        first[axis], sizes[axis] = start, length
    return found


def is_assembly(graph: Graph, position: int) -> bool:
    """Whether kernels put the result of a node together, which is no view."""
    node = graph.nodes[position]
    traits, avals = node.op.operation.traits, [graph.values[a].aval for a in node.args]
    first = traits.starts
    if traits.access not in ASSEMBLED or any(len(a.shape) > MAX_OUTER for a in avals):
        return False
    if first is None:
        return True
    starts = [graph.values[a] for a in node.args[first:]]
    if any(s.kind != "constant" for s in starts):
        return True
    # The operation itself says what is wrong with a piece that does not lie inside.
    given = [*avals[:2], *[Scalar(s.data, s.aval.dtype) for s in starts]]
    return traits.access == "update" and _lies_inside(node.op, given)


def outside(op: Op, inputs: Sequence[Handle | Scalar]) -> Tensor | None:
    """Whether a piece does not lie inside, of a `slice` or `slice_update` with computed starts.

    Starts that are numbers were checked when the operation was called.
    """
    before = op.operation.traits.starts
    if before is None:
        return None
    sizes = op.attributes["sizes"] if before == 1 else inputs[1].shape
    if 0 in sizes:
        return None  # The backend, which is asked for it, says so itself.
    wrong: Tensor | None = None
    each = zip(inputs[before:], inputs[0].shape, sizes, op.attributes["steps"], strict=True)
    for start, length, size, step in each:
        if isinstance(start, Scalar):
            continue
        first = Tensor(start).astype("int64")
        first = it.where(first < 0, first + length, first)
        last = first + (size - 1) * step
        here = (first < 0) | (first >= length) | (last < 0) | (last >= length)
        wrong = here if wrong is None else wrong | here
    return wrong
