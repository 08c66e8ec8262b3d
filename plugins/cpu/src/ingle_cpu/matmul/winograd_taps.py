"""Taps as patches are multiplied by them: once for each product, or kept beside the weight."""

from __future__ import annotations

from .code import taps_address
from .plan import EntrySpec, Pointer
from .problem import Problem
from .taps_packing import TapsPacking, taps_matrix
from .winograd import Winograd, rows_of
from .winograd_code import SIZE
from .winograd_form import FORMS
from .winograd_taps_ir import TapsArgs


def taps_packing(problem: Problem, lying: Winograd) -> TapsPacking:
    """The taps of a problem."""
    row, tap = (s * SIZE for s in problem.a_strides[-2:])
    taps = lying.form.taps
    rows = rows_of(problem.m)
    return TapsPacking(taps, rows, problem.m, lying.channels, row, tap, lying.flipped)


def turned_taps(packing: TapsPacking, pointers: tuple[Pointer, Pointer]) -> EntrySpec:
    """The entry that turns taps, from the weight to what is made of it."""
    first, step, count = 0, packing.tap, packing.taps**2
    if packing.flipped:
        first, step = (count - 1) * step, -step
    args = TapsArgs(
        packing.features, packing.channels, packing.row, count * packing.tap, first, step,
        taps_matrix(packing.rows, packing.features, packing.channels),
    )  # fmt: skip
    turn = taps_address(FORMS[packing.taps], packing.rows)
    return EntrySpec(turn, pointers, tuple(args), -(-packing.features // packing.rows), 1)
