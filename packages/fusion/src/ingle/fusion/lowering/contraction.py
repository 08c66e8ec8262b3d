"""From a group around a matrix product to the call of a template with an epilogue."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ingle.tensor.operation import Op
from ingle.tensor.ops.convolution.window_products import WINDOW_OUTER

from ..grouping.contraction_loops import MOST_BATCH_AXES, column_stride, row_stride
from ..grouping.group import Group
from ..ir.graph import Graph, Node
from ..ir.merge_axes import merged
from ..ir.regions import PRODUCTS
from ..ir.split_axes import runs, strides_within
from ..ir.views import View, Views, is_full, strides_of
from ..kernel.code import Code, CodeBuilder
from .group_code import GroupCode
from .operands import NOWHERE, Argument, argument_along
from .rounding import code_builder


class Windows(NamedTuple):
    """B as the windows of images, read where these lie.

    At place p and tap t a window sees the element `p * step + t * spread + start` of each image
    axis, or zero where that is not one of the image's. A row of one of the two matrices that B is
    made of is a channel and a tap, in row-major order, the other one is a place.

    Attributes:
        over_places: whether k runs along places, and columns along channels and taps; else k runs
            along channels and taps, and columns along places.
        kernel, places: how many taps and windows there are along each image axis.
        steps, spread, start: see above.
        image: sizes of the image axes.
        channel, strides: in elements, from channel to channel and along the image axes.
        turns: how often k is gone through, with another image each time.
        a_turn, b_turn: elements from turn to turn in A and B.
    """

    over_places: bool
    kernel: tuple[int, ...]
    places: tuple[int, ...]
    steps: tuple[int, ...]
    spread: tuple[int, ...]
    start: tuple[int, ...]
    image: tuple[int, ...]
    channel: int
    strides: tuple[int, ...]
    turns: int = 1
    a_turn: int = 0
    b_turn: int = 0


class ContractionCall(NamedTuple):
    """`out[b, i, j] = epilogue(sum over k of A[b, i, k] * B[b, k, j])`.

    Attributes:
        dtype, b_dtype: of the operands, which are the same but for bytes, signed or not; the sum is
            kept in float32 for half types, and in int32 for bytes.
        batch: sizes of the axes along which there are products, one to three.
        sizes: m, n and k.
        a: A, with its strides along the batch, m and k.
        b: B, with its strides along the batch, k and n; the last two are 0 if it is of windows.
        code: the epilogue: `result` with the value (0, 0) is the sum, `load` k the operand k.
        operands: what the epilogue loads and stores, with strides along the batch, m and n.
        dtypes: the operands' dtypes.
        stores: (operand, instruction) for each output.
        scalars: the values that the epilogue's scalars come from.
        scalar_dtypes: their dtypes.
        nodes: positions of the operations that it computes.
        windows: what B is made of, if it is no matrix in memory.
    """

    dtype: str
    b_dtype: str
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
    windows: Windows | None = None


class _Factors(NamedTuple):
    """The two operands of a product.

    Attributes:
        batch: sizes of the axes along which there are products.
        a_batch, b_batch: strides of both operands along these.
        sizes: m, n and k.
        a, b: strides along m and k, and along k and n.
    """

    batch: tuple[int, ...]
    a_batch: tuple[int, ...]
    b_batch: tuple[int, ...]
    sizes: tuple[int, int, int]
    a: tuple[int, ...]
    b: tuple[int, ...]
    windows: Windows | None = None


class ContractionBuilder(GroupCode):
    """Builds the call of one group of kind `"contraction"`.

    The group is a matrix product, first of its nodes, and maps over its result.
    """

    def __init__(
        self, graph: Graph, views: Views, group: Group, inline: dict[int, int],
        stored: Sequence[int], placed: Mapping[int, View] = NOWHERE,
    ) -> None:  # fmt: skip
        super().__init__(graph, views, group, inline, stored, placed)
        self._product = next(
            p for p in group.nodes if graph.nodes[p].op.operation.traits.family in PRODUCTS
        )
        self._operands: list[Argument] = []
        self._misfits = False

    def build(self) -> ContractionCall | None:
        """The call; None if its loops cannot walk all operands."""
        node = self._graph.nodes[self._product]
        a, b = (self._views.of(v) for v in node.args)
        builder = code_builder()
        ends = [self._emit(builder, v) for v in self._stored]
        outputs = [o for v in self._stored if (o := self._output(v)) is not None]
        if self._misfits or len(outputs) < len(self._stored):
            return None
        self._operands += outputs
        code, roots = builder.finish(*ends)
        count = len(self._operands) - len(self._stored)
        stores = tuple([(count + i, r) for i, r in enumerate(roots)])
        factors = self._factors(node, a, b)
        group = self._group
        rows = [r for o in self._operands if (r := row_stride(group, o.strides)) is not None]
        columns = [c for o in self._operands if (c := column_stride(group, o.strides)) is not None]
        if len(rows) < len(self._operands) or len(columns) < len(self._operands):
            return None
        own = [self._batch_strides(o, row) for o, row in zip(self._operands, rows, strict=True)]
        batch = merged(factors.batch, [factors.a_batch, factors.b_batch, *own])
        if len(batch.sizes) > MOST_BATCH_AXES:
            return None
        steps = [s or (0,) for s in batch.strides]
        return ContractionCall(
            self._dtype(node.args[0]),
            self._dtype(node.args[1]),
            batch.sizes or (1,),
            factors.sizes,
            Argument(a.root, (*steps[0], *factors.a), a.offset),
            Argument(b.root, (*steps[1], *factors.b), b.offset),
            code,
            tuple(
                [
                    o._replace(strides=(*t, row, column))
                    for o, row, column, t in zip(
                        self._operands, rows, columns, steps[2:], strict=True
                    )
                ]
            ),
            tuple([self._dtype(o.root) for o in self._operands]),
            stores,
            tuple(self._scalars),
            tuple([self._dtype(s) for s in self._scalars]),
            tuple(self._group.nodes),
            factors.windows,
        )

    def _factors(self, node: Node, a: View, b: View) -> _Factors:
        """How the operands lie."""
        if node.op.operation.traits.family == "windows":
            return _with_windows(node.op, a, b)
        space, first = self._group.space, self._group.rows[0]
        return _Factors(
            space[:first], self._along_batch(a), self._along_batch(b),
            (a.shape[-2], b.shape[-1], a.shape[-1]), a.strides[-2:], b.strides[-2:],
        )  # fmt: skip

    @property
    def _groups(self) -> int:
        """Independent products that the rows of the result are divided among."""
        attributes = self._graph.nodes[self._product].op.attributes
        groups: int = attributes.get("groups", 1)
        return groups

    def _batch_strides(self, argument: Argument, row: int) -> tuple[int, ...]:
        """Along the batch, and along the groups that rows are divided among."""
        first = self._group.rows[0]
        strides = argument.strides[:first]
        if self._graph.nodes[self._product].op.operation.traits.family != "windows":
            return strides
        return (*strides, row * (self._group.space[first] // self._groups))

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

    def _output(self, value: int) -> Argument | None:
        """Where a value is written: in memory of its own, or as a part of another one.

        Its axes may have another order than the loops. None if it has other elements than these.
        """
        node, space = self._graph.nodes[self._node_of[value]], self._group.space
        shape = self._graph.values[value].aval.shape
        if math.prod(shape) != math.prod(space):
            return None
        if self._node_of[value] == self._product:
            shape = space
        elif node.op.operation.name == "reshape":  # a copy, in the order of what it reads
            shape = self._views.of(node.args[0]).shape
        view = self._placed.get(value) or View(value, shape, strides_of(shape))
        places = self._group.coordinates[value]
        return argument_along(view, places, len(space))._replace(output=True)

    def _known(self, builder: CodeBuilder, value: int) -> int | None:
        if self._node_of[value] != self._product:
            return None
        dtype = self._aval(value).dtype
        wide = "float32" if dtype.itemsize == 2 else dtype.name
        return builder.narrow(builder.append("result", wide, (), (0, 0)), dtype.name)

    def _leading(self, builder: CodeBuilder, position: int) -> list[int]:
        node = self._graph.nodes[position]
        if node.op.operation.traits.kind not in ("creation", "random"):
            return []
        if is_full(node):  # whose elements are one number, wherever they lie
            return [builder.constant(0, "int64")]
        (value,) = node.results
        shape = self._aval(value).shape
        places = self._group.coordinates[value]
        own = View(value, shape, strides_of(shape))
        return [self._place(builder, argument_along(own, places, len(self._group.space)))]

    def _operand(self, user: int, view: View, number: int) -> Argument:
        places = self._group.coordinates[self._graph.nodes[user].results[0]]
        skipped = len(places) - len(view.shape)
        return argument_along(view, places[skipped:], len(self._group.space))

    def _load(self, builder: CodeBuilder, argument: Argument) -> int:
        if argument not in self._operands:
            self._operands.append(argument)
        return builder.load(self._operands.index(argument), self._dtype(argument.root))

    def _steps(self, argument: Argument) -> list[tuple[int, int]]:
        first = self._group.rows[0]
        batch = [a for a, n in enumerate(self._group.space[:first]) if n != 1]
        row = row_stride(self._group, argument.strides)
        column = column_stride(self._group, argument.strides)
        if len(batch) > 1 or self._groups > 1 or row is None or column is None:
            self._misfits = True  # the code that is emitted is of no use
            return []
        return [*[(argument.strides[a], 0) for a in batch], (row, 1), (column, -1)]

    def _number(self, builder: CodeBuilder, value: int) -> int:
        return builder.constant(value, "int64")


def _with_windows(op: Op, a: View, x: View) -> _Factors:
    """The operands of a product with windows."""
    of = op.attributes
    groups: int = of["groups"]
    channels, outer = x.shape[1] // groups, op.operation is WINDOW_OUTER
    taps, places = channels * math.prod(of["kernel"]), math.prod(of["size"])
    turns = (x.shape[0], a.strides[0], x.strides[0]) if outer else (1, 0, 0)
    windows = Windows(
        outer, of["kernel"], of["size"], of["stride"], of["dilation"], of["start"], x.shape[2:],
        x.strides[1], x.strides[2:], *turns,
    )  # fmt: skip
    of_group = x.strides[1] * channels
    if outer:
        rows = a.shape[1] // groups
        return _Factors(
            (groups,), (a.strides[1] * rows,), (of_group,), (rows, taps, places), a.strides[1:],
            (0, 0), windows,
        )  # fmt: skip
    return _Factors(
        (x.shape[0], groups), (0, a.strides[0]), (x.strides[0], of_group),
        (a.shape[1], places, taps), a.strides[1:], (0, 0), windows,
    )  # fmt: skip
