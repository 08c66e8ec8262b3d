"""Launches of a plan as a table that the thread pool walks."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from ingle.fusion.device import DonationState, Launch, Lender
from ingle.fusion.device.executables import ShareOfTime
from ingle.fusion.device.kernels import NestCall, bits_of
from ingle.tensor.late_imports import late

from ..matmul import prepacked
from ..matmul.prepacked import Panels, cached_panels, panels_of
from ..memory import CpuHandle, lent_memory
from ..threads.table import Table
from .interrupts import run_interruptibly
from .table_set import TableSet

BUILDER = "ingle_cpu.launch.table_builder"
"""The module that makes tables, and imports all that writes kernels: an executable that comes whole
from the disk does without."""
QUICK = 4
"""Grains of work up to which a plan keeps Python's lock, which takes longer to get back."""

MANY = 20_000
LONG = 0.5
"""Grains of work, and seconds, from which on a plan lets Ctrl-C stop it."""

MOST_TABLE_SETS = 8
"""Of operands in panels and others: a few of the ways to have some of them are enough."""
NO_PANELS: Sequence[Panels] = ()
PACKING_RUNS = 4
"""Runs that pack what is there in panels: making a table that reads these takes longer."""
BUILDING = ShareOfTime(0.1)
"""The part of the time in which such tables are made: all plans of a program that generates text
come to their fifth run in the same text."""

_FORMATS = {
    "bool": "?7x", "int8": "b7x", "int16": "h6x", "int32": "i4x", "int64": "q",
    "uint8": "B7x", "uint16": "H6x", "uint32": "I4x", "uint64": "Q",
    "float16": "e6x", "float32": "f4x", "float64": "d",
}  # fmt: skip


class PreparedLaunch(NamedTuple):
    """A run that is ready.

    Attributes:
        table: what runs; it knows addresses and numbers.
        tables: whose table that is; `idle` gets it back.
        panels: what the run reads besides.
    """

    table: Table
    tables: TableSet
    panels: Sequence[Panels]


