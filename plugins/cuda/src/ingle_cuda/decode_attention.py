"""The offer of attention of few queries, as in decoding: one generated kernel, or two.

The composition is six kernels, each of which takes longer to begin than to run, and cuDNN's kernels
are made for many queries. How the kernels compute it is told in `decode_attention_source`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op, infer
from ingle.tensor.ops.neural.attention import ATTENTION, ATTENTION_TRAINING

from .combined_pieces import COMBINE, combine_source
from .cudnn import Strides, contiguous
from .decode_attention_source import (
    NAME,
    PIECE,
    SCALE_AT,
    THREADS,
    WARP,
    KernelShape,
    source,
)
from .head_axes import BATCH, along, head_axes, vector
from .kernel_offers import SCRATCH, KernelLaunch, KernelOffer, Launches

_DTYPES = frozenset({"float32", "float16", "bfloat16"})
MOST_QUERIES = 16
"""With more, products of matrices pay."""
_MOST_FEATURES = 256
_MOST_COLUMNS = 1024
"""Of the rows of a block together: each warp keeps its own in shared memory."""
_ROWS = (8, 4, 2, 1)
"""Queries of a block."""
_LARGEST = (1 << 31) - 1
_SCALE = 4
"""The operand that is a factor of all scores."""


class DecodeProblem(NamedTuple):
    """Attention of few queries on operands that lie in some way.

    Attributes:
        dtype: of queries, keys, values and the result.
        mask: its dtype; empty if there is none.
        causal: whether query i sees the keys up to i only.
        lse: whether the logarithm of the sum of exponentials is a second result.
        batch: sizes of the axes of heads of keys and values.
        group: heads of queries that share one of these.
        queries, keys: how many; no query sees keys behind these.
        features, columns: of queries and keys, and of values.
        strides: of queries, keys, values, the mask if there is one, the result, and the logarithms
            if there are any: along `batch`, the group, places, and elements.
        vectors: elements that are loaded at once of queries, keys and values.
    """

    dtype: str
    mask: str
    causal: bool
    lse: bool
    batch: tuple[int, ...]
    group: int
    queries: int
    keys: int
    features: int
    columns: int
    strides: tuple[Strides, ...]
    vectors: tuple[int, int, int]


def problem_of(
    op: Op, avals: Sequence[Aval], strides: Sequence[Strides] | None = None,
    results: Sequence[Strides] | None = None, offsets: Sequence[int] = (0, 0, 0),
) -> DecodeProblem | None:  # fmt: skip
    """The problem of an operation; None for what the kernels do not take.

    Args:
        strides: of the tensors that have axes; in C order if none are given.
        results: strides of the results, likewise.
        offsets: of queries, keys and values from a multiple of 16 bytes, in bytes.
    """
    if op.operation is not ATTENTION and op.operation is not ATTENTION_TRAINING:
        return None
    query, key, value, mask, _ = avals
    dtype = query.dtype.name
    if dtype not in _DTYPES or mask.dtype.name not in ("bool", dtype):
        return None
    if any(0 in a.shape for a in avals) or query.shape[-2] > MOST_QUERIES:
        return None
    if max(query.shape[-1], value.shape[-1]) > _MOST_FEATURES:
        return None
    out, *lse = made = infer(op, avals)
    tensors = [query, key, value, *([mask] if mask.shape else [])]
    given = [*(strides or [contiguous(a.shape) for a in tensors])]
    given += results or [contiguous(a.shape) for a in made]
    tensors += [out, *[a._replace(shape=(*a.shape, 1)) for a in lse]]
    given = [*given[:-1], (*given[-1], 0)] if lse else given
    places = query.shape[-2], key.shape[-2]
    own = [a.shape[-2:] for a in tensors]
    if mask.shape:
        own[3] = places
    lead = out.shape[:-2]
    lying = [
        along((*lead, *sizes), a.shape, steps)
        for a, sizes, steps in zip(tensors, own, given, strict=True)
    ]
    shared = [lying[1][axis] == lying[2][axis] == 0 for axis in range(len(lead))]
    batch, group, every = head_axes(lead, lying, shared)
    causal = bool(op.attributes["causal"])
    keys = min(places[1], places[0]) if causal else places[1]
    if len(batch) > BATCH or len(group) > 1 or math.prod(lead) * places[0] > _LARGEST:
        return None
    if keys > _LARGEST:
        return None
    batch = (*[1] * (BATCH - len(batch)), *batch)
    vectors = [
        vector(dtype, size, steps, offset)
        for size, steps, offset in zip(
            (query.shape[-1], key.shape[-1], value.shape[-1]), every[:3], offsets[:3], strict=True
        )
    ]
    return DecodeProblem(
        dtype, mask.dtype.name if mask.shape else "", causal, bool(lse), batch, math.prod(group),
        places[0], keys, query.shape[-1], value.shape[-1], tuple(every),
        (vectors[0], vectors[1], vectors[2]),
    )  # fmt: skip


def rows_of_block(problem: DecodeProblem, processors: int) -> int:
    """Queries of a block on a GPU of so many multiprocessors: as many as leave each of these one.

    No bit depends on it.
    """
    rows = problem.group * problem.queries
    beside = math.prod(problem.batch) * -(-problem.keys // PIECE)
    fitting = [n for n in _ROWS if n * problem.columns <= _MOST_COLUMNS and n < 2 * rows]
    return next((n for n in fitting if beside * -(-rows // n) >= processors), 1)


def launches_of(problem: DecodeProblem, processors: int) -> Launches | None:
    """The kernels of a problem; None for more blocks than a grid may have."""
    rows, each = problem.group * problem.queries, rows_of_block(problem, processors)
    blocks, pieces = -(-rows // each), -(-problem.keys // PIECE)
    heads, columns = math.prod(problem.batch), problem.columns
    if heads * blocks * pieces > _LARGEST:
        return None
    head = [*problem.batch, blocks, pieces, rows, problem.queries, problem.keys, 0]
    result = len(problem.strides) - 1 - problem.lse
    results = tuple(range(result, len(problem.strides)))
    own = problem.strides if pieces == 1 else problem.strides[: result + 1]
    strides = [step for steps in own for step in steps]
    shape = KernelShape(
        problem.dtype, problem.features, columns, each, problem.mask, problem.causal,
        problem.lse and pieces == 1, pieces == 1, problem.vectors,
    )  # fmt: skip
    lines = heads * rows
    first = KernelLaunch(
        source(shape), NAME, (*range(result), *(results if pieces == 1 else [SCRATCH])),
        (*head, *strides), heads * blocks * pieces, min(-(-problem.keys // WARP) * WARP, THREADS),
    )  # fmt: skip
    if pieces == 1:
        return Launches((first,), 0, SCALE_AT)
    second = KernelLaunch(
        combine_source(problem.dtype, columns, problem.lse), COMBINE, (SCRATCH, *results),
        (*head, *[step for steps in problem.strides[result:] for step in steps]), lines, THREADS,
    )  # fmt: skip
    return Launches((first, second), 4 * lines * pieces * (columns + 2), SCALE_AT)


class DecodeAttention(KernelOffer):
    """The offer of attention of up to 16 queries, of float32 and half types.

    Heads may share keys, a mask may hide keys or be added to scores, and operands may lie in any
    way.
    """

    def takes(self, op: Op, avals: Sequence[Aval]) -> bool:
        return problem_of(op, avals) is not None

    def scale_of(self, op: Op) -> int:
        return _SCALE

    def launches(
        self, op: Op, avals: Sequence[Aval], strides: Sequence[Strides],
        results: Sequence[Strides] | None, offsets: Sequence[int],
    ) -> Launches | None:  # fmt: skip
        problem = problem_of(op, avals, strides, results, offsets)
        return problem and launches_of(problem, self.backend.limits.processors)
