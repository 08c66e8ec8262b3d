"""Convolutions and their gradients by cuDNN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ingle.fusion.device.kernel_backend import StridedHandle
from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.operation import Op, infer
from ingle.tensor.ops.convolution.channels_last import (
    CONV_CHANNELS_LAST,
    CONV_INPUT_GRADIENT_CHANNELS_LAST,
    from_last,
    to_last,
)
from ingle.tensor.ops.convolution.forward import CONV
from ingle.tensor.ops.convolution.gradients import CONV_INPUT_GRADIENT, CONV_WEIGHT_GRADIENT

from .cudnn import TYPES, Layout, LibraryOffer, Strides, contiguous, output, strides_of, tensor

KINDS = {
    CONV: "fprop", CONV_INPUT_GRADIENT: "dgrad", CONV_WEIGHT_GRADIENT: "wgrad",
    CONV_CHANNELS_LAST: "fprop", CONV_INPUT_GRADIENT_CHANNELS_LAST: "dgrad",
}  # fmt: skip
"""The library's names of the operations."""
LAST = frozenset({CONV_CHANNELS_LAST, CONV_INPUT_GRADIENT_CHANNELS_LAST})
HALVES = frozenset({"float16", "bfloat16"})
"""Of which products are made by matrix units, for images with the channels last."""
LEAST_CHANNELS, MULTIPLE = 16, 8
"""Of images for which that pays: the library pads others. Measured on an H100."""
_NAMED = {"fprop": ("image", "weight"), "dgrad": ("loss", "filter"), "wgrad": ("image", "loss")}
"""And of their operands."""
RANKS = (1, 2, 3)


class ConvolutionProblem(NamedTuple):
    """What a plan is made for.

    Attributes:
        kind: one of `KINDS`.
        dtype: of operands and result.
        operands, result: how they lie, with two image axes or three.
        before, after: zeros around the image along each of its axes.
        stride, dilation: along these.
    """

    kind: str
    dtype: str
    operands: tuple[Layout, Layout]
    result: Layout
    before: tuple[int, ...]
    after: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]


def problem_of(
    op: Op, avals: Sequence[Aval], strides: Sequence[tuple[int, ...]] | None = None
) -> ConvolutionProblem | None:
    """The problem of a convolution; None for dtypes and sizes that the library does not take.

    Args:
        strides: of the operands; in C order if none are given.
    """
    kind = KINDS[op.operation]
    if avals[0].dtype.name not in TYPES:
        return None
    x = avals[0]
    rank, have = len(x.shape) - 2, op.attributes
    padding = have["padding"]
    (result,) = infer(op, avals)
    if rank not in RANKS or any(0 in a.shape for a in (*avals, result)):
        return None
    if any(n < 0 for pair in padding for n in pair):  # which takes away from the image
        return None
    if op.operation in LAST and not _gains(op, avals):
        return None
    given = strides or [_usual(op, k, a.shape) for k, a in enumerate(avals)]
    layouts = [_layout(a.shape, s) for a, s in zip(avals, given, strict=True)]
    one = (1,) if rank == 1 else ()
    none = (0,) if rank == 1 else ()
    return ConvolutionProblem(
        kind, x.dtype.name, (layouts[0], layouts[1]),
        _result(op, result.shape),
        (*none, *[p[0] for p in padding]), (*none, *[p[1] for p in padding]),
        (*one, *have["stride"]), (*one, *have["dilation"]),
    )  # fmt: skip


def _gains(op: Op, avals: Sequence[Aval]) -> bool:
    """Whether images with the channels last are what the library is quickest on."""
    x, weight = avals
    counts = x.shape[1], weight.shape[0], weight.shape[1]
    ample = all(n >= LEAST_CHANNELS and not n % MULTIPLE for n in counts)
    return x.dtype.name in HALVES and op.attributes["groups"] == 1 and ample


def _usual(op: Op, position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides that an operand mostly has."""
    return channels_last(shape) if op.operation in LAST and not position else contiguous(shape)


def channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of images that lie pixel by pixel, each with all its channels.

    >>> channels_last((2, 3, 4, 5))
    (60, 1, 15, 3)
    """
    strides = contiguous([shape[a] for a in to_last(len(shape))])
    return tuple([strides[a] for a in from_last(len(shape))])


def _result(op: Op, shape: tuple[int, ...]) -> Layout:
    """How a result lies, with the channels second."""
    if op.operation not in LAST:
        return _layout(shape, contiguous(shape))
    sizes = tuple([shape[a] for a in from_last(len(shape))])
    return _layout(sizes, channels_last(sizes))


def _layout(sizes: Sequence[int], strides: Sequence[int]) -> Layout:
    """With at least two image axes: sequences are images of one row."""
    if len(sizes) > 3:
        return tuple(sizes), tuple(strides)
    n, c, length = sizes
    return (n, c, 1, length), (strides[0], strides[1], strides[2] * length, strides[2])


class Convolutions(LibraryOffer):
    """The offer of convolutions; images with channels last are read as they lie."""

    operations = frozenset(KINDS)

    def problem(
        self, op: Op, avals: Sequence[Aval], strides: Sequence[Strides] | None = None,
        results: Sequence[Strides] | None = None,
    ) -> ConvolutionProblem | None:  # fmt: skip
        return problem_of(op, avals, strides)  # `writes` takes results in C order only

    def describe(self, cudnn: Any, graph: Any, problem: ConvolutionProblem) -> None:
        describe(cudnn, graph, problem)

    def reads(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
        return strides in (contiguous(shape), channels_last(shape))

    def straight(self, op: Op, position: int, handle: Any) -> Any:
        if op.operation not in LAST or position:
            return super().straight(op, position, handle)
        rank = len(handle.shape)
        there = [handle.shape[a] for a in to_last(rank)]
        strides = [strides_of(handle)[a] for a in to_last(rank)]
        place = handle.memory, handle.address
        turned = StridedHandle(self.backend, Aval(tuple(there), handle.dtype), *place, strides)
        made = self.backend.in_order(turned)
        aval = Aval(handle.shape, handle.dtype)
        return StridedHandle(
            self.backend, aval, made.memory, made.address, channels_last(handle.shape)
        )

    def places(
        self, op: Op, tensors: Sequence[int], results: Sequence[int],
        numbers: Sequence[Scalar | None],
    ) -> tuple[Mapping[int, int], Any]:  # fmt: skip
        return dict(enumerate([*tensors, *results], 1)), None


def describe(cudnn: Any, graph: Any, problem: ConvolutionProblem) -> None:
    """The graph of a problem: tensors 1 and 2 are the operands, 3 is the result."""
    named = {
        name: tensor(cudnn, graph, number, layout, problem.dtype)
        for number, (name, layout) in enumerate(
            zip(_NAMED[problem.kind], problem.operands, strict=True), 1
        )
    }
    made = getattr(graph, f"conv_{problem.kind}")(
        **named, pre_padding=[*problem.before], post_padding=[*problem.after],
        stride=[*problem.stride], dilation=[*problem.dilation],
    )  # fmt: skip
    output(cudnn, made, 3, problem.result, problem.dtype)
