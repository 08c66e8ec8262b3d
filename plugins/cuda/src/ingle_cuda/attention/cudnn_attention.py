"""Attention by cuDNN: scores never go through memory (Dao et al., arXiv 2205.14135)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.operation import Op, infer
from ingle.tensor.ops.neural.attention import ATTENTION, ATTENTION_TRAINING
from ingle.tensor.ops.neural.attention_gradients import ATTENTION_GRADIENT

from ..cudnn import ALIGNMENT, TYPES, Layout, LibraryOffer, Strides, contiguous, output, tensor

_DTYPES = frozenset({"float16", "bfloat16"})
_WIDE = "float32"
SCALE, RESULTS = 7, 8
"""Numbers of tensors: of the factor of scores, and of the first result. Operands come from 1 on."""
ROW = ALIGNMENT // 2
"""Elements of half types that distances between rows are multiples of."""
FEWEST = 16
"""Queries that the library is worth calling for."""


class AttentionProblem(NamedTuple):
    """What a plan is made for.

    Attributes:
        dtype: of queries, keys, values and results.
        operands: how queries, keys and values lie: batch, heads, places, features.
        given: the same of the result's gradient and the result, for a gradient.
        results: the same of what is computed, without the logarithms.
        causal: whether query i sees the keys up to i only.
        lse: whether the logarithm of the sum of exponentials is a second result.
    """

    dtype: str
    operands: tuple[Layout, ...]
    given: tuple[Layout, ...]
    results: tuple[Layout, ...]
    causal: bool
    lse: bool


def problem_of(
    op: Op, avals: Sequence[Aval], strides: Sequence[Strides] | None = None,
    results: Sequence[Strides] | None = None,
) -> AttentionProblem | None:  # fmt: skip
    """The problem of an attention or its gradient; None for what the library does not take.

    Args:
        strides: of the tensors that are no numbers; in C order if none are given.
        results: of what is computed, likewise.
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
    layouts = _layouts([tensors[n] for n in places], [given[n] for n in places])
    if layouts is None:
        return None
    query, key, value = (sizes for sizes, _ in layouts[:3])
    if not query[0] == key[0] == value[0] or key[1] != value[1] or query[1] % key[1]:
        return None
    if key[1] != query[1] and not _shares([tensors[n] for n in places[:3]]):
        return None
    if backward and given[5] != contiguous(tensors[5].shape):
        return None
    made = infer(op, avals)
    lying = results or [contiguous(a.shape) for a in made]
    training = op.operation is ATTENTION_TRAINING
    if training and lying[1] != contiguous(made[1].shape):
        return None
    count = 1 if training else len(made)
    written = _layouts(made[:count], lying[:count])
    if written is None:
        return None
    return AttentionProblem(
        dtype, layouts[:3], layouts[3:], written, op.attributes["causal"], training
    )


def _layouts(
    tensors: Sequence[Aval], strides: Sequence[Strides]
) -> tuple[Layout, ...] | None:  # fmt: skip
    """Tensors by heads; None where one cannot be taken so."""
    found = [_by_heads(x.shape, s) for x, s in zip(tensors, strides, strict=True)]
    layouts = tuple([layout for layout in found if layout is not None])
    return layouts if len(layouts) == len(found) else None


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
    strides = _dense_where_one(sizes, strides)
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


def _dense_where_one(sizes: Sequence[int], strides: Strides) -> Strides:
    """With the strides that axes of size 1 have in C order, where views have any."""
    found, inner = [], 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        found.append(inner if size == 1 else stride)
        inner = size * found[-1]
    return tuple(found[::-1])


class Attention(LibraryOffer):
    """The offer of attention of half types without a mask but the causal one, and its gradient.

    Heads may lie side by side.
    """

    operations = frozenset({ATTENTION, ATTENTION_TRAINING, ATTENTION_GRADIENT})

    def problem(
        self, op: Op, avals: Sequence[Aval], strides: Sequence[Strides] | None = None,
        results: Sequence[Strides] | None = None,
    ) -> AttentionProblem | None:  # fmt: skip
        return problem_of(op, avals, strides, results)

    def describe(self, cudnn: Any, graph: Any, problem: AttentionProblem) -> None:
        describe(cudnn, graph, problem)

    def reads(self, shape: tuple[int, ...], strides: Strides) -> bool:
        return all(step >= 0 for step in strides)

    def writes(self, shape: tuple[int, ...], strides: Strides) -> bool:
        """Also in parts of others, where each row of features begins as the library stores it."""
        rows = zip(shape[:-1], strides[:-1], strict=True)
        return super().writes(shape, strides) or all(n == 1 or s % ROW == 0 for n, s in rows)

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
        for number, (made, layout) in enumerate(zip(found, problem.results, strict=True), RESULTS):
            output(cudnn, made, number, layout, dtype)
        return
    out, kept = graph.sdpa(
        q=query, k=key, v=value, attn_scale=scale, generate_stats=problem.lse,
        use_causal_mask=problem.causal,
    )  # fmt: skip
    (layout,) = problem.results
    output(cudnn, out, RESULTS, layout, dtype)
    if problem.lse:
        output(cudnn, kept, RESULTS + 1, stats, _WIDE)
