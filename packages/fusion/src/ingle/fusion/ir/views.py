"""Views: values that are another value's elements, found by strides instead of copied."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ingle.tensor.operation import Op
from ingle.tensor.ops.elementwise.dependence import DEPEND

from .graph import Graph, Node


class View(NamedTuple):
    """A value as strided elements of a root, which lies in memory in C order.

    Attributes:
        root: the number of the root value.
        shape: the view's.
        strides: in elements of the root; 0 along an axis that repeats.
        offset: of the first element, in elements.
    """

    root: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def contiguous(self) -> bool:
        """Whether its elements lie in C order without gaps."""
        return all(
            n == 1 or s == t
            for n, s, t in zip(self.shape, self.strides, strides_of(self.shape), strict=True)
        )


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """In elements, of an array in C order."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def long_axes(shape: Sequence[int]) -> tuple[int | None, ...]:
    """For each axis its number, None for those of size 1."""
    return tuple([None if n == 1 else a for a, n in enumerate(shape)])


def reshaped(view: View, shape: tuple[int, ...]) -> View | None:
    """The view in another shape, or None where no strides say that."""
    if math.prod(shape) == 0:
        return None
    old = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if n != 1]
    strides: list[int] = []
    rest = list(shape)
    while old or rest:
        if rest and rest[0] == 1:
            strides.append(0)
            rest.pop(0)
            continue
        if not old or not rest:
            return None
        have, want = 1, 1
        taken: list[tuple[int, int]] = []
        sizes: list[int] = []
        while have != want or not sizes:
            if have <= want and old:
                taken.append(old.pop(0))
                have *= taken[-1][0]
            elif rest:
                sizes.append(rest.pop(0))
                want *= sizes[-1]
            else:
                return None
        for (_, outer), (n, inner) in pairwise(taken):
            if outer != n * inner:
                return None
        step = taken[-1][1]
        steps = []
        for n in reversed(sizes):
            steps.append(step)
            step *= n
        strides.extend(reversed(steps))
    return View(view.root, shape, tuple(strides), view.offset)


def permuted(view: View, axes: Sequence[int]) -> View:
    """The view with its axes in another order."""
    return View(
        view.root,
        tuple([view.shape[a] for a in axes]),
        tuple([view.strides[a] for a in axes]),
        view.offset,
    )


def broadcasted(view: View, shape: tuple[int, ...]) -> View:
    """The view repeated along new and stretched axes."""
    new = len(shape) - len(view.shape)
    strides = [
        0 if i < new or view.shape[i - new] != n else view.strides[i - new]
        for i, n in enumerate(shape)
    ]
    return View(view.root, shape, tuple(strides), view.offset)


def sliced(view: View, starts: Sequence[int], sizes: Any, steps: Any) -> View:
    """Some elements along each axis, from a first one on in steps."""
    offset = view.offset
    for start, stride in zip(starts, view.strides, strict=True):
        offset += start * stride
    strides = tuple([s * t for s, t in zip(view.strides, steps, strict=True)])
    return View(view.root, tuple(sizes), strides, offset)


def from_the_front(start: int, length: int, size: int, step: int) -> int | None:
    """Where a piece of an axis begins, counted from 0; None if it does not lie inside.

    >>> from_the_front(-3, 10, 3, 1), from_the_front(-3, 10, 4, 1)
    (7, None)
    """
    first = start + length if start < 0 else start
    last = first + (size - 1) * step
    inside = 0 <= first < length and 0 <= last < length if size else 0 <= first <= length
    return first if inside else None


def moved(op: Op, source: View, first: Callable[[], Sequence[int] | None]) -> View | None:
    """What a movement of a view is as a view.

    Args:
        first: where a piece begins along each axis, if that is known.

    Returns:
        None for a reshape that has to copy, for a piece at an unknown place, and for what is no
        view of one tensor.
    """
    attributes = op.attributes
    match op.operation.name:
        case "reshape":
            return reshaped(source, attributes["shape"])
        case "permute_dims":
            return permuted(source, attributes["axes"])
        case "broadcast_to":
            return broadcasted(source, attributes["shape"])
        case "slice":
            starts = first()
            if starts is not None:
                return sliced(source, starts, attributes["sizes"], attributes["steps"])
    return None


def is_full(node: Node) -> bool:
    """Whether all elements of a node's result are one number."""
    return node.op.operation.traits.family == "full"


def views_of(graph: Graph) -> Views:
    """The views of a graph's values."""
    views = Views(graph, {})
    views.follow_movement()
    return views


class Views:
    """The views of a graph's values; made by `views_of`.

    Args:
        graph: whose values.
        found: views that are known already.
    """

    def __init__(self, graph: Graph, found: Mapping[int, View]) -> None:
        self._graph = graph
        self._found = dict(found)
        self._after: dict[int, frozenset[int]] = {}
        self._full: set[int] = set()

    def follow_movement(self) -> None:
        """Finds the view of each node that moves elements without computing any."""
        for node in self._graph.nodes:
            if is_full(node):
                self._full.update(node.results)
            if node.op.operation.traits.family == "movement" or node.op.operation is DEPEND:
                view = self._through(node)
                if view is not None:
                    self._found[node.results[0]] = view
                    self._note_order(node)

    def found(self) -> dict[int, View]:
        """The values that are another one's elements, with their views."""
        return {value: view for value, view in self._found.items() if view.root != value}

    def of(self, value: int) -> View:
        """How to find the value's elements."""
        found = self._found.get(value)
        if found is None:
            shape = self._graph.values[value].aval.shape
            found = self._found[value] = View(value, shape, strides_of(shape))
        return found

    def is_view(self, value: int) -> bool:
        """Whether the value is another one's elements."""
        return self.of(value).root != value

    def is_full(self, value: int) -> bool:
        """Whether all elements of a root are one number."""
        return value in self._full

    def after(self, value: int) -> frozenset[int]:
        """The roots that have to be computed before a view is read."""
        return self._after.get(value, frozenset())

    def _note_order(self, node: Node) -> None:
        source, *others = node.args
        before = self.after(source)
        if node.op.operation is DEPEND:
            before |= {self.of(o).root for o in others}.union(*map(self.after, others))
        if before:
            self._after[node.results[0]] = before

    def _through(self, node: Node) -> View | None:
        source = self.of(node.args[0])
        if node.op.operation is DEPEND:
            return source
        return moved(node.op, source, lambda: self._first(node, source.shape))

    def _first(self, node: Node, shape: Sequence[int]) -> list[int] | None:
        """Where a piece begins, if that is known and inside; the operation says what is wrong."""
        sizes, steps = node.op.attributes["sizes"], node.op.attributes["steps"]
        first: list[int] = []
        for axis, value in enumerate(node.args[1:]):
            start = self._graph.values[value]
            if start.kind != "constant":
                return None
            place = from_the_front(start.data, shape[axis], sizes[axis], steps[axis])
            if place is None:
                return None
            first.append(place)
        return first


def axes_by_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The axes of an array from the widest stride to the narrowest; None for C order.

    The order in which elements are visited makes no difference.
    """
    long = [a for a in range(len(shape)) if shape[a] != 1]
    order = sorted(long, key=lambda a: -abs(strides[a]))
    return None if order == long else (*[a for a in range(len(shape)) if shape[a] == 1], *order)
