"""The offer of weights that are made of their codes, as for products of many rows: one kernel.

The composition makes whole bytes of the codes first, and puts them through memory. How the kernel
computes it is told in `weights_source`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op

from ..cudnn import Strides
from ..kernel_offers import KernelLaunch, KernelOffer, Launches
from .coded_words import ZERO_AT, shape_of
from .problem import WORD, decoding_of
from .weights_source import AHEAD, NAME, THREADS, source

_ZERO = 2
"""The operand that may be a number."""


class Weights(KernelOffer):
    """The offer of weights of float32 or half types from codes of 2 and 4 bits."""

    def takes(self, op: Op, avals: Sequence[Aval]) -> bool:
        return decoding_of(op, avals) is not None

    def number_of(self, op: Op) -> int:
        return _ZERO

    def launches(
        self, op: Op, avals: Sequence[Aval], strides: Sequence[Strides],
        results: Sequence[Strides] | None, offsets: Sequence[int],
    ) -> Launches | None:  # fmt: skip
        problem = decoding_of(op, avals, strides, results, offsets)
        if problem is None:
            return None
        weight = problem.weight
        blocks = -(-weight.rows * -(-weight.bytes // WORD) // (THREADS * AHEAD))
        kernel = KernelLaunch(
            source(shape_of(weight)), NAME, tuple(range(4 if weight.zero else 3)),
            (*weight.numbers, *problem.out), blocks, THREADS,
        )  # fmt: skip
        return Launches((kernel,), 0, None if weight.zero else ZERO_AT)
