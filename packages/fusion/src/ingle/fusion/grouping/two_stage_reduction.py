"""Sums over rows in kernels that work row by row: a first step there, a second one behind it.

The gradient of a layer norm's weight is a sum over rows of what the kernel of its input's gradient
computes anyway. Such a sum becomes two operations: `block_sums` makes a row of sums for each
`BLOCK` rows, and `totals` adds these up. Both together add in the order in which the sum alone
would.

On a device that makes all long sums in pieces (`split_sums`), the sum of each piece is a
`block_sums` where its kernels add beside rows; so is that of what such a kernel only reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ingle.tensor.contract import Aval
from ingle.tensor.operation import OPERATIONS, Op, Operation, Traits

from ..ir.graph import Graph, Node
from ..ir.views import Views, long_axes
from ..kernel.code import HALVES
from ..kernel.lowering import reduction_of
from ..kernel.nest import BLOCK

if TYPE_CHECKING:
    from .group import Group
    from .groups import Grouping
    from .legality import Kernels

FEWEST_ROWS, FEWEST_COLUMNS = 4 * BLOCK, 16
"""Sums over fewer rows, and rows that are shorter, are better left to a kernel of their own."""


def _block_sums_rule(x: Aval, *, kept: int) -> Aval:
    first = len(x.shape) - kept
    blocks = -(-math.prod(x.shape[:first]) // BLOCK)
    return Aval((blocks, *x.shape[first:]), x.dtype)


def _totals_rule(x: Aval, *, axis: int) -> Aval:
    return Aval(x.shape[:axis] + x.shape[axis + 1 :], x.dtype)


BLOCK_SUMS = Operation(
    "block_sums",
    tensors=("x",),
    statics=("kept",),
    rule=_block_sums_rule,
    traits=Traits("reduction", family="reduce"),
)
"""The sums over each `BLOCK` rows, which all axes but the last `kept` ones count."""
TOTALS = Operation(
    "totals",
    tensors=("x",),
    statics=("axis",),
    rule=_totals_rule,
    traits=Traits("reduction", family="reduce"),
)
"""The sum of what `BLOCK_SUMS` gave."""


def is_columns(node: Node) -> bool:
    """Whether a node sums over blocks of rows."""
    return node.op.operation is BLOCK_SUMS


def kept_axes(graph: Graph, position: int) -> frozenset[int]:
    """The axes along a row of what a `block_sums` takes; those of size 1 do not count."""
    node = graph.nodes[position]
    shape = graph.values[node.args[0]].aval.shape
    first = len(shape) - node.op.attributes["kept"]
    return _from(first, shape)


def _from(first: int, shape: tuple[int, ...]) -> frozenset[int]:
    """The axes from one on; those of size 1 do not count."""
    return frozenset(a for a in range(first, len(shape)) if shape[a] != 1)


def sums_in_two_steps(graph: Graph, views: Views, grouping: Grouping, device: Kernels) -> list[int]:
    """The positions of sums over rows whose operand a kernel computes, or reads, that goes by rows.

    Args:
        graph: with composites expanded.
        views: of its values.
        grouping: of its nodes, as they are.
        device: says how many sums its kernels add beside rows.
    """
    found = [p for p in range(len(graph.nodes)) if _is_chosen(graph, views, grouping, p)]
    beside: dict[Group, int] = {}
    most = {folds: _most_beside(device, folds) for folds in (False, True)}
    if not device.splits_sums:
        return found
    for position, rows in pieces_of_rows(graph).items():
        group = _row_group(graph, grouping, rows)
        if group is not None:
            shape = graph.values[rows.value].aval.shape
            count, limit = beside.get(group, 0), most[group.inner is not None]
            if limit is not None and count < limit(math.prod(shape[:-1]), shape[-1]):
                beside[group] = count + 1
                found.append(position)
    return sorted(found)


def _most_beside(device: Kernels, folds: bool) -> Callable[[int, int], int] | None:
    """How many sums a device's kernels add beside rows, by how many of these and of columns there
    are: kernels that fold each row, or go by places alone."""
    return getattr(device, "sums_beside_rows" if folds else "sums_beside_maps", None)


class SummedRows(NamedTuple):
    """What a sum of blocks of rows takes, before it was seen as blocks.

    Attributes:
        value: whose last axis is a row's.
        cast: to float32, where it is of a half type.
    """

    value: int
    cast: Op | None = None


def pieces_of_rows(graph: Graph) -> dict[int, SummedRows]:
    """The positions of sums of blocks of `BLOCK` rows, and what they sum."""
    maker = {node.results[0]: node for node in graph.nodes}
    users: dict[int, list[int]] | None = None
    found: dict[int, SummedRows] = {}
    for position, node in enumerate(graph.nodes):
        if reduction_of(node.op) != "sum" or node.op.attributes["axis"] != (1,):
            continue
        pieces, dtype = graph.values[node.args[0]].aval
        if node.op.attributes["keepdims"] or dtype.name != "float32" or len(pieces) != 3:
            continue
        if pieces[1] == BLOCK and pieces[2] != 1:
            users = users or graph.users()
            found[position] = _rows_of(graph, maker, users, node.args[0])
    return found


def _rows_of(
    graph: Graph, maker: Mapping[int, Node], users: Mapping[int, Sequence[int]], value: int
) -> SummedRows:
    """What a sum takes before it was widened and seen as blocks of rows, for the sum alone."""
    cast, node = None, maker.get(value)
    if node is not None and _widens(graph, node) and len(users[value]) == 1:
        value, cast = node.args[0], node.op
    seen = [value]
    while (node := maker.get(seen[-1])) is not None and node.op.operation.name == "reshape":
        shape, before = (graph.values[v].aval.shape for v in (seen[-1], node.args[0]))
        if len(users[value]) > 1 or len(before) < 2 or before[-1] != shape[-1]:
            break
        seen.append(node.args[0])
    for value in seen[1:]:  # the shape in which something else computes with it
        if any(graph.nodes[p].op.operation.traits.kind == "elementwise" for p in users[value]):
            return SummedRows(value, cast)
    return SummedRows(seen[-1], cast)


def _widens(graph: Graph, node: Node) -> bool:
    """Whether a node has halves as float32."""
    converts = node.op.operation.traits.laws.converts
    return converts and graph.values[node.args[0]].aval.dtype.name in HALVES


def _row_group(graph: Graph, grouping: Grouping, rows: SummedRows) -> Group | None:
    """The group that has a value at hand where its loops stand and folds rows, or goes by places
    alone."""
    shape = graph.values[rows.value].aval.shape
    inner = _from(len(shape) - 1, shape)
    for group in grouping.groups_at(rows.value):
        if (group.lanes, group.inner) in (("inner", inner), (None, None)):
            return group
    return None


def in_two_steps(graph: Graph, chosen: Sequence[int]) -> Graph:
    """The graph with some sums over rows in two steps.

    Those of pieces come as late as they can, when the group is there that they join.
    """
    sums = set(chosen)
    pieces = {p: v for p, v in pieces_of_rows(graph).items() if p in sums}
    late: dict[int, SummedRows] = {}
    wide: dict[tuple[int, Op], int] = {}
    new, place = graph.emptied()

    def there(values: Sequence[int]) -> tuple[int, ...]:
        for value in values:
            if value not in place:
                rows = late.pop(value)
                (given,) = there((rows.value,))
                if rows.cast is not None:
                    known = wide.get((given, rows.cast))
                    given = new.node(rows.cast, (given,))[0] if known is None else known
                (place[value],) = new.node(BLOCK_SUMS.op(kept=1), (given,))
        return tuple([place[v] for v in values])

    for position, node in enumerate(graph.nodes):
        if position in pieces:
            late[node.results[0]] = pieces[position]
            continue
        args = there(node.args)
        if position in sums:
            blocks = new.node(BLOCK_SUMS.op(kept=_kept(graph, node)), args)
            made = new.node(TOTALS.op(axis=0), blocks)
            shape = graph.values[node.results[0]].aval.shape
            if new.values[made[0]].aval.shape != shape:
                made = new.node(OPERATIONS["reshape"].op(shape=shape), made)
        else:
            made = new.append(node.op, args, [graph.values[r].aval for r in node.results])
            if node.op.operation.traits.laws.converts:
                wide[args[0], node.op] = made[0]
        place.update(zip(node.results, made, strict=True))
    new.outputs = there(graph.outputs)
    return new


def _kept(graph: Graph, node: Node) -> int:
    """How many of the last axes a sum keeps."""
    count = len(graph.values[node.args[0]].aval.shape)
    axes = node.op.attributes["axis"]
    return 0 if axes is None else count - len(axes)


def _is_chosen(graph: Graph, views: Views, grouping: Grouping, position: int) -> bool:
    node = graph.nodes[position]
    if reduction_of(node.op) != "sum":
        return False
    (value,) = node.args
    shape, dtype = graph.values[value].aval
    axes = node.op.attributes["axis"]
    kept = _kept(graph, node)
    folded = len(shape) - kept
    if axes != tuple(range(folded)) or dtype.name not in ("float32", "float64"):
        return False
    rows, columns = math.prod(shape[:folded]), math.prod(shape[folded:])
    if rows < FEWEST_ROWS or columns < FEWEST_COLUMNS or shape[-1] == 1:
        return False
    group = grouping.producer(views.of(value).root)
    if group is None or group.lanes != "inner" or group.space != shape:
        return False
    seen = grouping.places.seen_from(group, views.of(value))
    return bool(kept) and seen == long_axes(shape) and group.inner == _from(folded, shape)
