"""Convolutions and their gradients by cuDNN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.operation import Op, infer
from ingle.tensor.ops.convolution.forward import CONV
from ingle.tensor.ops.convolution.gradients import CONV_INPUT_GRADIENT, CONV_WEIGHT_GRADIENT

from .cudnn import TYPES, Layout, LibraryOffer, contiguous, output, tensor

KINDS = {CONV: "fprop", CONV_INPUT_GRADIENT: "dgrad", CONV_WEIGHT_GRADIENT: "wgrad"}
"""The library's names of the operations."""
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
    given = strides or [contiguous(a.shape) for a in avals]
    layouts = [_layout(a.shape, s) for a, s in zip(avals, given, strict=True)]
    one = (1,) if rank == 1 else ()
    none = (0,) if rank == 1 else ()
    return ConvolutionProblem(
        kind, x.dtype.name, (layouts[0], layouts[1]),
        _layout(result.shape, contiguous(result.shape)),
        (*none, *[p[0] for p in padding]), (*none, *[p[1] for p in padding]),
        (*one, *have["stride"]), (*one, *have["dilation"]),
    )  # fmt: skip


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
        self, op: Op, avals: Sequence[Aval], strides: Sequence[tuple[int, ...]] | None = None
    ) -> ConvolutionProblem | None:
        return problem_of(op, avals, strides)

    def describe(self, cudnn: Any, graph: Any, problem: ConvolutionProblem) -> None:
        describe(cudnn, graph, problem)

    def reads(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
        return strides == contiguous(shape) or _has_channels_last(shape, strides)

    def places(
        self, op: Op, tensors: Sequence[int], results: Sequence[int],
        numbers: Sequence[Scalar | None],
    ) -> tuple[Mapping[int, int], Any]:  # fmt: skip
        return dict(enumerate([*tensors, *results], 1)), None


def _has_channels_last(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether images lie in memory pixel by pixel, each with all its channels."""
    n, c, *image = shape
    batch, channel, *rest = strides
    return (batch, *rest, channel) == contiguous((n, *image, c))


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
