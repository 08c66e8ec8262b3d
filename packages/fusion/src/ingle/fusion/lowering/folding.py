"""Windows that overlap, added up to images: one kernel that goes along the rows of these."""

from __future__ import annotations

from ingle.tensor.operation import Op

from ..ir.graph import Graph
from ..ir.merge_axes import lane_of
from ..ir.views import View
from ..kernel.code import CodeBuilder
from ..kernel.nest import Fold, FoldNumbers, Nest, Operand
from .nests import NestCall
from .operands import Argument, Unnestable


def fold_call(graph: Graph, position: int, source: View, target: View) -> NestCall:
    """The kernel of a `fold` of one or two image axes, whose windows are next to each other.

    Images of one axis are rows of one image. Channels are the outermost axis, so that neighbouring
    rows read neighbouring memory also where the batch lies inside of the taps.

    Args:
        graph, position: the node.
        source: the columns.
        target: where the images lie.

    Raises:
        Unnestable: what is added up is a number.
    """
    node = graph.nodes[position]
    dtype = graph.values[node.results[0]].aval.dtype.name
    if graph.values[source.root].kind in ("constant", "scalar"):
        raise Unnestable
    batch, channels, height, width = _spread(target.shape)
    steps = target.strides
    rows = steps[2] if len(steps) == 4 else 0
    numbers, channel = _numbers(node.op, source)
    sizes = (channels, batch, height, width)
    strides = (
        (channel, source.strides[0], 0, source.strides[2]),
        (steps[1], steps[0], rows, steps[-1]),
    )
    if steps[-1] != 1 and width > 1:
        raise Unnestable
    arguments = (
        Argument(source.root, strides[0], source.offset),
        Argument(target.root, strides[1], target.offset, True),
    )
    lane = "unit" if lane_of(strides[0][-1]) == "unit" else "strided"
    operands = Operand(dtype, False, lane), Operand(dtype, True)
    builder = CodeBuilder()
    code, (root,) = builder.finish(builder.load(0, dtype))
    scalars = ("int64",) * len(numbers)
    nest = Nest(3, operands, scalars, (Fold(code, ((1, root),)),))
    return NestCall(nest, arguments, sizes, strides, (), (position,), tuple(numbers))


def windows_of(call: NestCall) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The loops over all that is added up, and the strides of the columns along them."""
    n = FoldNumbers(*call.fixed)
    channel, batch, _, window = call.strides[0]
    sizes = *call.sizes[:2], n.taps0, n.taps1, n.windows0, n.windows1
    return sizes, (channel, batch, n.step0, n.step1, n.row, window)


def _spread(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of images with two axes."""
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])


def _numbers(op: Op, source: View) -> tuple[FoldNumbers, int]:
    """What the kernel is told, and how far apart the columns of channels are."""
    given = op.attributes
    axes = list(zip(given["size"], given["kernel"], given["padding"], given["dilation"],
                    strict=True))  # fmt: skip
    taps = [kernel for _, kernel, _, _ in axes]
    windows = [n + low + high - d * (k - 1) for n, k, (low, high), d in axes]
    starts, spreads = [low for _, _, (low, _), _ in axes], [d for *_, d in axes]
    if len(axes) == 1:
        taps, windows, starts, spreads = [1, *taps], [1, *windows], [0, *starts], [1, *spreads]
    _, column, window = source.strides
    row = window * windows[1]
    steps = column * taps[1], column
    numbers = FoldNumbers(row, *taps, *spreads, *starts, *windows, *steps)  # type: ignore[call-arg]
    return numbers, column * taps[0] * taps[1]
