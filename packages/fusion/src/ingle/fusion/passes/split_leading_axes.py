"""Rows that are made of several axes: what is done on them is done on these axes.

A product of a batch of sequences is one on `(batch * time, features)`, and what stands around it is
on `(batch, time, features)`. Elementwise operations, reductions and lookups on such rows are the
same on the axes that the rows are made of, and then the reshape in between is gone, which would
keep them apart: kernels have loops along axes. Loops along both run as one again where strides
allow it.

An axis can always be split by strides, other than axes merged. So it is rows that are split, with
everything that hangs together by them, up to products and what else takes rows as they are.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from ingle.tensor.operation import OPERATIONS, Op

from ..ir.graph import Graph, Node
from ..ir.reduction_axes import folded_axes
from ..ir.regions import PRODUCTS
from ..ir.views import views_of
from ..kernel.lowering import reduction_of
from ..support.time_slices import tick

Lead: TypeAlias = "tuple[int, ...]"
"""The sizes of the axes that rows are made of."""


class ReshapeBoundary(NamedTuple):
    """A reshape that makes rows of axes, or axes of rows.

    Attributes:
        rows: the value with rows.
        axes: the same with axes in their place.
        lead: the sizes of these.
    """

    rows: int
    axes: int
    lead: Lead


def with_split_rows(graph: Graph) -> Graph:
    """The graph, with operations on rows done on the axes that their neighbours have for rows.

    Args:
        graph: with composites expanded.
    """
    leads = _Spread(graph).leads()
    return _Rewriting(graph, leads).run() if leads else graph


def rows_of(graph: Graph, node: Node) -> tuple[int, ...] | None:
    """Which operands of a node have the rows of its work along their first axis.

    None for what cannot be done on the axes that rows are made of.
    """
    op, shapes = node.op, [graph.values[v].aval.shape for v in (*node.args, *node.results)]
    first, out = shapes[0] if node.args else (), shapes[-1]
    name, traits = op.operation.name, op.operation.traits
    if len(node.results) != 1 or traits.dynamic_shape:
        return None
    if traits.kind == "elementwise" or name == "broadcast_to":
        like = [len(s) == len(out) > 0 and s[0] == out[0] for s in shapes[:-1]]
        return tuple([i for i, alike in enumerate(like) if alike])
    if not first or (not out and reduction_of(op) is None):
        return None
    if name == "reshape":
        return (0,) if first[0] == out[0] else None
    if name == "permute_dims":
        return (0,) if op.attributes["axes"][0] == 0 else None
    if reduction_of(op) is not None:
        of_one_axis = reduction_of(op) in ("argmax", "argmin", "totals")
        return None if of_one_axis and 0 in folded_axes(op, len(first)) else (0,)
    if traits.access == "rows":
        return (0,) if op.attributes["axis"] > 0 else (1,) if shapes[1] else None
    if traits.access == "along":
        return (0, 1) if op.attributes["axis"] > 0 and shapes[1][0] == first[0] else None
    return None


def _keeps_rows(node: Node, count: int) -> bool:
    """Whether a node's result has rows; `count` is the number of its operand's axes."""
    return reduction_of(node.op) is None or 0 not in folded_axes(node.op, count)


class _Spread:
    """Which rows are split, and into what: those at kernels' boundaries, and what joins them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._users = graph.users()
        self._maker = {r: node for node in graph.nodes for r in node.results}

    def leads(self) -> dict[int, Lead]:
        """For values with rows that are split the axes in their place."""
        found: dict[int, Lead] = {}
        for boundary in self._boundaries():
            if self._parts_kernels(boundary):
                waiting = deque([boundary.rows])
                while waiting:
                    value = waiting.popleft()
                    if value not in found:
                        found[value] = boundary.lead
                        waiting.extend(self._beside(value))
        return found

    def _shape(self, value: int) -> tuple[int, ...]:
        return self._graph.values[value].aval.shape

    def _boundaries(self) -> Iterator[ReshapeBoundary]:
        for node in self._graph.nodes:
            if node.op.operation.name != "reshape":
                continue
            pair = (node.args[0], node.results[0])
            rows, axes = sorted(pair, key=lambda v: len(self._shape(v)))
            lead = self._lead(self._shape(rows), self._shape(axes))
            if lead is not None:
                yield ReshapeBoundary(rows, axes, lead)

    def _lead(self, rows: Sequence[int], axes: Sequence[int]) -> Lead | None:
        """The axes that stand for rows; None where it is not that by which two shapes differ."""
        count = len(axes) - len(rows) + 1
        if count < 2 or not rows or tuple(axes[count:]) != tuple(rows[1:]):
            return None
        lead = tuple(axes[:count])
        split = sum([n != 1 for n in lead]) > 1 and math.prod(lead) == rows[0]
        return lead if split and 0 not in axes else None

    def _parts_kernels(self, boundary: ReshapeBoundary) -> bool:
        """Whether one side of a boundary would be computed where the other one is."""
        for source, target in ((boundary.rows, boundary.axes), (boundary.axes, boundary.rows)):
            reshapes = self._maker.get(target)
            if reshapes is None or reshapes.args != (source,):
                continue
            maker = self._maker.get(source)
            users = [self._graph.nodes[p] for p in self._users.get(target, ())]
            return maker is not None and _computes(maker) and any(map(_computes, users))
        return False

    def _beside(self, value: int) -> Iterator[int]:
        """The values whose rows are split along with a value's."""
        maker = self._maker.get(value)
        if maker is not None:
            users = [self._graph.nodes[p] for p in self._users.get(value, ())]
            for node in (maker, *users):
                rows = self._rows(node)
                if value in rows:  # else its first axis is another one, such as after a sum
                    yield from rows

    def _rows(self, node: Node) -> list[int]:
        """The operands and the result of a node that have its rows, if it can be split."""
        operands = rows_of(self._graph, node)
        if not operands:
            return []
        found = [node.args[n] for n in operands]
        if _keeps_rows(node, len(self._shape(node.args[0]))):
            found.extend(node.results)
        return found


