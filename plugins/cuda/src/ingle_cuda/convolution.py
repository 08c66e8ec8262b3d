"""Convolutions and their gradients by cuDNN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op, infer
from ingle.tensor.ops.convolution.forward import CONV
from ingle.tensor.ops.convolution.gradients import CONV_INPUT_GRADIENT, CONV_WEIGHT_GRADIENT

from .cudnn import TYPES, Layout, Plans, contiguous, output, readable, strides_of, tensor

if TYPE_CHECKING:
    from .backend import CudaBackend

KINDS = {CONV: "fprop", CONV_INPUT_GRADIENT: "dgrad", CONV_WEIGHT_GRADIENT: "wgrad"}
"""The library's names of the operations."""
_NAMED = {"fprop": ("image", "weight"), "dgrad": ("loss", "filter"), "wgrad": ("image", "loss")}
"""And of their operands."""
RANKS = (1, 2, 3)


class Problem(NamedTuple):
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
) -> Problem | None:
    """The problem of a convolution; None for others.

    Args:
        strides: of the operands; in C order if none are given.
    """
    kind = KINDS.get(op.operation)
    if kind is None or avals[0].dtype.name not in TYPES:
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
    return Problem(
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


class Convolutions:
    """The offer of convolutions that the library has a plan for."""

    def __init__(self, backend: CudaBackend, plans: Plans) -> None:
        self._backend = backend
        self._plans = plans

    def takes(self, op: Op, avals: Sequence[Aval]) -> bool:
        problem = problem_of(op, avals)
        return problem is not None and self._plan(problem) is not None

    def run(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Puts the library's kernels into the stream; images with channels last are read so."""
        backend = self._backend
        avals = [Aval(x.shape, x.dtype) for x in inputs]
        handles: list[Any] = [
            readable(backend, x, as_it_lies=_has_channels_last(x)) for x in inputs
        ]
        problem = problem_of(op, avals, [strides_of(h) for h in handles])
        assert problem is not None, "takes() has seen it"
        plan = self._plan(problem)
        if plan is None:
            handles = [readable(backend, h, as_it_lies=False) for h in handles]
            problem = problem_of(op, avals)
            assert problem is not None
            plan = self._plan(problem)
        assert plan is not None, "takes() has found it"
        (result,) = infer(op, avals)
        made = backend.empty(result)
        addresses = (handles[0].address, handles[1].address, made.address)
        self._plans.run(plan, dict(enumerate(addresses, 1)))
        return (made,)

    def _plan(self, problem: Problem) -> Any:
        return self._plans.found(
            problem, problem.dtype, lambda cudnn, graph: describe(cudnn, graph, problem)
        )


def _has_channels_last(handle: Any) -> bool:
    """Whether images lie in memory pixel by pixel, each with all its channels."""
    n, c, *image = handle.shape
    strides = strides_of(handle)
    order = (strides[0], *strides[2:], strides[1])
    return order == contiguous((n, *image, c))


def describe(cudnn: Any, graph: Any, problem: Problem) -> None:
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
