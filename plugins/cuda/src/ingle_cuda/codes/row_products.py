"""The offer of products of few rows by codes, as in decoding: one generated kernel.

The composition makes the weight first, and so moves many times the bytes of its codes. How the
kernel computes it is told in `row_products_source`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingle.fusion.device.cuda import NEST
from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op

from ..cudnn import Strides
from ..kernel_offers import KernelLaunch, KernelOffer, Launches
from .coded_words import ZERO_AT, shape_of
from .problem import WORD, CodesProblem, problem_of
from .row_products_source import OUTS, WARP, RowsShape, source, warps_of

MOST_ROWS = 8
"""With more, the weight is made of its codes once."""
_CODES, _ZERO = 1, 3
"""Operands: the codes, and the one that may be a number."""


def launches_of(problem: CodesProblem) -> Launches | None:
    """The kernel of a problem; None for more rows than it takes."""
    if problem.rows > MOST_ROWS:
        return None
    weight, warps = problem.weight, warps_of(-(-problem.weight.bytes // WORD))
    shape = RowsShape(shape_of(weight), problem.rows, problem.vector, warps)
    blocks = -(-weight.rows // OUTS)
    numbers = (*weight.numbers, *problem.x, *problem.out)
    kernel = KernelLaunch(
        source(shape), NEST, tuple(range(5 if weight.zero else 4)), numbers, blocks, warps * WARP,
        (_CODES,), joins=True,
    )  # fmt: skip
    return Launches((kernel,), 0, None if weight.zero else ZERO_AT)


class RowProducts(KernelOffer):
    """The offer of products of up to 8 rows of float32 or half types by codes of 2 to 8 bits.

    Scales, and zero points if there are any, may be shared by any neighbours in a row of the weight
    and by any of its rows.
    """

    def takes(self, op: Op, avals: Sequence[Aval]) -> bool:
        problem = problem_of(op, avals)
        return problem is not None and problem.rows <= MOST_ROWS

    def number_of(self, op: Op) -> int:
        return _ZERO

    def launches(
        self, op: Op, avals: Sequence[Aval], strides: Sequence[Strides],
        results: Sequence[Strides] | None, offsets: Sequence[int],
    ) -> Launches | None:  # fmt: skip
        problem = problem_of(op, avals, strides, results, offsets)
        return problem and launches_of(problem)
