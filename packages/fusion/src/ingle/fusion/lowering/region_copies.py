"""Kernels that put a result together from pieces, and pieces that are made where they belong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ingle.tensor.operation import Op
from ingle.tensor.ops.convolution.window_products import WINDOW_DOT

from ..grouping.contraction_loops import can_write
from ..grouping.groups import Grouping
from ..grouping.node_class import Role
from ..ir.graph import Graph
from ..ir.merge_axes import lane_of, merged
from ..ir.regions import Region, regions_of
from ..ir.views import View, Views, is_full, reshaped, sliced, strides_of
from ..kernel.code import SIZES, CodeBuilder
from ..kernel.lowering import extends_rows, is_fold, lower, scan_of, sort_of
from ..kernel.nest import MAX_OUTER, Map, Nest, Operand, Row, Stage
from .extending import extend_call
from .folding import dots_call, fold_call, writes
from .nest_draft import NestDraft
from .nests import NestCall
from .operands import Argument, number_in
from .row_lengths import short_length, with_strides
from .scan import scan_call
from .sort_network import sorting_call

LARGE = 1 << 15
"""Elements from which on a copy to a computed place has an axis that workers can share."""


def placements(
    graph: Graph, views: Views, roles: Sequence[Role], grouping: Grouping
) -> dict[int, View]:
    """Values that are computed as parts of another one, with where they lie in it.

    That is what kernels make for a single result that is put together from pieces, where nothing
    is written over it before it is read.
    """
    users: dict[int, set[int]] = {}
    for position, node in enumerate(graph.nodes):
        if roles[position] != "view":
            for value in node.args:
                users.setdefault(views.of(value).root, set()).add(position)
    outputs = {views.of(o).root for o in graph.outputs}
    found: dict[int, View] = {}
    for position in reversed([p for p, role in enumerate(roles) if role == "assembly"]):
        node = graph.nodes[position]
        roots = Counter([views.of(a).root for a in node.args])
        for source, target in _parts(graph, views, position, home(graph, found, node.results[0])):
            root = source.root
            alone = users[root] == {position} and roots[root] == 1 and root not in outputs
            maker = grouping.producer(root)
            if alone and maker is not None and source.contiguous:
                place = _place(graph, roles, grouping, source, target)
                if place is not None:
                    found[root] = place
    return found


def home(graph: Graph, placed: Mapping[int, View], value: int) -> View:
    """Where a value lies: as a part of another one, or in memory of its own."""
    shape = graph.values[value].aval.shape
    return placed.get(value) or View(value, shape, strides_of(shape))


def _parts(graph: Graph, views: Views, position: int, whole: View) -> Sequence[Region]:
    """Pieces whose places nobody else has written before."""
    regions = regions_of(graph, views, position, whole)
    if regions is not None and regions.disjoint:
        return regions.ordered
    node = graph.nodes[position]
    # What is written into comes first; others have nothing but places that they read.
    reads = node.op.operation.traits.access not in ("scatter", "update")
    return [] if reads else [Region(views.of(node.args[0]), whole)]


def _place(
    graph: Graph, roles: Sequence[Role], grouping: Grouping, source: View, target: View
) -> View | None:
    """Where the root of a source lies, if its maker can write it as its target lies."""
    maker = grouping.producer(source.root)
    assert maker is not None
    shape = grouping.places.walked(source.root)
    position = next(p for p in maker.nodes if source.root in graph.nodes[p].results)
    known = maker.kind != "host" and roles[position] != "columns"
    same = math.prod(source.shape) == math.prod(shape)
    place = reshaped(target, shape) if known and same else None
    if place is None:
        return None
    if maker.kind == "contraction":
        return place if can_write(maker, source.root, place) else None
    op = graph.nodes[position].op
    if extends_rows(op):
        return place if place.strides[-1] == 1 else None
    return place if not is_fold(op) or writes(op, place) else None


def in_memory(graph: Graph, views: Views, position: int, inline: Mapping[int, int]) -> list[int]:
    """What an operation on pieces takes that cannot be computed in its kernels.

    Elements that are all one number can, where the kernel iterates over all of them. Indices of a
    scatter say where its rows begin, which a kernel reads.
    """
    node = graph.nodes[position]
    roots = [views.of(a).root for a in node.args]
    access = node.op.operation.traits.access
    whole = is_fold(node.op) or extends_rows(node.op)
    read = 0 if access == "slice" else 1 if access == "scatter" else None
    return [
        root
        for number, root in enumerate(roots)
        if root in inline and (whole or number == read or not is_full(graph.nodes[inline[root]]))
    ]


class Assembler:
    """Makes the kernels of operations on pieces.

    Args:
        graph, views: that the operations are of.
        inline: values that are computed wherever they are needed, with the positions of their
            nodes.
        placed: values that lie in results already.
    """

    def __init__(
        self, graph: Graph, views: Views, inline: Mapping[int, int], placed: Mapping[int, View]
    ) -> None:
        self._graph = graph
        self._views = views
        self._inline = inline
        self._placed = placed

    def calls(self, position: int) -> list[NestCall] | None:
        """The kernels of one operation, in order; None if one takes too many loops."""
        made = self._each_call(position)
        calls = [call for call in made if call is not None]
        return calls if len(calls) == len(made) else None

    def _each_call(self, position: int) -> list[NestCall | None]:
        node = self._graph.nodes[position]
        access, (result,) = node.op.operation.traits.access, node.results
        whole = home(self._graph, self._placed, result)
        x = self._views.of(node.args[0])
        sorts = sort_of(node.op) is not None
        if sorts:
            return [sorting_call(self._graph, position, x, whole, self._number)]
        if scan_of(node.op) is not None:
            taken = [self._views.of(a) for a in node.args]
            return [scan_call(self._graph, position, taken, whole, self._number)]
        if node.op.operation is WINDOW_DOT:
            image = self._views.of(node.args[1])
            return [dots_call(self._graph, position, x, image, whole)]
        if is_fold(node.op):
            factors = self._views.of(node.args[1]) if len(node.args) > 1 else None
            return [fold_call(self._graph, position, x, factors, whole)]
        if extends_rows(node.op):
            return [extend_call(self._graph, position, x, whole)]
        if access == "slice":
            return [self._copy(position, _stepped(x, whole.shape, node.op), whole, moves=x)]
        if access == "scatter":
            return [*self._copies(position, [Region(x, whole)]), self._scatter(position, whole)]
        regions = regions_of(self._graph, self._views, position, whole)
        if regions is not None:
            return self._copies(position, regions.ordered)
        y = self._views.of(node.args[1])
        target = _stepped(whole, y.shape, node.op)
        update = self._copy(position, y, target, moves=whole)
        return [*self._copies(position, [Region(x, whole)]), update]

    def _copies(self, position: int, regions: Sequence[Region]) -> list[NestCall | None]:
        """Kernels for the pieces that do not lie in their places from the start."""
        return [
            self._copy(position, source, target)
            for source, target in regions
            if source.root not in self._placed
        ]

    def _number(self, builder: CodeBuilder, value: int, scalars: list[int]) -> int | None:
        """The instruction of a number, or of one that fills a tensor; None for other values."""
        known = number_in(builder, self._graph, value, scalars)
        if known is None and value in self._inline:
            node = self._graph.nodes[self._inline[value]]
            number = number_in(builder, self._graph, node.args[0], scalars)
            assert number is not None, "what is inline is made of numbers"
            nowhere = builder.constant(0, "int64")
            return lower(node.op, builder, [nowhere, number], self._graph.values[value].aval)
        return known

    def _dtype(self, value: int) -> str:
        return self._graph.values[value].aval.dtype.name

    def _copy(
        self, position: int, source: View, target: View, moves: View | None = None
    ) -> NestCall | None:
        """A kernel that copies elements.

        Args:
            moves: a part of which the node's starts choose; it is that of source or target.
        """
        builder, scalars = CodeBuilder(), list[int]()
        number = self._number(builder, source.root, scalars)
        dtype = self._dtype(target.root)
        arguments = [Argument(target.root, target.strides, target.offset, True)]
        if number is None:
            dtype = f"uint{8 * SIZES[dtype]}"
            arguments.insert(0, Argument(source.root, source.strides, source.offset))
            number = builder.load(0, dtype)
        sizes, strides = _loops(target.shape, [a.strides for a in arguments], moves is not None)
        code, (root,) = builder.finish(number)
        draft = NestDraft(sizes, arguments, strides, [dtype] * len(arguments), scalars)
        draft.stages.append(Map(code, ((len(arguments) - 1, root),)))
        if moves is not None:
            roots = [a.root for a in arguments]
            if moves.root in roots:  # elements of a number are all the same
                self._begin(position, draft, roots.index(moves.root), moves, target.shape)
        return self._call(position, draft)

    def _begin(
        self, position: int, draft: NestDraft, moved: int, whole: View, sizes: Sequence[int]
    ) -> None:
        """Has rows of an operand begin where the node's starts say.

        Args:
            draft: of the kernel.
            moved: the number of the operand.
            whole: what the starts count in.
            sizes: of the piece.
        """
        op, args = self._graph.nodes[position].op, self._graph.nodes[position].args
        row, offset, found = CodeBuilder(), draft.arguments[moved].offset, list[_Start]()
        each = zip(args[op.operation.traits.starts :], whole.shape, sizes,
                   op.attributes["steps"], whole.strides, strict=True)  # fmt: skip
        for value, length, size, step, stride in each:
            start, reach = self._graph.values[value], (size - 1) * step
            low, high = max(0, -reach), length - 1 - max(0, reach)
            if start.kind == "constant":
                first = start.data + (length if start.data < 0 else 0)
                offset += min(max(first, low), high) * stride
                continue
            at = self._number(row, value, draft.scalars)
            if at is None:
                at = draft.load(row, self._views.of(value), start.aval.dtype.name)
            found.append(_Start(row.cast(at, "int64"), length, low, high, stride))
        place = row.constant(0, "int64")
        for start_at in found:
            at = draft.within(row, *start_at[:4])
            step_at = draft.number(row, start_at.stride)
            part = row.append("mul", "int64", (at, step_at))
            place = row.append("add", "int64", (place, part))
        draft.arguments[moved] = draft.arguments[moved]._replace(offset=offset)
        draft.begin(row, place, moved)

    def _scatter(self, position: int, whole: View) -> NestCall | None:
        """A kernel that iterates over the rows of updates."""
        node = self._graph.nodes[position]
        axis = node.op.attributes["axis"]
        indices, updates = self._views.of(node.args[1]), self._views.of(node.args[2])
        combine = _combine(node.op)
        sizes, strides = _rows(axis, whole, indices, updates)
        builder, scalars, dtype = CodeBuilder(), list[int](), self._dtype(whole.root)
        update = self._number(builder, updates.root, scalars)
        arguments = [Argument(whole.root, (), whole.offset, True)]
        if update is None:
            if combine is None:
                dtype = f"uint{8 * SIZES[dtype]}"
            arguments.append(Argument(updates.root, (), updates.offset))
            update = builder.load(1, dtype)
        draft = NestDraft(
            sizes, arguments, strides[: len(arguments)], [dtype] * len(arguments), scalars
        )
        if combine is not None:
            both = builder.widen(builder.load(0, dtype)), builder.widen(update)
            update = builder.narrow(builder.append(combine, builder.dtype(both[0]), both), dtype)
        code, (root,) = builder.finish(update)
        draft.stages.append(Map(code, ((0, root),)))
        row = CodeBuilder()
        at = draft.load(row, indices, self._dtype(indices.root), strides[2])
        length, stride = whole.shape[axis], whole.strides[axis]
        at = draft.within(row, row.cast(at, "int64"), length, 0, length - 1)
        draft.begin(row, row.append("mul", "int64", (at, draft.number(row, stride))), 0)
        return self._call(position, draft, scattered=True)

    def _call(self, position: int, draft: NestDraft, scattered: bool = False) -> NestCall | None:
        sizes, outer = draft.sizes, len(draft.sizes) - 1
        if outer > MAX_OUTER:
            return None
        operands = []
        for k, (argument, steps) in enumerate(zip(draft.arguments, draft.strides, strict=True)):
            row_base = 0 if k == draft.moved else None
            lane = lane_of(steps[-1])
            operands.append(Operand(draft.dtypes[k], argument.output, lane, row_base))
        nest = Nest(
            outer,
            tuple(operands),
            (*map(self._dtype, draft.scalars), *["int64"] * len(draft.fixed)),
            tuple(draft.stages),
            row_length=short_length(sizes[-1]) if outer else 0,
            scattered=scattered,
        )
        nest = with_strides(nest, draft.strides)
        if outer and sizes[-1] == 1:  # one element a row needs no lanes
            nest = nest._replace(stages=tuple(map(_once, nest.stages)), row_length=0)
        both = zip(draft.arguments, draft.strides, strict=True)
        return NestCall(
            nest, tuple([a._replace(strides=s) for a, s in both]), sizes, tuple(draft.strides),
            tuple(draft.scalars), (position,), tuple(draft.fixed),
        )  # fmt: skip


def _combine(op: Op) -> str | None:
    """The instruction of what is there already and an update; None where that takes its place.

    Half types come here for the extremes only, where nothing is rounded.
    """
    match op.operation.traits.updates:
        case "extremum":
            return "max" if op.attributes["largest"] else "min"
        case "add":
            return "add"
        case "prod":
            return "mul"
    return None


class _Start(NamedTuple):
    """Where a piece begins along an axis: an instruction, its limits, the axis."""

    at: int
    length: int
    low: int
    high: int
    stride: int


def _once(stage: Stage) -> Stage:
    return Row(stage.code, stage.stores) if isinstance(stage, Map) else stage


def _stepped(whole: View, sizes: tuple[int, ...], op: Op) -> View:
    """A piece with an operation's steps that begins at the first element."""
    return sliced(whole, (0,) * len(sizes), sizes, op.attributes["steps"])


