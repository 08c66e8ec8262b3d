"""The tables of executables and of launches for all sizes: entries, pointers and arguments."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from ..matmul.prepacked import PackedOperand
from ..matmul.winners import Asked
from ..threads.abi import GRAIN, UNITS
from ..threads.table import IdleTables, Table, TableEntry


class TableSet(IdleTables):
    """Tables of the launches of an executable.

    Args:
        table: the first of them.
        count: how many buffers it has.

    Attributes:
        addresses: makes bytes of the buffers' addresses.
        spans: of each launch its first entry and the one behind its last.
        patches: where numbers go: (byte in the arguments, position of the number).
        scratch: bytes of scratch memory.
        prepackable: operands that may be prepacked.
        addressed: places of arguments that are addresses of code.
        tuned: how products were chosen, by the problems' names; see `winners.Asked`.
        pieces: how many grains of work there are.
    """

    def __init__(
        self, table: Table, count: int, *, spans: Sequence[tuple[int, int]],
        patches: Sequence[tuple[int, int]], scratch: int,
        prepackable: Sequence[PackedOperand],
        addressed: Sequence[int], tuned: Mapping[str, Asked],
    ) -> None:  # fmt: skip
        super().__init__(table)
        self.addresses = struct.Struct(f"{count}q")
        self.spans = spans
        self.patches = patches
        self.scratch = scratch
        self.prepackable = prepackable
        self.addressed = addressed
        self.tuned = tuned
        self.pieces = float((table.entries[:, UNITS] / table.entries[:, GRAIN]).sum())

    @cached_property
    def rows(self) -> list[list[int]]:
        """The entries, and one behind them that begins where pointers and arguments end."""
        table = self.table
        entries: list[list[int]] = table.entries[:, : len(TableEntry._fields)].tolist()
        return [*entries, [0, len(table.base_of), len(table.args)]]

    @cached_property
    def places(self) -> tuple[list[tuple[int, int]], list[int]]:
        """The patches and the places of addresses of code, in order."""
        return sorted(self.patches), sorted(self.addressed)


class SymbolicTable(IdleTables):
    """The table of launches for all sizes.

    Args:
        table: whose sizes are filled in for each run.
        sized: places of the arguments that sizes decide.
        scalars: places in the arguments, positions of numbers, and their dtypes.
        addressed: places of arguments that are addresses of code.
        tuned: how products were chosen, by the problems' names; see `winners.Asked`.
    """

    def __init__(
        self, table: Table, *, sized: Sequence[int], scalars: Sequence[tuple[int, int, str]],
        addressed: Sequence[int], tuned: Mapping[str, Asked],
    ) -> None:  # fmt: skip
        super().__init__(table)
        self.sized = list(sized)
        self.scalars = scalars
        self.addressed = addressed
        self.tuned = tuned
        self._args = table.args.copy()

    def filled(self, sized: Sequence[int]) -> np.ndarray:
        """All arguments, given those that sizes decide."""
        args = self._args.copy()
        args[self.sized] = sized
        return args
