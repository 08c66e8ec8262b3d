"""Tables of launches whose sizes are symbols: what of them sizes decide, as polynomials.

A product's arguments are whole numbers that follow from its sizes and from how it is computed. The
latter changes no bits, so that the choice for one size serves those that are not far from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ingle.fusion.device import Launch, example_of, has_sizes
from ingle.fusion.device.kernels import SIZES, ContractionCall

from ..matmul.autotune import choice_for
from ..matmul.beside import may_be_beside
from ..matmul.blocking import sums_alike, widths
from ..matmul.launches import Choice, Problem
from ..matmul.tile_fit import NEAR_BYTES
from ..matmul.window_blocking import slides_alike
from ..matmul.winners import Asked
from ..matmul.winograd import may_be_winograd
from ..threads.table import Table
from .table_builder import TableBuilder
from .table_set import SymbolicTable

BELOW, ABOVE = 2, 4
"""How many times smaller and larger than the example sizes of products may be."""
LASTING_BYTES = 1 << 18
"""Of a right operand from which on it may be worth keeping in panels, which a table for all sizes
does not."""
WINDOW_BYTES = 1 << 22
"""Of windows, of which none are kept, up to which a choice for others may be nearly as good."""


def has_table(calls: Sequence[Any]) -> bool:
    """Whether there is a table for all sizes of some kernels."""
    return all(not isinstance(c, ContractionCall) or _is_small(c) for c in calls)


def _is_small(call: ContractionCall) -> bool:
    """Whether a product's right operand is not worth keeping in panels, as a large matrix is, and
    sizes make no difference to the order of sums. How windows are read is a case of its own for
    each few sizes of images, so that these have no table."""
    _, n, k = example_of(call.sizes)
    m, _, deep = call.sizes
    if call.windows is not None and has_sizes(call.windows):
        return False
    if may_be_beside(call.windows, call.dtype):
        return False
    if may_be_winograd(call.windows, call.dtype, m, deep):
        return False
    most = LASTING_BYTES if call.windows is None else WINDOW_BYTES
    return bool(n * k * SIZES[call.b_dtype] <= most)


def symbolic_table(
    launches: Sequence[Launch], buffers: int, scalars: Sequence[str]
) -> tuple[SymbolicTable, tuple[Any, ...]]:
    """The table of launches for all sizes, and what these decide: arguments that they occur in,
    offsets of pointers, units and grains of entries, bytes of scratch memory.

    Args:
        launches: where sizes are symbols.
        buffers: how many buffers there are; the scratch memory is one more.
        scalars: the dtypes of the numbers that they take.
    """
    builder = _SymbolicBuilder(buffers)
    builder.add_all(launches, None)
    return builder.symbolic_table(scalars)


class _SymbolicBuilder(TableBuilder):
    """Entries in which sizes are symbols."""

    keeps_panels = False

    def symbolic_table(self, dtypes: Sequence[str]) -> tuple[SymbolicTable, tuple[Any, ...]]:
        """The table, and what sizes decide."""
        table = Table(
            [e._replace(units=0, grain=1) for e in self._entries], base_of=self._base_of,
            offset_of=[0] * len(self._offset_of), buffers=self._buffers,
            args=[0 if has_sizes(value) else value for value in self._args], code=self._code,
        )  # fmt: skip
        places = [n for n, value in enumerate(self._args) if has_sizes(value)]
        symbolic = SymbolicTable(
            table, sized=places, scalars=[(at // 8, n, dtypes[n]) for at, n in self._patches],
            addressed=self._addressed, tuned=self._tuned,
        )  # fmt: skip
        return symbolic, (
            tuple([self._args[n] for n in places]), tuple(self._offset_of),
            tuple([e.units for e in self._entries]), tuple([e.grain for e in self._entries]),
            self._scratch,
        )  # fmt: skip

    def _choice(self, problem: Problem, workers: int, asked: dict[str, Asked]) -> Choice:
        """That of the example, for sizes about as large whose sums are taken alike."""
        example = example_of(problem)
        for size, known in zip(
            (math.prod(problem.batch), problem.m, problem.n, problem.k),
            (math.prod(example.batch), example.m, example.n, example.k),
            strict=True,
        ):
            if has_sizes(size):
                near = BELOW * size >= known and size <= ABOVE * known
                assert near, "the example is near itself"
        choice = choice_for(example, workers, asked)
        if choice.tile.takes_lines and has_sizes((problem.m, problem.k)):
            # Only whole tiles of whole lines are read where they lie.
            tile = choice.tile._replace(kind=choice.tile.instruction)
            choice = choice._replace(tile=tile, pack_a="before")
        alike = sums_alike(problem, example) and slides_alike(problem, choice)
        assert alike, "symbols answer as the example does"
        if choice.slides:
            return choice
        _, _, panels = widths(example, choice)
        few = example.n * example.k * SIZES[example.b_dtype] <= NEAR_BYTES // ABOVE
        # Where all columns are near, more of them are as well.
        return choice._replace(near=ABOVE * panels) if few and choice.near == panels else choice
