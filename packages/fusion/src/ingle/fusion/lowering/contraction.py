"""From a group around a matrix product to the call of a template with an epilogue."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..grouping.contraction_loops import MOST_BATCH_AXES, row_stride
from ..grouping.groups import Group
from ..ir.graph import Graph
from ..ir.merge_axes import merged
from ..ir.split_axes import runs, strides_within
from ..ir.views import View, Views, strides_of
from ..kernel.code import Code, CodeBuilder
from ..kernel.lowering import lower
from .operands import NOWHERE, Argument, Unnestable, argument_along, number_in
from .rounding import code_builder


class ContractionCall(NamedTuple):
    """`out[b, i, j] = epilogue(sum over k of A[b, i, k] * B[b, k, j])`.

    Attributes:
        dtype: of the operands; the sum is kept in float32 for half types.
        batch: sizes of the axes along which there are products, one to three.
        sizes: m, n and k.
        a: A, with its strides along the batch, m and k.
        b: B, with its strides along the batch, k and n.
        code: the epilogue: `result` with the value (0, 0) is the sum, `load` k the operand k.
        operands: what the epilogue loads and stores, with strides along the batch, m and n.
        dtypes: the operands' dtypes.
        stores: (operand, instruction) for each output.
        scalars: the values that the epilogue's scalars come from.
        scalar_dtypes: their dtypes.
        nodes: positions of the operations that it computes.
    """

    dtype: str
    batch: tuple[int, ...]
    sizes: tuple[int, int, int]
    a: Argument
    b: Argument
    code: Code
    operands: tuple[Argument, ...]
    dtypes: tuple[str, ...]
    stores: tuple[tuple[int, int], ...]
    scalars: tuple[int, ...]
    scalar_dtypes: tuple[str, ...]
    nodes: tuple[int, ...]


class ContractionBuilder:
    """Builds the call of one group of kind `"contraction"`.

    Args:
        graph, views: that the group is of.
        group: a matrix product, first of its nodes, and maps over its result.
        inline: values that are functions of their place alone, with the positions of their nodes.
        stored: the values that others need, in order.
        placed: of these the ones that lie in another value, with where.
    """

    def __init__(
        self, graph: Graph, views: Views, group: Group, inline: dict[int, int],
        stored: Sequence[int], placed: Mapping[int, View] = NOWHERE,
    ) -> None:  # fmt: skip
        self._graph = graph
        self._views = views
        self._group = group
        self._inline = inline
        self._placed = placed
        self._stored = list(stored)
        self._node_of = {r: p for p in group.nodes for r in graph.nodes[p].results}
        self._product = next(
            p for p in group.nodes if graph.nodes[p].op.operation.traits.family == "matmul"
        )
        self._operands: list[Argument] = []
        self._scalars: list[int] = []
        self._memo: dict[int, int] = {}

    def build(self) -> ContractionCall:
        """The call.

        Raises:
            Unnestable: it takes too many axes to walk the batches of all operands.
        """
        node = self._graph.nodes[self._product]
        a, b = (self._views.of(v) for v in node.args)
        space = self._group.space
        builder = code_builder()
        ends = [self._emit(builder, v) for v in self._stored]
        for value in self._stored:
            self._operands.append(self._output(value))
        code, roots = builder.finish(*ends)
        count = len(self._operands) - len(self._stored)
        stores = tuple([(count + i, r) for i, r in enumerate(roots)])
        matrices = [self._along_batch(a), self._along_batch(b)]
        first = self._group.rows[0]
        batch = merged(space[:first], [*matrices, *[o.strides[:first] for o in self._operands]])
        if len(batch.sizes) > MOST_BATCH_AXES:
            raise Unnestable
        steps = [s or (0,) for s in batch.strides]
        return ContractionCall(
            self._dtype(node.args[0]),
            batch.sizes or (1,),
            (a.shape[-2], b.shape[-1], a.shape[-1]),
            Argument(a.root, (*steps[0], *a.strides[-2:]), a.offset),
            Argument(b.root, (*steps[1], *b.strides[-2:]), b.offset),
            code,
            tuple(
                [
                    o._replace(strides=(*t, self._row_stride(o), o.strides[-1]))
                    for o, t in zip(self._operands, steps[2:], strict=True)
                ]
            ),
            tuple([self._dtype(o.root) for o in self._operands]),
            stores,
            tuple(self._scalars),
            tuple([self._dtype(s) for s in self._scalars]),
            tuple(self._group.nodes),
        )

    def _dtype(self, value: int) -> str:
        return self._graph.values[value].aval.dtype.name

    def _along_batch(self, view: View) -> tuple[int, ...]:
        """Strides of a matrix along the batch's loops; 0 where it has no axis or repeats."""
        space = self._group.space[: self._group.rows[0]]
        sizes = self._shape(self._product)[:-2]
        skipped = len(sizes) + 2 - len(view.shape)
        own = zip(view.shape[:-2], view.strides, strict=False)
        strides = (0,) * skipped + tuple([0 if n == 1 else s for n, s in own])
        parts = runs(sizes, space) if sizes else ()
        assert parts is not None, "a group's space has the axes that the batch was split into"
        return strides_within(parts, space, strides)

    def _shape(self, position: int) -> tuple[int, ...]:
        return self._graph.values[self._graph.nodes[position].results[0]].aval.shape

    def _row_stride(self, argument: Argument) -> int:
        """Along the rows of the product, which are walked as one axis.

        Raises:
            Unnestable: it has no such stride.
        """
        stride = row_stride(self._group, argument.strides)
        if stride is None:
            raise Unnestable
        return stride

    def _output(self, value: int) -> Argument:
        """Where a value is written: in memory of its own, or as a part of another one.

        Its axes may have another order than the loops.
        """
        node, space = self._graph.nodes[self._node_of[value]], self._group.space
        shape = self._graph.values[value].aval.shape
        if math.prod(shape) != math.prod(space):
            raise Unnestable
        if self._node_of[value] == self._product:
            shape = space
        elif node.op.operation.name == "reshape":  # a copy, in the order of what it reads
            shape = self._views.of(node.args[0]).shape
        view = self._placed.get(value) or View(value, shape, strides_of(shape))
        places = self._group.coordinates[value]
        return argument_along(view, places, len(space))._replace(output=True)

    def _emit(self, builder: CodeBuilder, value: int) -> int:
        known = self._memo.get(value)
        if known is None:
            known = self._emit_new(builder, value)
            # Rounded here as it is where others read it, or compute it again.
            if value in self._stored or value in self._group.rounded:
                known = builder.settled(known)
            self._memo[value] = known
        return known

    def _emit_new(self, builder: CodeBuilder, value: int) -> int:
        position = self._node_of[value]
        node = self._graph.nodes[position]
        aval = self._graph.values[value].aval
        if position == self._product:
            wide = "float32" if aval.dtype.itemsize == 2 else aval.dtype.name
            return builder.narrow(builder.append("result", wide, (), (0, 0)), aval.dtype.name)
        args = [self._argument(builder, value, a) for a in node.args]
        if node.op.operation.name == "reshape":
            return args[0]
        return lower(node.op, builder, args, aval)

    def _argument(self, builder: CodeBuilder, user: int, value: int) -> int:
        view = self._views.of(value)
        number_at = number_in(builder, self._graph, view.root, self._scalars)
        if number_at is not None:
            return number_at
        if view.root in self._node_of:
            return self._emit(builder, view.root)
        places = self._group.coordinates[user]
        skipped = len(places) - len(view.shape)
        argument = argument_along(view, places[skipped:], len(self._group.space))
        if view.root in self._inline:
            return self._created(builder, user, argument)
        if argument not in self._operands:
            self._operands.append(argument)
        return builder.load(self._operands.index(argument), self._dtype(view.root))

    def _created(self, builder: CodeBuilder, user: int, argument: Argument) -> int:
        """A value that is a function of its place, which follows from the loops' indices."""
        node = self._graph.nodes[self._inline[argument.root]]
        args = [self._argument(builder, user, a) for a in node.args]
        args.insert(0, self._place(builder, argument))
        return lower(node.op, builder, args, self._graph.values[argument.root].aval)

    def _place(self, builder: CodeBuilder, argument: Argument) -> int:
        """The index of an element in C order, from the indices of the batch, the row and column."""
        first = self._group.rows[0]
        batch = [a for a, n in enumerate(self._group.space[:first]) if n != 1]
        if len(batch) > 1:
            raise Unnestable
        steps = [*[(argument.strides[a], 0) for a in batch], (self._row_stride(argument), 1)]
        flat = builder.constant(argument.offset, "int64")
        for step_of, index in [*steps, (argument.strides[-1], -1)]:
            if step_of:
                at = builder.append("index", "int64", (), index)
                step = builder.constant(step_of, "int64")
                part = builder.append("mul", "int64", (at, step))
                flat = builder.append("add", "int64", (flat, part))
        return flat
