"""Tensors with elements of their own added at the ends of their axes: one kernel, row by row."""

from __future__ import annotations

from ingle.tensor.ops.movement.extending import EXTENDED_GRADIENT

from ..ir.graph import Graph
from ..ir.merge_axes import merged
from ..ir.views import View
from ..kernel.code import SIZES, CodeBuilder
from ..kernel.nest import Extend, ExtendNumbers, Nest, Operand
from .nest_draft import NestDraft
from .nests import NestCall
from .operands import Argument
from .row_lengths import with_strides

STEPS = {"reflect": -1, "edge": 0, "circular": 1}


def extend_call(graph: Graph, position: int, source: View, target: View) -> NestCall | None:
    """The kernel of an `extended`, or of its gradient along rows.

    Axes in front to which nothing is added are walked as ever; along the others the `Row` finds the
    row of the source.

    Args:
        graph, position: the node.
        source, target: what it takes, and where its result lies.

    Returns:
        None if its input is a number, or rows of the result have gaps.
    """
    node = graph.nodes[position]
    back = node.op.operation is EXTENDED_GRADIENT
    low, high, mode = (node.op.attributes[n] for n in ("low", "high", "mode"))
    if graph.values[source.root].kind in ("constant", "scalar") or target.strides[-1] != 1:
        return None
    first = next(a for a, (b, c) in enumerate(zip(low, high, strict=True)) if b or c)
    front = merged(source.shape[:first], [source.strides[:first], target.strides[:first]])
    along = len(low) - 1 - first
    outer = len(front.sizes) + along
    strides = [
        (*front.strides[0], *(0,) * (along + 1)),
        (*front.strides[1], *target.strides[first:]),
    ]
    arguments = [
        Argument(source.root, strides[0], source.offset),
        Argument(target.root, strides[1], target.offset, True),
    ]
    dtype = graph.values[target.root].aval.dtype.name
    if not back:
        dtype = f"uint{8 * SIZES[dtype]}"
    sizes = (*front.sizes, *target.shape[first:])
    draft = NestDraft(sizes, arguments, strides, [dtype] * 2, [])
    size = (target if back else source).shape[-1]
    numbers = ExtendNumbers(low[-1], high[-1], size, source.strides[-1])
    draft.fixed.extend(numbers)
    row = CodeBuilder()
    place = row.constant(0, "int64")
    for axis in range(first, len(low) - 1):
        at = row.append("index", "int64", (), len(front.sizes) + axis - first)
        if low[axis] or high[axis]:
            at = _source_of(draft, row, at, low[axis], source.shape[axis], mode)
        part = row.append("mul", "int64", (at, draft.number(row, source.strides[axis])))
        place = row.append("add", "int64", (place, part))
    draft.begin(row, place, 0)
    element = CodeBuilder()
    code, (root,) = element.finish(element.load(0, dtype))
    operands = Operand(dtype, False, "zero", 0), Operand(dtype, True)
    stages = (*draft.stages, Extend(code, ((1, root),), STEPS[mode], back))
    nest = Nest(outer, operands, ("int64",) * len(draft.fixed), stages)
    return NestCall(
        with_strides(nest, strides), tuple(arguments), sizes, tuple(strides), (), (position,),
        tuple(draft.fixed),
    )  # fmt: skip


def _source_of(
    draft: NestDraft, row: CodeBuilder, at: int, before: int, size: int, mode: str
) -> int:
    """The index along an axis of the source that an index of the result repeats."""

    def op(name: str, *args: int) -> int:
        return row.append(name, "int64", args)

    at = op("sub", at, draft.number(row, before))
    if mode == "edge":
        return op("min", op("max", at, row.constant(0, "int64")), draft.number(row, size - 1))
    if mode == "reflect":
        at = op("abs", at)
        return op("min", at, op("sub", draft.number(row, 2 * (size - 1)), at))
    length = draft.number(row, size)
    under = row.append("lt", "bool", (at, row.constant(0, "int64")))
    over = row.append("ge", "bool", (at, length))
    at = op("select", over, op("sub", at, length), at)
    return op("select", under, op("add", at, length), at)
