"""Which operands of products may be prepacked, and how: right ones, or the taps of a weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device import BufferOffset

from .blocking import choose
from .launches import packing_of_b
from .packing import Packing
from .plan import PANELS, B, Pointer
from .prepacked import PackedOperand, order_of
from .problem import Choice, Problem
from .taps_packing import WINOGRAD, TapsPacking
from .winograd import winograd_of
from .winograd_taps import taps_packing

LEAST = 512
"""Elements of an operand that takes longer to copy than to look up."""
MOST_ROWS = 256
"""With more rows, packing takes a small part of a product's time."""


class Prepacking(NamedTuple):
    """How an operand of a product is kept, wherever it lies.

    Attributes:
        choice: how the product is computed from its panels.
        packing: into these.
    """

    choice: Choice
    packing: Packing | TapsPacking

    def operand(self, launch: int, pointers: Sequence[BufferOffset]) -> PackedOperand:
        """That of one of an executable's products, whose operands lie at some places."""
        place = pointers[0 if self.choice.pack_b == WINOGRAD else 1]
        return PackedOperand(
            launch, place.buffer, order_of(self.packing, place.offset), self.choice
        )


def panels_pointer(choice: Choice) -> Pointer:
    """What points at the panels that are kept: taps lie beside the weight, others in its place."""
    return PANELS if choice.pack_b == WINOGRAD else B


def prepackable(problem: Problem, usual: Choice) -> bool:
    """Whether a product, which is usually computed by a choice, gains by an operand in panels."""
    if usual.pack_b == WINOGRAD:
        return True
    if not usual.pack_b or usual.tile.kind == "dot" or 0 in (problem.m, problem.n, problem.k):
        return False
    if problem.windows is not None or problem.n * problem.k < LEAST:
        return False
    repeats = [n for n, s in zip(problem.batch, problem.b_strides, strict=False) if not s]
    return problem.m * math.prod(repeats) <= MOST_ROWS


def prepacking(problem: Problem, workers: int, guess: Choice | None = None) -> Prepacking:
    """How an operand of a product is kept.

    The shape of its panels does not follow from measurements, so that products of other batch sizes
    read the same ones.

    Args:
        problem: the product.
        workers: on how many threads it is computed.
        guess: how, without a measurement; `choose` says so if None.
    """
    choice = guess or choose(problem, workers)
    if choice.pack_b == WINOGRAD:
        lying = winograd_of(problem)
        assert lying is not None, "the choice was made for a problem that is computed so"
        return Prepacking(choice, taps_packing(problem, lying))
    choice = choice._replace(pack_b="before")
    return Prepacking(choice, packing_of_b(problem, choice))
