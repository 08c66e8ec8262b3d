"""The offer of attention of many queries, and of its gradient: one generated kernel each.

cuDNN takes half types without masks alone, and the composition writes a matrix of scores for each
head, reads it four times and more, and launches a dozen kernels. How the kernels compute it is told
in `flash_attention_source` and `flash_gradient_source`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingle.fusion.device.kernels import HALVES
from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op
from ingle.tensor.ops.neural.attention import ATTENTION, ATTENTION_TRAINING
from ingle.tensor.ops.neural.attention_dropout import (
    ATTENTION_DROPOUT,
    ATTENTION_DROPOUT_GRADIENT,
)
from ingle.tensor.ops.neural.attention_gradients import ATTENTION_GRADIENT
from ingle.tensor.ops.random.bits import WORDS

from ..cudnn import Strides
from ..kernel_offers import KernelLaunch, KernelOffer, Launches
from . import flash_attention_source, flash_gradient_source
from .dropped_keys import PLACE, dropout_numbers
from .flash_tiles import DROPOUT_AT, GROUPS, SCALE_AT, THREADS, FlashShape
from .problem import GRADIENTS, LARGEST, Problem, lying

OPERATIONS = frozenset({
    ATTENTION, ATTENTION_TRAINING, ATTENTION_GRADIENT, ATTENTION_DROPOUT,
    ATTENTION_DROPOUT_GRADIENT,
})  # fmt: skip
WORDS_AT = DROPOUT_AT + PLACE
_MOST_FEATURES = 256
_MOST_OF_HALVES = 1 << 26
"""Multiplications of half types up to which to launch the composition takes longer than these:
with more, products by tensor cores are quicker, even though scores go through memory."""
_ROWS = (4, 2)
"""Of a thread: with more, shared memory is read less; with fewer, there are more blocks."""
_MOST_SUMS = 256
"""Features and columns of which a thread sums four rows in registers."""


def problem_of(
    op: Op, avals: Sequence[Aval], strides: Sequence[Strides] | None = None,
    results: Sequence[Strides] | None = None, offsets: Sequence[int] | None = None,
) -> Problem | None:  # fmt: skip
    """The problem of an operation, as of `lying`; None for what the kernels do not take."""
    problem = lying(op, avals, strides, results, offsets) if op.operation in OPERATIONS else None
    if problem is None:
        return None
    features, columns = problem.features, problem.columns
    if max(features, columns) > _MOST_FEATURES:
        return None
    if max(problem.queries, problem.keys) > LARGEST // 2:
        return None
    products = problem.heads * problem.group * problem.queries * problem.keys * (features + columns)
    return None if problem.dtype in HALVES and products > _MOST_OF_HALVES else problem


def rows_of_thread(problem: Problem, processors: int) -> int:
    """Rows of a thread on a GPU of so many multiprocessors: as many as leave each of these two
    blocks. No bit depends on it."""
    most = problem.features + problem.columns
    for rows in _ROWS:
        blocks = problem.heads * problem.group * -(-problem.queries // (rows * GROUPS))
        if blocks >= 2 * processors and most <= _MOST_SUMS:
            return rows
    return _ROWS[-1]


def launches_of(problem: Problem, processors: int) -> Launches | None:
    """The kernel of a problem; None for more blocks than a grid may have."""
    rows = rows_of_thread(problem, processors)
    shape = FlashShape(
        problem.dtype, problem.features, problem.columns, rows, problem.mask, problem.causal,
        problem.lse, problem.vectors, problem.dropout is not None,
    )  # fmt: skip
    of_queries, of_keys = (
        -(-count // shape.own) for count in (problem.queries, problem.keys)
    )  # fmt: skip
    blocks = problem.heads * problem.group * of_queries
    if problem.gradient:
        blocks += problem.heads * of_keys
    if blocks > LARGEST:
        return None
    source = flash_gradient_source if problem.gradient else flash_attention_source
    numbers = [*problem.batch, problem.group, of_queries, of_keys, problem.queries, problem.keys, 0]
    numbers += dropout_numbers(problem.dropout or 0.0)
    numbers += [step for steps in problem.strides for step in steps]
    kernel = KernelLaunch(
        source.source(shape), source.NAME, tuple(range(problem.pointers)), tuple(numbers),
        blocks, THREADS,
    )  # fmt: skip
    return Launches((kernel,), 0, SCALE_AT, WORDS_AT)


class FlashAttention(KernelOffer):
    """The offer of attention of float32, of few scores also of half types, and of its gradient.

    Heads may share keys, a mask may hide keys or be added to scores, and operands and results may
    lie in any way.
    """

    def takes(self, op: Op, avals: Sequence[Aval]) -> bool:
        return problem_of(op, avals) is not None

    def number_of(self, op: Op) -> int:
        return 5 if op.operation in GRADIENTS else 4

    def words_of(self, op: Op) -> tuple[int, ...]:
        if op.attributes.get("p") is None:
            return ()
        first = self.number_of(op) + 1
        return tuple(range(first, first + len(WORDS)))

    def launches(
        self, op: Op, avals: Sequence[Aval], strides: Sequence[Strides],
        results: Sequence[Strides] | None, offsets: Sequence[int],
    ) -> Launches | None:  # fmt: skip
        problem = problem_of(op, avals, strides, results, offsets)
        return problem and launches_of(problem, self.backend.limits.processors)
