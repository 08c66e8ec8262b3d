"""Windows that overlap, added up to images: one kernel that goes along the rows of these."""

from __future__ import annotations

from typing import NamedTuple

from ingle.tensor.operation import Op
from ingle.tensor.ops.convolution.window_products import WINDOW_DOT

from ..ir.graph import Graph
from ..ir.merge_axes import lane_of
from ..ir.views import View, strides_of
from ..kernel.code import CodeBuilder
from ..kernel.nest import DotNumbers, Dots, Fold, FoldNumbers, Nest, Operand
from .nests import NestCall
from .operands import Argument
from .row_lengths import with_strides


def fold_call(
    graph: Graph, position: int, source: View, factors: View | None, target: View
) -> NestCall | None:
    """The kernel of a `fold` of one or two image axes, whose windows are next to each other, or of
    a convolution of each channel by itself, or of its gradient.

    Images of one axis are rows of one image. Channels are the outermost axis, so that neighbouring
    rows read neighbouring memory also where the batch lies inside of the taps.

    Args:
        graph, position: the node.
        source: the columns, or images.
        factors: the weight of a convolution.
        target: where the images lie.

    Returns:
        None if what is added up is a number, or rows of the images have gaps.
    """
    node = graph.nodes[position]
    dtype = graph.values[node.results[0]].aval.dtype.name
    views = [source] if factors is None else [source, factors]
    if any(graph.values[v.root].kind in ("constant", "scalar") for v in views):
        return None
    numbers, channel = _numbers(node.op, source, factors)
    batch, channels, height, width = _spread(target.shape)
    steps = target.strides
    if not writes(node.op, target):
        return None
    beside = numbers.apart * numbers.stride1
    strides = [(channel, source.strides[0], 0, beside)]
    lane = "unit" if lane_of(beside) == "unit" else "strided"
    operands = [Operand(dtype, False, lane, apart=2 if lane == "strided" and beside == 2 else 0)]
    builder = CodeBuilder()
    element = builder.load(0, dtype)
    if factors is not None:
        strides.append((factors.strides[0], 0, 0, 0))
        operands.append(Operand(dtype, False, "zero"))
        element = builder.append("mul", dtype, (element, builder.load(1, dtype)))
    strides.append((steps[1], steps[0], steps[2] if len(steps) == 4 else 0, steps[-1]))
    operands.append(Operand(dtype, True))
    code, (root,) = builder.finish(element)
    near = _are_near(numbers[1:3], numbers[3:5])
    stage = Fold(code, ((len(views), root),), factors is not None and near)
    nest = Nest(3, tuple(operands), ("int64",) * len(numbers), (stage,))
    arguments = [Argument(v.root, s, v.offset) for v, s in zip(views, strides, strict=False)]
    arguments.append(Argument(target.root, strides[-1], target.offset, True))
    sizes = channels, batch, height, width
    return NestCall(
        nest, tuple(arguments), sizes, tuple(strides), (), (position,), tuple(numbers)
    )  # fmt: skip


def dots_call(
    graph: Graph, position: int, places: View, image: View, target: View
) -> NestCall | None:
    """The kernel of a `window_dot`: for each channel of each image the sums of all taps.

    Args:
        graph, position: the node.
        places, image: what it takes.
        target: where the sums lie.

    Returns:
        None if it takes a number, or sums have gaps between them.
    """
    node = graph.nodes[position]
    if any(graph.values[v.root].kind in ("constant", "scalar") for v in (places, image)):
        return None
    given, (batch, channels) = node.op.attributes, target.shape[:2]
    if not writes(node.op, target):
        return None
    # Images of one axis are rows of one image.
    kernel, size, stride, dilation = (
        (1, *given[n])[-2:] for n in ("kernel", "size", "stride", "dilation")
    )
    start = (0, *given["start"])[-2:]
    lines = image.strides[2] if len(image.shape) == 4 else 0
    rows = image.shape[2] if len(image.shape) == 4 else 1
    step, apart = places.strides[-1], image.strides[-1]
    described = [n for pair in (stride, dilation, start) for n in pair]
    of_places = [size[0], size[1] * step, lines, kernel[0]]
    numbers = [*of_places, *described, rows, image.shape[-1], apart]
    strides = [
        (places.strides[1], places.strides[0], step),
        (image.strides[1], image.strides[0], apart * stride[1]),
        (target.strides[1], target.strides[0], 1),
    ]
    dtype = graph.values[node.results[0]].aval.dtype.name
    lanes = [lane_of(s[-1]) for s in strides[:2]]
    operands = [Operand(dtype, False, "unit" if n == "unit" else "strided") for n in lanes]
    builder = CodeBuilder()
    product = builder.append("mul", dtype, (builder.load(0, dtype), builder.load(1, dtype)))
    code, (root,) = builder.finish(product)
    nest = Nest(
        2, (*operands, Operand(dtype, True)), ("int64",) * len(numbers),
        (Dots(code, ((2, root),), kernel[1], _are_near(kernel, dilation)),),
    )  # fmt: skip
    nest = with_strides(nest, strides)
    views = (places, False), (image, False), (target, True)
    arguments = [
        Argument(v.root, s, v.offset, output) for (v, output), s in zip(views, strides, strict=True)
    ]
    sizes = channels, batch, size[1]
    return NestCall(
        nest, tuple(arguments), sizes, tuple(strides), (), (position,), tuple(numbers)
    )  # fmt: skip


