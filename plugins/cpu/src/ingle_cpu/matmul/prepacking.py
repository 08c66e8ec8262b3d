"""Which operands of products may be prepacked, and how."""

from __future__ import annotations

import math
from typing import NamedTuple

from ingle.fusion.device import BufferOffset

from .blocking import choose
from .launches import packing_of_b
from .packing import Packing
from .prepacked import PackedOperand, order_of
from .problem import Choice, Problem

LEAST = 512
"""Elements of an operand that takes longer to copy than to look up."""
MOST_ROWS = 256
"""With more rows, packing takes a small part of a product's time."""


class Prepacking(NamedTuple):
    """How the right operand of a product is kept, wherever it lies.

    Attributes:
        choice: how the product is computed from its panels.
        packing: into these.
    """

    choice: Choice
    packing: Packing

    def operand(self, launch: int, place: BufferOffset) -> PackedOperand:
        """That of one of an executable's products, which lies at some place."""
        return PackedOperand(
            launch, place.buffer, order_of(self.packing, place.offset), self.choice
        )


def prepackable(problem: Problem, usual: Choice) -> bool:
    """Whether a product, which is usually computed by a choice, gains by an operand in panels."""
    if not usual.pack_b or usual.tile.kind == "dot" or 0 in (problem.m, problem.n, problem.k):
        return False
    if problem.windows is not None or problem.n * problem.k < LEAST:
        return False
    repeats = [n for n, s in zip(problem.batch, problem.b_strides, strict=False) if not s]
    return problem.m * math.prod(repeats) <= MOST_ROWS


def prepacking(problem: Problem, workers: int, guess: Choice | None = None) -> Prepacking:
    """How the right operand of a product is kept.

    The shape of its panels does not follow from measurements, so that products of other batch sizes
    read the same ones.

    Args:
        problem: the product.
        workers: on how many threads it is computed.
        guess: how, without a measurement; `choose` says so if None.
    """
    choice = (guess or choose(problem, workers))._replace(pack_b="before")
    return Prepacking(choice, packing_of_b(problem, choice))
