"""How far kernels reach into their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..kernel.nest import BLOCK, Dots, folds
from ..lowering.folding import windows_of
from ..lowering.nests import NestCall


class Reach(NamedTuple):
    """What a kernel touches of an operand, in elements from where it begins.

    Attributes:
        first, last: the lowest and the highest.
        anywhere: whether rows begin at computed places: `last` is how far they go on from these.
    """

    first: int
    last: int
    anywhere: bool


class Reaches:
    """The reach of the kernels of a plan."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Sequence[Reach]] = {}

    def of(self, call: NestCall, by_columns: tuple[bool, ...]) -> Sequence[Reach]:
        """That of a kernel into each operand, found once for all layers that are alike.

        Args:
            call: has to live as long as this.
            by_columns: for each operand whether the kernel writes it in blocks of rows.
        """
        # Calls that were written again for other layers have their parts in common.
        parts = id(call.nest), id(call.sizes), id(call.strides), id(call.fixed)
        found = self._found.get((parts, by_columns))
        if found is None:
            found = [_reach(call, number, blocks) for number, blocks in enumerate(by_columns)]
            self._found[parts, by_columns] = found
        return found


def _reach(call: NestCall, number: int, blocks: bool) -> Reach:
    operand, strides, sizes = call.nest.operands[number], call.strides[number], call.sizes
    if blocks:
        sizes = (-(-sizes[0] // BLOCK), *sizes[1:])  # to the last block of rows
    taps = isinstance(call.nest.stages[0], Dots)
    if folds(call.nest) and (taps or not call.arguments[number].output):
        sizes, strides = windows_of(call, number)
    steps = [(n - 1) * s for n, s in zip(sizes, strides, strict=True)]
    first, last = sum(min(s, 0) for s in steps), sum(max(s, 0) for s in steps)
    if operand.row_base is not None:
        return Reach(0, last - first, anywhere=True)
    return Reach(first, last, anywhere=False)