def writes(op: Op, target: View) -> bool:
    """Whether the kernel of windows that are added up can write its result as that lies.

    Sums of taps are neighbours, and so are the elements of a row of images.
    """
    if op.operation is not WINDOW_DOT:
        return target.strides[-1] == 1 or target.shape[-1] <= 1
    dense = strides_of(target.shape)[2:]
    each = zip(target.strides[2:], dense, target.shape[2:], strict=True)
    return all(s == d or n <= 1 for s, d, n in each)


def windows_of(call: NestCall, operand: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The loops over all that is added up, and the strides of an operand along them."""
    stage = call.nest.stages[0]
    if isinstance(stage, Dots):
        d, (channel, batch, step) = DotNumbers(*call.fixed), call.strides[operand]
        shape = (d.height, call.sizes[-1]), (d.image0, d.image1), (1, d.taps * stage.taps)
        steps = (d.row0, step), (d.row1, d.apart), (0, 1)
        return (*call.sizes[:2], *shape[operand]), (channel, batch, *steps[operand])
    n = FoldNumbers(*call.fixed)
    channel, batch, *_ = call.strides[operand]
    if operand:
        return (call.sizes[0], n.taps0, n.taps1), (channel, n.factor0, n.factor1)
    sizes = *call.sizes[:2], n.taps0, n.taps1, n.windows0, n.windows1
    return sizes, (channel, batch, n.step0, n.step1, n.row, n.apart)


def _are_near(taps: tuple[int, ...], spread: tuple[int, ...]) -> bool:
    """Whether taps are three by three neighbours."""
    return taps == (3, 3) and all(abs(d) == 1 for d in spread)


def _spread(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of images with two axes."""
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])


class _Axis(NamedTuple):
    """What the kernel is told of an image axis."""

    taps: int
    spread: int
    start: int
    windows: int


def _numbers(op: Op, source: View, factors: View | None) -> tuple[FoldNumbers, int]:
    """What the kernel is told, and how far apart channels of the source are."""
    given = op.attributes
    padding, dilation = given["padding"], given["dilation"]
    if factors is None:
        sizes = zip(given["size"], given["kernel"], padding, dilation, strict=True)
        axes = [_Axis(k, d, low, n + low + high - d * (k - 1)) for n, k, (low, high), d in sizes]
    else:
        # A convolution sees along its taps what its gradient sees against them.
        sign = 1 if "size" in given else -1
        seen = zip(factors.shape[2:], padding, dilation, source.shape[2:], strict=True)
        axes = [_Axis(k, sign * d, sign * low, n) for k, (low, _), d, n in seen]
    if len(axes) == 1:
        axes.insert(0, _Axis(1, 1, 0, 1))
    described = [n for pair in zip(*axes, strict=True) for n in pair]
    if factors is not None:
        row = source.strides[2] if len(source.strides) == 4 else 0
        by_row = factors.strides[2] if len(factors.strides) == 4 else 0
        # The gradient is of places that are neighbours.
        strides = (1, 1, *given["stride"])[-2:] if sign < 0 else (1, 1)
        numbers = row, *described, 0, 0, by_row, factors.strides[-1], *strides, source.strides[-1]
        return FoldNumbers(*numbers), source.strides[1]
    _, column, window = source.strides
    row, taps1 = window * axes[1].windows, axes[1].taps
    numbers = row, *described, column * taps1, column, 0, 0, 1, 1, window
    return FoldNumbers(*numbers), column * axes[0].taps * taps1
