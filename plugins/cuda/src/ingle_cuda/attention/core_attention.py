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
from .core_words import MOST_BYTES, words_bytes
from .dropped_keys import dropout_numbers
from .flash_attention import OPERATIONS, WORDS_AT, FlashAttention
from .flash_tiles import SCALE_AT
from .head_axes import BATCH
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
    mask = 4 if problem.gradient else 3
    padding = problem.mask == "bool" and problem.strides[mask][BATCH + 1] == 0
    shape = CoreShape(
        problem.dtype, problem.features, problem.columns, problem.mask, problem.causal,
        problem.lse, problem.vectors, problem.dropout is not None, padding,
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
    of_keys *= problem.heads * core_gradient_source.blocks_of_keys(shape)
    if max(blocks, of_keys) > LARGEST:
        return None
    nbytes = 8 * lines * problem.queries
    if problem.dropout is not None:
        more = words_bytes(lines, problem.queries, problem.keys)
        shape = shape._replace(words=more <= MOST_BYTES)
        nbytes += more * shape.words
    kernels = tuple([
        KernelLaunch(text(shape), name, (*operands, SCRATCH), given, count, THREADS)
        for text, name, count in (
            (core_gradient_source.levels_source, core_gradient_source.LEVELS, blocks),
            (core_gradient_source.keys_source, core_gradient_source.KEYS, of_keys),
            (core_gradient_source.queries_source, core_gradient_source.QUERIES, blocks),
        )
    ])  # fmt: skip
    return Launches(kernels, nbytes, SCALE_AT, WORDS_AT)


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
