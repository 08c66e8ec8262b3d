"""Running sums, products and extremes: kernels that go along an axis, place by place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.graph import Graph
from ..ir.merge_axes import lane_of, merged
from ..ir.views import View
from ..kernel.code import FLOATS, CodeBuilder
from ..kernel.expression import Expression, in_order
from ..kernel.lowering import scan_of
from ..kernel.nest import MAX_OUTER, Map, Nest, Operand, Reduce, Stage, result_dtype
from .nests import NestCall
from .operands import Argument

SIDE = 8
"""Elements behind the axis from which on lanes run along them."""

Numbers = Callable[[CodeBuilder, int, list[int]], "int | None"]


def scan_call(
    graph: Graph, position: int, sources: Sequence[View], target: View, number: Numbers
) -> NestCall | None:
    """The kernel of one such operation; None if it takes too many loops.

    Args:
        graph, position: the node.
        sources: what it takes: elements, or factors and elements of a recurrence.
        target: where its result lies.
        number: appends the instruction of a value that is a number; None for other values.
    """
    node = graph.nodes[position]
    builder, scalars = CodeBuilder(), list[int]()
    views, dtypes, taken = list[View](), list[str](), list[Expression]()
    for source in sources:
        dtype = graph.values[source.root].aval.dtype.name
        element = number(builder, source.root, scalars)
        if element is None:
            element = builder.load(len(views), dtype)
            views.append(source)
            dtypes.append(dtype)
        taken.append(Expression(builder, element))
    views.append(target)
    dtypes.append(graph.values[node.results[0]].aval.dtype.name)
    lanes, sizes, strides = _loops(node.op.attributes["axis"], views)
    if len(sizes) - 1 > MAX_OUTER:
        return None
    out = len(views) - 1
    operands, arguments = list[Operand](), list[Argument]()
    for k, (view, dtype, steps) in enumerate(zip(views, dtypes, strides, strict=True)):
        lane = lane_of(steps[-1 if lanes == "inner" else -2])
        operands.append(Operand(dtype, k == out, lane))
        arguments.append(Argument(view.root, steps, view.offset, k == out))
    nest = Nest(
        len(sizes) - 1,
        tuple(operands),
        tuple([graph.values[s].aval.dtype.name for s in scalars]),
        _stages(scan_of(node.op) or "", taken, dtypes[-1], out),
        lanes,
    )
    return NestCall(nest, tuple(arguments), sizes, tuple(strides), tuple(scalars), (position,))


def _stages(combine: str, taken: Sequence[Expression], dtype: str, out: int) -> tuple[Stage, ...]:
    """What folds the elements, and what stores the results in an operand of a dtype."""
    *factors, element = taken
    if combine.startswith("arg"):
        folded = in_order(element.widen(), largest=combine == "argmax")
    else:
        # What is added one after the other drifts: a million times 0.1 in float32 is 100,958.
        folded = element.cast("float64") if element.dtype in FLOATS else element
    ends = [folded.at, *[_decay(factor).at for factor in factors]]
    code, (root, *decays) = element.builder.finish(*ends)
    builder = CodeBuilder()
    found = builder.append("result", result_dtype(combine, code[root].dtype), (), (0, 0))
    after, (stored,) = builder.finish(builder.cast(found, dtype))
    decay = decays[0] if decays else None
    return Reduce(code, ((combine, root),), scan=True, decay=decay), Map(after, ((out, stored),))


def _decay(factor: Expression) -> Expression:
    """What the result so far is multiplied by: nothing comes before the first place."""
    builder = factor.builder
    place = Expression(builder, builder.append("index", "int64", (), -1))
    wide = factor.cast("float64")
    choice = place.equals(0).at, wide.constant(1.0).at, wide.at
    return Expression(builder, builder.append("select", "float64", choice))


def _loops(axis: int, views: list[View]) -> tuple[str, tuple[int, ...], list[tuple[int, ...]]]:
    """Along what lanes run, the sizes of the loops, and the strides of each view along them.

    The axis is the inner one. Along an axis of one element any stride will do.
    """
    shape = views[0].shape
    before = merged(shape[:axis], [v.strides[:axis] for v in views])
    behind = merged(shape[axis + 1 :], [v.strides[axis + 1 :] for v in views])
    length = shape[axis]
    wide = len(behind.sizes) > 0 and behind.sizes[-1] >= SIDE
    each = zip(before.strides, behind.strides, views, strict=True)
    strides = [(*b, *h, v.strides[axis] if length > 1 else 1) for b, h, v in each]
    return "outer" if wide else "inner", (*before.sizes, *behind.sizes, length), strides
