"""Attention by cuDNN: scores never go through memory (Dao et al., arXiv 2205.14135)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.operation import Op
from ingle.tensor.ops.neural.attention import (
    ATTENTION,
    ATTENTION_GRADIENT,
    ATTENTION_TRAINING,
)

from .cudnn import TYPES, Layout, LibraryOffer, contiguous, output, tensor

_DTYPES = frozenset({"float16", "bfloat16"})
_WIDE = "float32"
SCALE, RESULTS = 7, 8
"""Numbers of tensors: of the factor of scores, and of the first result. Operands come from 1 on."""
FEWEST = 16
"""Queries that the library is worth calling for."""


class AttentionProblem(NamedTuple):
    """What a plan is made for.

    Attributes:
        dtype: of queries, keys, values and results.
        operands: how queries, keys and values lie: batch, heads, places, features.
        given: the same of the result's gradient and the result, for a gradient.
        causal: whether query i sees the keys up to i only.
        lse: whether the logarithm of the sum of exponentials is a second result.
    """

    dtype: str
    operands: tuple[Layout, ...]
    given: tuple[Layout, ...]
    causal: bool
    lse: bool


def problem_of(
    op: Op, avals: Sequence[Aval], strides: Sequence[tuple[int, ...]] | None = None
) -> AttentionProblem | None:
    """The problem of an attention or its gradient; None for what the library does not take.

    Args:
        strides: of the tensors that are no numbers; in C order if none are given.
    """
    backward = op.operation is ATTENTION_GRADIENT
    mask = avals[4 if backward else 3]
    tensors = [a for a in avals if a.shape]
    places = [1, 2, 3, 0, 4] if backward else [0, 1, 2]
    dtype = tensors[0].dtype.name
    if dtype not in _DTYPES or mask.shape or mask.dtype.name != "bool":
        return None
    if any(0 in a.shape for a in tensors) or tensors[0].shape[-2] < FEWEST:
        return None
    given = strides or [contiguous(a.shape) for a in tensors]
    found = [_by_heads(tensors[n].shape, given[n]) for n in places]
    layouts = [layout for layout in found if layout is not None]
    if len(layouts) < len(found):
        return None
    query, key, value = (sizes for sizes, _ in layouts[:3])
    if not query[0] == key[0] == value[0] or key[1] != value[1] or query[1] % key[1]:
        return None
    if key[1] != query[1] and not _shares([tensors[n] for n in places[:3]]):
        return None
    if backward and given[5] != contiguous(tensors[5].shape):
        return None
    training = op.operation is ATTENTION_TRAINING
    return AttentionProblem(
        dtype, tuple(layouts[:3]), tuple(layouts[3:]), op.attributes["causal"], training
    )


def _shares(tensors: Sequence[Aval]) -> bool:
    """Whether neighbouring heads of queries have one head of keys and values: 5 axes."""
    query, key, value = (a.shape for a in tensors)
    if not len(query) == len(key) == len(value) == 5:
        return False
    return key[2] == value[2] == 1 and query[:2] == key[:2] == value[:2]


def _by_heads(sizes: tuple[int, ...], strides: tuple[int, ...]) -> Layout | None:
    """Batch, heads, places, features; None where axes cannot be taken as these."""
    if strides[-1] != 1 and sizes[-1] != 1:
        return None
    if len(sizes) == 5:
        n, groups, each, *_ = sizes
        if each > 1 and groups > 1 and strides[1] != each * strides[2]:
            return None
        head = strides[2] if each > 1 else strides[1]
        return (n, groups * each, *sizes[3:]), (strides[0], head, *strides[3:-1], 1)
    if not 2 <= len(sizes) <= 4:
        return None
    missing = 4 - len(sizes)
    outer = sizes[0] * strides[0]
    return (1,) * missing + sizes, (outer,) * missing + (*strides[:-1], 1)


class Attention(LibraryOffer):
    """The offer of attention of half types without a mask but the causal one, and its gradient.

    Heads may lie side by side.
    """

    operations = frozenset({ATTENTION, ATTENTION_TRAINING, ATTENTION_GRADIENT})

    def problem(
        self, op: Op, avals: Sequence[Aval], strides: Sequence[tuple[int, ...]] | None = None
    ) -> AttentionProblem | None:
        return problem_of(op, avals, strides)

    def describe(self, cudnn: Any, graph: Any, problem: AttentionProblem) -> None:
        describe(cudnn, graph, problem)

    def reads(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
        return True

    def places(
        self, op: Op, tensors: Sequence[int], results: Sequence[int],
        numbers: Sequence[Scalar | None],
    ) -> tuple[Mapping[int, int], Any]:  # fmt: skip
        scale = numbers[5 if op.operation is ATTENTION_GRADIENT else 4]
        assert scale is not None, "the scale of attention is a number"
        factor = ctypes.c_float(float(scale.value.real))
        places = dict(enumerate(tensors, 1))
        places[SCALE] = ctypes.addressof(factor)
        places |= dict(enumerate(results, RESULTS))
        return places, factor


def describe(cudnn: Any, graph: Any, problem: AttentionProblem) -> None:
    """The graph of a problem, its tensors numbered as they come in and as `RESULTS` says."""
    dtype = problem.dtype
    first = 2 if problem.given else 1
    query, key, value = (
        tensor(cudnn, graph, number, layout, dtype)
        for number, layout in enumerate(problem.operands, first)
    )
    scale = graph.tensor(
        dim=[1] * 4, stride=[1] * 4, data_type=getattr(cudnn.data_type, TYPES[_WIDE]),
        is_pass_by_value=True, uid=SCALE,
    )  # fmt: skip
    of_queries = (*problem.operands[0][0][:3], 1)
    stats = of_queries, contiguous(of_queries)
    if problem.given:
        gradient, out = (
            tensor(cudnn, graph, number, layout, dtype)
            for number, layout in zip((1, 5), problem.given, strict=True)
        )
        found = graph.sdpa_backward(
            q=query, k=key, v=value, o=out, dO=gradient,
            stats=tensor(cudnn, graph, 6, stats, _WIDE), attn_scale=scale,
            use_causal_mask=problem.causal, use_deterministic_algorithm=True,
        )  # fmt: skip
        for number, (made, (sizes, _)) in enumerate(
            zip(found, problem.operands, strict=True), RESULTS
        ):
            output(cudnn, made, number, (sizes, contiguous(sizes)), dtype)
        return
    out, kept = graph.sdpa(
        q=query, k=key, v=value, attn_scale=scale, generate_stats=problem.lse,
        use_causal_mask=problem.causal,
    )  # fmt: skip
    sizes = (*problem.operands[0][0][:3], problem.operands[2][0][3])
    output(cudnn, out, RESULTS, (sizes, contiguous(sizes)), dtype)
    if problem.lse:
        output(cudnn, kept, RESULTS + 1, stats, _WIDE)
