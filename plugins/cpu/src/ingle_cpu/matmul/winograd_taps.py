"""Taps as patches are multiplied by them: once for each product, or kept beside the weight."""

from __future__ import annotations

from typing import NamedTuple

from .code import taps_address
from .plan import EntrySpec, Pointer, aligned
from .problem import Problem
from .winograd import NUMBERS, ROWS, TAPS, Winograd
from .winograd_code import SIZE
from .winograd_taps_ir import TapsArgs

APART = 5 * 64
"""Bytes between one of the 16 matrices and the next: all are written at once, and those that lie
some pages apart would meet in the same cache sets."""


class TapsPacking(NamedTuple):
    """A weight and its turned taps.

    Attributes:
        features, channels: of the weight.
        row, tap: bytes from feature to feature, and from tap to tap.
        flipped: whether taps go backwards.
    """

    features: int
    channels: int
    row: int
    tap: int
    flipped: bool

    @property
    def nbytes(self) -> int:
        """Of all 16 matrices."""
        return NUMBERS * taps_matrix(self.features, self.channels)


def taps_packing(problem: Problem, lying: Winograd) -> TapsPacking:
    """The taps of a problem."""
    row, tap = (s * SIZE for s in problem.a_strides[-2:])
    return TapsPacking(problem.m, lying.windows.channels, row, tap, lying.flipped)


def taps_matrix(features: int, channels: int) -> int:
    """Bytes from one of the 16 matrices to the next."""
    return aligned(-(-features // ROWS) * ROWS * channels * SIZE) + APART


def turned_taps(packing: TapsPacking, pointers: tuple[Pointer, Pointer]) -> EntrySpec:
    """The entry that turns taps, from the weight to what is made of it."""
    first, step = 0, packing.tap
    if packing.flipped:
        first, step = (TAPS * TAPS - 1) * step, -step
    args = TapsArgs(
        packing.features, packing.channels, packing.row, TAPS * TAPS * packing.tap, first, step,
        taps_matrix(packing.features, packing.channels),
    )  # fmt: skip
    return EntrySpec(taps_address(), pointers, tuple(args), -(-packing.features // ROWS), 1)