def _computes(node: Node) -> bool:
    """Whether a node's work can stand in a kernel beside other work."""
    traits = node.op.operation.traits
    return (
        traits.kind == "elementwise"
        or traits.family in PRODUCTS | {"gather"}
        or (reduction_of(node.op) is not None)
    )


class _Rewriting:
    """Writes a graph anew with some rows split; reshapes come where somebody needs the other."""

    def __init__(self, graph: Graph, leads: dict[int, Lead]) -> None:
        self._graph = graph
        self._views = views_of(graph)
        self._leads = leads
        self._maker = {r: node for node in graph.nodes for r in node.results}
        self._new, self._place = graph.emptied()
        self._split: dict[int, int] = {}

    def run(self) -> Graph:
        """The new graph."""
        for node in self._graph.nodes:
            tick("splitting rows", 4)
            if self._is_split(node):
                self._write_split(node)
            elif not self._waits(node):
                self._write(node)
        self._new.outputs = tuple([self._whole(o) for o in self._graph.outputs])
        return self._new

    def _shape(self, value: int) -> tuple[int, ...]:
        return self._graph.values[value].aval.shape

    def _is_split(self, node: Node) -> bool:
        operands = rows_of(self._graph, node)
        return bool(operands) and self._anchor(node, operands or ()) in self._leads

    def _anchor(self, node: Node, operands: Sequence[int]) -> int:
        """The value whose axes a node gets: its result, if that has rows."""
        kept = _keeps_rows(node, len(self._shape(node.args[0])))
        return node.results[0] if kept else node.args[operands[0]]

    def _waits(self, node: Node) -> bool:
        """Whether a node is a reshape that nobody may need."""
        if node.op.operation.name != "reshape":
            return False
        (source,), (value,) = node.args, node.results
        split = self._split.get(source)
        if split is not None and self._new.values[split].aval.shape == self._shape(value):
            self._place[value] = split
            return True
        return value in self._leads and self._views.is_view(value)

    def _write(self, node: Node) -> None:
        args = [self._whole(a) for a in node.args]
        avals = [self._graph.values[r].aval for r in node.results]
        self._place.update(zip(node.results, self._new.append(node.op, args, avals), strict=True))

    def _whole(self, value: int) -> int:
        """A value as it was."""
        known = self._place.get(value)
        if known is None:
            if value in self._split:
                known = self._reshaped(self._split[value], self._shape(value))
            else:  # a reshape that somebody needs
                known = self._reshaped(self._whole(self._maker[value].args[0]), self._shape(value))
            self._place[value] = known
        return known

    def _with_axes(self, value: int, lead: Lead) -> int:
        """A value with axes in place of its rows."""
        shape = (*lead, *self._shape(value)[1:])
        known = self._split.get(value)
        if known is not None and self._new.values[known].aval.shape == shape:
            return known
        before = self._before_reshape(value)
        if before is not None and self._shape(before) == shape:
            found = self._whole(before)
        else:
            found = self._reshaped(self._whole(value), shape)
        self._split.setdefault(value, found)
        return found

    def _before_reshape(self, value: int) -> int | None:
        """What a value is a reshape of that moves nothing."""
        maker = self._maker.get(value)
        if maker is None or maker.op.operation.name != "reshape" or not self._views.is_view(value):
            return None
        return maker.args[0]

    def _reshaped(self, value: int, shape: tuple[int, ...]) -> int:
        return self._new.node(OPERATIONS["reshape"].op(shape=shape), (value,))[0]

    def _write_split(self, node: Node) -> None:
        operands = rows_of(self._graph, node) or ()
        lead = self._leads[self._anchor(node, operands)]
        args = [
            self._with_axes(a, lead) if n in operands else self._whole(a)
            for n, a in enumerate(node.args)
        ]
        count = len(self._shape(node.args[0]))
        made = self._new.node(self._op(node.op, lead, count), args)[0]
        (value,) = node.results
        if _keeps_rows(node, count):
            self._split[value] = made
        elif self._new.values[made].aval.shape != self._shape(value):
            self._place[value] = self._reshaped(made, self._shape(value))
        else:
            self._place[value] = made

    def _op(self, op: Op, lead: Lead, count: int) -> Op:
        """An operation on axes in place of rows; `count` is how many axes its operand had."""
        more = len(lead) - 1
        attributes = dict(op.attributes)
        if "shape" in attributes:
            attributes["shape"] = (*lead, *attributes["shape"][1:])
        if "axes" in attributes:
            attributes["axes"] = (*range(more), *[a + more for a in attributes["axes"]])
        if reduction_of(op) is not None and attributes["axis"] is not None:
            axes = [a + more for a in folded_axes(op, count) if a != 0]
            first = range(len(lead)) if 0 in folded_axes(op, count) else ()
            one = not isinstance(attributes["axis"], tuple) and len(axes) == 1
            attributes["axis"] = axes[0] if one else (*first, *axes)
        elif attributes.get("axis"):
            attributes["axis"] += more
        return op.operation.op(**attributes)
