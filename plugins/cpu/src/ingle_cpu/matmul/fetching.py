"""Which operands of an epilogue are brought near before it needs them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.kernels import SIZES

from .blocking import widths
from .epilogue import Epilogue, is_identity
from .problem import Choice, Problem
from .window_blocking import padded

STEPS_OF_AN_OPERAND = 64
"""Of k, for each operand of the epilogue that is asked for before the tiles."""


class Fetched(NamedTuple):
    """Operands of the epilogue that are brought near before it reads or writes them.

    Attributes:
        numbers: which; first those that tiles fetch ahead.
        row: bytes of a row of each.
        ahead: how many tiles fetch ahead.
        asked: how many others are asked for before each group of tiles.
    """

    numbers: Sequence[int] = ()
    row: int = 1
    ahead: int = 0
    asked: int = 0


def fetched_of(
    problem: Problem, choice: Choice, epilogue: Epilogue, strides: Sequence[Sequence[int]]
) -> Fetched:
    """What of the epilogue's operands lies in dense rows of the same length.

    Tiles fetch what is read, if they do not have to fetch b; pieces of all other rows are asked
    for, unless sums are so short that this would take a part of their time. Nothing where there is
    more than one matrix, or where tiles go to the result at once.
    """
    _, _, panels = widths(problem, choice)
    if padded(problem, choice) or math.prod(problem.batch) != 1 or is_identity(epilogue):
        return Fetched()
    rows = {
        n: problem.n * SIZES[operand.dtype]
        for n, (operand, steps) in enumerate(zip(epilogue.operands, strides, strict=True))
        if tuple(steps[-2:]) == (problem.n, 1)
    }
    longest = max(rows.values(), default=1)
    numbers = [n for n, nbytes in rows.items() if nbytes == longest]
    ahead: list[int] = []
    if choice.near * choice.panel_blocks >= panels:
        ahead = [n for n in numbers if not epilogue.operands[n].output]
    most = problem.k * problem.turns // STEPS_OF_AN_OPERAND
    asked = [n for n in numbers if n not in ahead][:most]
    return Fetched([*ahead, *asked], longest, len(ahead), len(asked))
