"""The offer of attention of many queries, and of its gradient: one generated kernel each.

cuDNN takes half types without masks alone, and the composition writes a matrix of scores for each
head, reads it four times and more, and launches a dozen kernels. How the kernels compute it is told
in `flash_attention_source` and `flash_gradient_source`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.kernels import HALVES
from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op, infer
from ingle.tensor.ops.neural.attention import (
    ATTENTION,
    ATTENTION_GRADIENT,
    ATTENTION_TRAINING,
)

from . import flash_attention_source, flash_gradient_source
from .cudnn import Strides, contiguous
from .flash_tiles import GROUPS, SCALE_AT, THREADS, FlashShape
from .head_axes import BATCH, along, head_axes, vector
from .kernel_offers import KernelLaunch, KernelOffer, Launches

_OPERATIONS = frozenset({ATTENTION, ATTENTION_TRAINING, ATTENTION_GRADIENT})
_MOST_FEATURES = 256
_MOST_OF_HALVES = 1 << 26
"""Multiplications of half types up to which to launch the composition takes longer than these:
with more, products by tensor cores are quicker, even though scores go through memory."""
_LARGEST = (1 << 31) - 1
_ROWS = (4, 2)
"""Of a thread: with more, shared memory is read less; with fewer, there are more blocks."""
_MOST_SUMS = 256
"""Features and columns of which a thread sums four rows in registers."""


class FlashProblem(NamedTuple):
    """Attention of many queries, or its gradient, on operands that lie in some way.

    Attributes:
        gradient: whether it is the gradient.
        dtype: of queries, keys, values and the result.
        mask: its dtype; empty if there is none.
        causal: whether query i sees the keys up to i only.
        lse: whether the logarithm of the sum of exponentials is a second result.
        batch: sizes of the axes of heads of keys and values.
        group: heads of queries that share one of these.
        queries, keys: how many.
        features, columns: of queries and keys, and of values.
        strides: of operands and results in the order of the kernel's pointers, along `batch`, the
            group, places, and elements.
        vectors: elements that are loaded at once of operands that have features.
    """

    gradient: bool
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
    vectors: tuple[int, ...]

    @property
    def heads(self) -> int:
        """Of keys and values."""
        return math.prod(self.batch)


def problem_of(
    op: Op, avals: Sequence[Aval], strides: Sequence[Strides] | None = None,
    results: Sequence[Strides] | None = None, offsets: Sequence[int] | None = None,
) -> FlashProblem | None:  # fmt: skip
    """The problem of an operation; None for what the kernels do not take.

    Args:
        strides: of the tensors that have axes; in C order if none are given.
        results: strides of the results, likewise.
        offsets: of the former from a multiple of 16 bytes, in bytes; 0 if none are given.
    """
    if op.operation not in _OPERATIONS:
        return None
    gradient = op.operation is ATTENTION_GRADIENT
    query, key, value, mask = avals[1:5] if gradient else avals[:4]
    dtype = query.dtype.name
    if dtype != "float32" and dtype not in HALVES:
        return None
    if mask.dtype.name not in ("bool", dtype) or any(0 in a.shape for a in avals):
        return None
    made = infer(op, avals)
    lead = (avals[0] if gradient else made[0]).shape[:-2]
    places, features, columns = query.shape[-2], query.shape[-1], value.shape[-1]
    keys = key.shape[-2]
    products = math.prod(lead) * places * keys * (features + columns)
    if max(features, columns) > _MOST_FEATURES or max(places, keys) > _LARGEST // 2:
        return None
    if dtype in HALVES and products > _MOST_OF_HALVES:
        return None
    shared = _shared(lead, query.shape, key.shape, value.shape)
    if gradient and shared is None:
        return None
    tensors = [a for a in avals if a.shape]
    given = list(strides or [contiguous(a.shape) for a in tensors])
    written = list(results or [contiguous(a.shape) for a in made])
    # Logarithms have no axis of features.
    flat = (len(tensors) - 1,) if gradient else (len(tensors) + 1,)
    every = [*tensors, *made]
    lying = []
    for n, (aval, steps) in enumerate(zip(every, [*given, *written], strict=True)):
        own, own_steps = (aval.shape, steps) if n not in flat else ((*aval.shape, 1), (*steps, 0))
        sizes = (places, keys) if aval is mask else own[-2:]
        lying.append(along((*lead, *sizes), own, own_steps))
    if shared is None:
        shared = tuple([lying[1][n] == lying[2][n] == 0 for n in range(len(lead))])
    batch, group, found = head_axes(lead, lying, shared)
    if len(batch) > BATCH or len(group) > 1:
        return None
    rows = [0, 1, 2, 3, len(tensors) - 2] if gradient else [0, 1, 2]
    shifts = offsets or [0] * len(tensors)
    return FlashProblem(
        gradient, dtype, mask.dtype.name if mask.shape else "", bool(op.attributes["causal"]),
        len(made) == 2, (*[1] * (BATCH - len(batch)), *batch), math.prod(group), places, keys,
        features, columns, tuple(found),
        tuple([vector(dtype, every[n].shape[-1], found[n], shifts[n]) for n in rows]),
    )  # fmt: skip


def _shared(
    lead: Sequence[int], query: Sequence[int], key: Sequence[int], value: Sequence[int]
) -> tuple[bool, ...] | None:
    """For each axis of heads whether all queries along it share keys and values; None where a
    gradient would be a sum over others."""
    found = []
    shapes = [(1,) * (len(lead) + 2 - len(shape)) + tuple(shape) for shape in (query, key, value)]
    for axis, size in enumerate(lead):
        of_query, of_key, of_value = (shape[axis] for shape in shapes)
        if of_query != size or of_key != of_value:
            return None
        found.append(of_key == 1 and size > 1)
    return tuple(found)


def rows_of_thread(problem: FlashProblem, processors: int) -> int:
    """Rows of a thread on a GPU of so many multiprocessors: as many as leave each of these two
    blocks. No bit depends on it."""
    most = problem.features + problem.columns
    for rows in _ROWS:
        blocks = problem.heads * problem.group * -(-problem.queries // (rows * GROUPS))
        if blocks >= 2 * processors and most <= _MOST_SUMS:
            return rows
    return _ROWS[-1]


def launches_of(problem: FlashProblem, processors: int) -> Launches | None:
    """The kernel of a problem; None for more blocks than a grid may have."""
    rows = rows_of_thread(problem, processors)
    shape = FlashShape(
        problem.dtype, problem.features, problem.columns, rows, problem.mask, problem.causal,
        problem.lse, problem.vectors,
    )  # fmt: skip
    of_queries, of_keys = (
        -(-count // shape.own) for count in (problem.queries, problem.keys)
    )  # fmt: skip
    blocks = problem.heads * problem.group * of_queries
    if problem.gradient:
        blocks += problem.heads * of_keys
    if blocks > _LARGEST:
        return None
    source = flash_gradient_source if problem.gradient else flash_attention_source
    numbers = [*problem.batch, problem.group, of_queries, of_keys, problem.queries, problem.keys, 0]
    numbers += [step for steps in problem.strides for step in steps]
    kernel = KernelLaunch(
        source.source(shape), source.NAME, tuple(range(len(problem.strides))), tuple(numbers),
        blocks, THREADS,
    )  # fmt: skip
    return Launches((kernel,), 0, SCALE_AT)


class FlashAttention(KernelOffer):
    """The offer of attention of float32, of few scores also of half types, and of its gradient.

    Heads may share keys, a mask may hide keys or be added to scores, and operands and results may
    lie in any way.
    """

    def takes(self, op: Op, avals: Sequence[Aval]) -> bool:
        return problem_of(op, avals) is not None

    def scale_of(self, op: Op) -> int:
        return 5 if op.operation is ATTENTION_GRADIENT else 4

    def launches(
        self, op: Op, avals: Sequence[Aval], strides: Sequence[Strides],
        results: Sequence[Strides] | None, offsets: Sequence[int],
    ) -> Launches | None:  # fmt: skip
        problem = problem_of(op, avals, strides, results, offsets)
        return problem and launches_of(problem, self.backend.limits.processors)
