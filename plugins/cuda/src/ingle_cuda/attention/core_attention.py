"""The offer of attention of half types by tensor cores, and of its gradient: what the library does
not take, with any mask, and with keys that are left out at random.

How the kernels compute it is told in `core_attention_source` and `core_gradient_source`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingle.fusion.device.kernels import HALVES
from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op

from ..cudnn import Strides
from ..kernel_offers import SCRATCH, KernelLaunch, Launches
from . import core_attention_source, core_gradient_source
from .core_tiles import OWN, THREADS, CoreShape
from .dropped_keys import dropout_numbers
from .flash_attention import OPERATIONS, WORDS_AT, FlashAttention
from .flash_tiles import SCALE_AT
from .problem import LARGEST, Problem, lying

MOST_FEATURES = 128
"""With more, rows and sums have no room in registers."""


def problem_of(
    op: Op, avals: Sequence[Aval], strides: Sequence[Strides] | None = None,
    results: Sequence[Strides] | None = None, offsets: Sequence[int] | None = None,
) -> Problem | None:  # fmt: skip
    """The problem of an operation, as of `lying`; None for what the kernels do not take."""
    problem = lying(op, avals, strides, results, offsets) if op.operation in OPERATIONS else None
    if problem is None or problem.dtype not in HALVES:
        return None
    if max(problem.features, problem.columns) > MOST_FEATURES:
        return None
    return None if max(problem.queries, problem.keys) > LARGEST // 2 else problem


def launches_of(problem: Problem) -> Launches | None:
    """The kernels of a problem; None for more blocks than a grid may have."""
    shape = CoreShape(
        problem.dtype, problem.features, problem.columns, problem.mask, problem.causal,
        problem.lse, problem.vectors, problem.dropout is not None,
    )  # fmt: skip
    of_queries, of_keys = (-(-count // OWN) for count in (problem.queries, problem.keys))
    lines = problem.heads * problem.group
    numbers = [*problem.batch, problem.group, of_queries, of_keys, problem.queries, problem.keys, 0]
    numbers += dropout_numbers(problem.dropout or 0.0)
    numbers += [step for steps in problem.strides for step in steps]
    operands = tuple(range(problem.pointers))
    blocks, given = lines * of_queries, tuple(numbers)
    if not problem.gradient:
        if blocks > LARGEST:
            return None
        text, name = core_attention_source.source(shape), core_attention_source.NAME
        kernel = KernelLaunch(text, name, operands, given, blocks, THREADS)
        return Launches((kernel,), 0, SCALE_AT, WORDS_AT)
    many = blocks + problem.heads * of_keys * core_gradient_source.blocks_of_keys(shape)
    if many > LARGEST:
        return None
    operands = (*operands, SCRATCH)
    levels = KernelLaunch(
        core_gradient_source.levels_source(shape), core_gradient_source.LEVELS, operands, given,
        blocks, THREADS,
    )  # fmt: skip
    kernel = KernelLaunch(
        core_gradient_source.source(shape), core_gradient_source.NAME, operands, given, many,
        THREADS,
    )  # fmt: skip
    return Launches((levels, kernel), 8 * lines * problem.queries, SCALE_AT, WORDS_AT)


class CoreAttention(FlashAttention):
    """The offer of attention of half types, and of its gradient, on GPUs with tensor cores.

    Heads may share keys, a mask may hide keys or be added to scores, keys may be left out at
    random, and operands and results may lie in any way.
    """

    def takes(self, op: Op, avals: Sequence[Aval]) -> bool:
        return problem_of(op, avals) is not None

    def launches(
        self, op: Op, avals: Sequence[Aval], strides: Sequence[Strides],
        results: Sequence[Strides] | None, offsets: Sequence[int],
    ) -> Launches | None:  # fmt: skip
        problem = problem_of(op, avals, strides, results, offsets)
        return problem and launches_of(problem)
