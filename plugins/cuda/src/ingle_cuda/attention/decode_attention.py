"""The offer of attention of few queries, as in decoding: one generated kernel, or two.

The composition is six kernels, each of which takes longer to begin than to run, and cuDNN's kernels
are made for many queries. How the kernels compute it is told in `decode_attention_source`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op
from ingle.tensor.ops.neural.attention import ATTENTION, ATTENTION_TRAINING

from ..cudnn import Strides
from ..kernel_offers import SCRATCH, KernelLaunch, KernelOffer, Launches
from .combined_pieces import COMBINE, combine_source
from .decode_attention_source import (
    NAME,
    PIECE,
    SCALE_AT,
    THREADS,
    WARP,
    KernelShape,
    source,
)
from .problem import LARGEST, Problem, lying

_OPERATIONS = frozenset({ATTENTION, ATTENTION_TRAINING})
MOST_QUERIES = 16
"""With more, products of matrices pay."""
_MOST_FEATURES = 256
_MOST_COLUMNS = 1024
"""Of the rows of a block together: each warp keeps its own in shared memory."""
_ROWS = (8, 4, 2, 1)
"""Queries of a block."""
_SCALE = 4
"""The operand that is a factor of all scores."""


def problem_of(
    op: Op, avals: Sequence[Aval], strides: Sequence[Strides] | None = None,
    results: Sequence[Strides] | None = None, offsets: Sequence[int] | None = None,
) -> Problem | None:  # fmt: skip
    """The problem of an operation, as of `lying`, without keys that no query sees; None for what
    the kernels do not take."""
    problem = lying(op, avals, strides, results, offsets) if op.operation in _OPERATIONS else None
    if problem is None or problem.queries > MOST_QUERIES:
        return None
    if problem.causal and problem.keys > problem.queries:
        problem = problem._replace(keys=problem.queries)
    lines = problem.heads * problem.group * problem.queries
    if max(problem.features, problem.columns) > _MOST_FEATURES:
        return None
    return None if max(lines, problem.keys) > LARGEST else problem


def rows_of_block(problem: Problem, processors: int) -> int:
    """Queries of a block on a GPU of so many multiprocessors: as many as leave each of these one.

    No bit depends on it.
    """
    rows = problem.group * problem.queries
    beside = problem.heads * -(-problem.keys // PIECE)
    fitting = [n for n in _ROWS if n * problem.columns <= _MOST_COLUMNS and n < 2 * rows]
    return next((n for n in fitting if beside * -(-rows // n) >= processors), 1)


def launches_of(problem: Problem, processors: int) -> Launches | None:
    """The kernels of a problem; None for more blocks than a grid may have."""
    rows, each = problem.group * problem.queries, rows_of_block(problem, processors)
    blocks, pieces = -(-rows // each), -(-problem.keys // PIECE)
    heads, columns = problem.heads, problem.columns
    if heads * blocks * pieces > LARGEST:
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

    def number_of(self, op: Op) -> int:
        return _SCALE

    def launches(
        self, op: Op, avals: Sequence[Aval], strides: Sequence[Strides],
        results: Sequence[Strides] | None, offsets: Sequence[int],
    ) -> Launches | None:  # fmt: skip
        problem = problem_of(op, avals, strides, results, offsets)
        return problem and launches_of(problem, self.backend.limits.processors)