def _loops(
    shape: Sequence[int], strides: Sequence[Sequence[int]], shared: bool
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """As few loops as possible; `shared` ones of many elements have an outer one.

    Along an axis of one element any stride will do: operands count as dense there.
    """
    first = 1 if shared and len(shape) > 1 and math.prod(shape) >= LARGE else 0
    axes = merged(shape[first:], [s[first:] for s in strides])
    sizes = (*shape[:first], *(axes.sizes or (1,)))
    both = zip(strides, axes.strides, strict=True)
    return sizes, [(*s[:first], *(a or (1,))) for s, a in both]


def _rows(
    axis: int, whole: View, indices: View, updates: View
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Loops of a scatter, and strides of the result, the updates and the indices along them.

    Axis 0 counts the elements on which a row can begin; the others go over the updates.
    """
    count = len(indices.shape)
    cut, none = axis + count, (0,) * count
    every = [
        (*whole.strides[:axis], *none, *whole.strides[axis + 1 :]),
        updates.strides,
        (*(0,) * axis, *indices.strides, *(0,) * (len(whole.shape) - axis - 1)),
    ]
    rows = merged(updates.shape[:cut], [s[:cut] for s in every])
    along = merged(updates.shape[cut:], [s[cut:] for s in every])
    last = (whole.shape[axis] - 1) * whole.strides[axis]
    sizes = (last + 1, *rows.sizes, *(along.sizes or (1,)))
    each = zip(rows.strides, along.strides, (1, 1, 0), strict=True)
    return sizes, [(0, *a, *(b or (alone,))) for a, b, alone in each]