class CpuExecutable:
    """Kernels that run one after the other without Python in between.

    Args:
        launches: makes the kernels with their operands, where these are wanted again.
        buffers: how many buffers there are.
        scalars: dtypes of the numbers that each run is given.
        usual: the tables of the launches.
        prepackable: of the operands that may be prepacked those that are.

    Attributes:
        seconds: how long the last run took that was long enough to be measured.
        renewed: whether it was found on disk and built anew.
        outdated: whether it was found on disk, and the tuner has a better choice by now, or time
            for measurements.
        turn_seconds: how long a turn of the last loop took that ran it first; None before that.
    """

    renewed = False
    outdated = False
    profiles_whole = True

    def __init__(
        self, launches: Callable[[], Sequence[Launch]], buffers: int, scalars: Sequence[str],
        usual: TableSet, prepackable: Sequence[prepacked.PackedOperand],
    ) -> None:  # fmt: skip
        self.launches = launches
        self.buffers = buffers
        self.scalars = scalars
        self.usual = usual
        self.prepackable = prepackable
        self._orders = [o.order for o in prepackable]
        self._table_sets: dict[tuple[int, ...], TableSet] = {(): usual}
        self._packing_runs = 0
        self._packers = {n: packer(scalars[n]) for n in {n for _, n in usual.patches}}
        self._quick = usual.pieces < QUICK
        self._long = usual.pieces > MANY
        self.seconds = 0.0
        self.turn_seconds: float | None = None

    @staticmethod
    def of(launches: Sequence[Launch], buffers: int, scalars: Sequence[str]) -> CpuExecutable:
        """Launches, compiled and ready to run."""
        usual = late(BUILDER).build_tables(launches, buffers)
        unsettled = {0} | prepacked.written(launches)
        prepackable = [o for o in usual.prepackable if o.buffer not in unsettled]
        return CpuExecutable(lambda: launches, buffers, scalars, usual, prepackable)

    def anew(self) -> CpuExecutable:
        """The same as it would be made now."""
        made = CpuExecutable.of(self.launches(), self.buffers, self.scalars)
        made.renewed = True
        return made

    @property
    def prepacks(self) -> tuple[int, ...]:
        """The buffers of operands that it prepacks where they come again and again."""
        return tuple([operand.buffer for operand in self.prepackable])

    @property
    def bare(self) -> bool:
        """Whether a run is so short that it keeps Python's lock, and has no operands that may be
        prepacked."""
        return self._quick and not self.prepackable

    @property
    def long(self) -> bool:
        """Whether it takes so long that Ctrl-C should be able to end it."""
        return self._long

    def __call__(
        self,
        addresses: Sequence[int],
        scalars: Sequence[Any],
        donation: DonationState | None = None,
        prepacks: Sequence[CpuHandle | None] = (),
    ) -> None:
        """Runs them on buffers at these addresses; `prepacks` are the handles of some, or None."""
        tables, panels = self._chosen(prepacks) if prepacks else (self.usual, NO_PANELS)
        table = tables.taken()
        scratch = packing_memory.lend(tables.scratch, lent_memory) if tables.scratch else None
        place = 0 if scratch is None else scratch.address
        self._fill(tables, table, addresses, panels, scalars, place)
        if self._quick:
            table.run(release=False, donation=donation)
        else:
            self._run(table, donation)
        tables.idle.append(table)
        if scratch is not None:
            packing_memory.take_back(scratch)

    def prepared(
        self,
        addresses: Sequence[int],
        scalars: Sequence[Any],
        prepacks: Sequence[CpuHandle | None],
        scratch: Callable[[int], int],
        turns: int = 1,
    ) -> PreparedLaunch:
        """All but the run, which has some turns; `scratch` finds memory of some bytes for it."""
        tables, panels = self.usual, NO_PANELS
        if prepacks:
            tables, panels = self._with(self._panels(prepacks, turns))
        table = tables.taken()
        place = scratch(tables.scratch) if tables.scratch else 0
        self._fill(tables, table, addresses, panels, scalars, place)
        return PreparedLaunch(table, tables, panels)

    def profile(
        self,
        addresses: Sequence[int],
        scalars: Sequence[Any],
        runs: int,
        prepacks: Sequence[CpuHandle | None] = (),
    ) -> Sequence[float]:
        """Seconds of each launch, the mean of some runs."""
        tables, panels = self._with(
            [cached_panels(h, o) for h, o in zip(prepacks, self._orders, strict=False)]
        )
        table = tables.taken()
        scratch = lent_memory(tables.scratch)
        self._fill(tables, table, addresses, panels, scalars, scratch.address)
        table.measure()
        for _ in range(runs):
            self._run(table)
        seconds = table.seconds / runs
        table.measure(False)
        tables.idle.append(table)
        return [float(sum(seconds[e] for e in range(a, b))) for a, b in tables.spans]

    def _chosen(self, prepacks: Sequence[CpuHandle | None]) -> tuple[TableSet, Sequence[Panels]]:
        found = self._panels(prepacks)
        if self._packing_runs < PACKING_RUNS:
            self._packing_runs += any(panels is not None for panels in found)
            return self.usual, NO_PANELS
        return self._with(found, waits=True)

    def _panels(self, prepacks: Sequence[CpuHandle | None], calls: int = 1) -> list[Panels | None]:
        return [panels_of(h, o, calls) for h, o in zip(prepacks, self._orders, strict=True)]

    def _with(
        self, found: Sequence[Panels | None], waits: bool = False
    ) -> tuple[TableSet, Sequence[Panels]]:
        """What runs where operands have the panels that were found, and those panels; the usual
        tables if new ones can wait and were made just now."""
        ready = tuple([n for n, panels in enumerate(found) if panels is not None])
        tables = self._table_sets.get(ready)
        if tables is None:
            if len(self._table_sets) > MOST_TABLE_SETS or (waits and not BUILDING.is_due):
                return self.usual, NO_PANELS
            operands = [self.prepackable[n] for n in ready]
            with BUILDING.taken():
                tables = late(BUILDER).build_tables(
                    self.launches(), self.buffers, operands, self.usual
                )
            self._table_sets[ready] = tables
        return tables, [panels for panels in found if panels is not None]

    def sources(self) -> Sequence[str]:
        """The kernels' LLVM IR."""
        calls = [launch.call for launch in self.launches()]
        rendered = late(BUILDER).rendered
        return [rendered(call.nest) for call in calls if isinstance(call, NestCall)]

    def _fill(
        self,
        tables: TableSet,
        table: Table,
        addresses: Sequence[int],
        panels: Sequence[Panels],
        scalars: Sequence[Any],
        scratch: int,
    ) -> None:
        behind = [p.address for p in panels] if panels else ()
        tables.addresses.pack_into(table.base_bytes, 0, *addresses, scratch, *behind)
        if tables.patches:
            self.patch(tables, table, scalars)

    def patch(self, tables: TableSet, table: Table, scalars: Sequence[Any]) -> None:
        """Writes the numbers of a run into the arguments of a table."""
        words = {n: pack(scalars[n]) for n, pack in self._packers.items()}
        for start, number in tables.patches:
            table.arg_bytes[start : start + 8] = words[number]

    def _run(self, table: Table, donation: DonationState | None = None) -> None:
        began = time.perf_counter()
        if self._long and threading.current_thread() is threading.main_thread():
            run_interruptibly(table)
        else:
            table.run(donation=donation)
        self.seconds = time.perf_counter() - began
        self._long = self.seconds > LONG


@cache
def packer(dtype: str) -> Callable[[Any], bytes]:
    """Makes the eight bytes in which a kernel takes a number."""

    def by_bits(number: Any) -> bytes:
        return bits_of(number, dtype).to_bytes(8, "little")

    if dtype not in _FORMATS:
        return by_bits
    form = struct.Struct("<" + _FORMATS[dtype])

    def pack(number: Any) -> bytes:
        try:
            return form.pack(number)
        except (OverflowError, struct.error):  # infinite in this dtype; the latter of integers
            return by_bits(number)

    return pack


packing_memory = Lender()
"""Memory for what templates pack."""
