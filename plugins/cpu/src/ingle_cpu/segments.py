"""Launches of a plan as a table that the gang walks."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ingle.fusion.kernel.code import bits_of
from ingle.fusion.kernel_device import Launch
from ingle.fusion.straight import Landing

from .assembly import Assembly, rendered
from .interrupts import run_interruptibly
from .kept import Panels, kept_of, panels_of, written
from .memory import CpuHandle, ThreadMemory
from .table import Table

QUICK = 4
"""Grains of work up to which a plan keeps Python's lock, which takes longer to get back."""

MANY = 5000
LONG = 0.2
"""Grains of work, and seconds, from which on a plan lets Ctrl-C stop it."""

MOST_ASSEMBLIES = 8
"""Of operands in panels and others: a few of the ways to have some of them are enough."""
NO_PANELS: Sequence[Panels] = ()

_FORMATS = {
    "bool": "?7x", "int8": "b7x", "int16": "h6x", "int32": "i4x", "int64": "q",
    "uint8": "B7x", "uint16": "H6x", "uint32": "I4x", "uint64": "Q",
    "float16": "e6x", "float32": "f4x", "float64": "d",
}  # fmt: skip


class Prepared(NamedTuple):
    """A run that is ready.

    Attributes:
        table: what runs; it knows addresses and numbers.
        assembly: whose table that is; it gets it back in `idle`.
        panels: what the run reads besides.
    """

    table: Table
    assembly: Assembly
    panels: Sequence[Panels]


class Segment:
    """Kernels that run one after the other without Python in between.

    Args:
        launches: the kernels with their operands.
        buffers: how many buffers there are.
        scalars: dtypes of the numbers that each run is given.

    Attributes:
        seconds: how long the last run took that was long enough to be measured.
    """

    def __init__(self, launches: Sequence[Launch], buffers: int, scalars: Sequence[str]) -> None:
        self._launches = launches
        self._buffers = buffers
        self._usual = usual = Assembly(launches, buffers)
        unsettled = {0} | written(launches)
        self._keepable = [o for o in usual.keepable if o.buffer not in unsettled]
        self._orders = [o.order for o in self._keepable]
        self._assemblies: dict[tuple[int, ...], Assembly] = {(): usual}
        self._packers = {n: _packer(scalars[n]) for n in {n for _, n in usual.patches}}
        self._quick = usual.pieces < QUICK
        self._long = usual.pieces > MANY
        self.seconds = 0.0

    @property
    def keeps(self) -> tuple[int, ...]:
        """The buffers of operands that it keeps in panels where they come again and again."""
        return tuple([operand.buffer for operand in self._keepable])

    @property
    def long(self) -> bool:
        """Whether it takes so long that Ctrl-C should be able to end it."""
        return self._long

    def __call__(
        self,
        addresses: Sequence[int],
        scalars: Sequence[Any],
        landing: Landing | None = None,
        keeps: Sequence[CpuHandle | None] = (),
    ) -> None:
        """Runs them on buffers at these addresses; `keeps` are the handles of some, or None."""
        assembly, panels = self._chosen(keeps) if keeps else (self._usual, NO_PANELS)
        table = assembly.taken()
        self._fill(assembly, table, addresses, panels, scalars, scratch_of)
        if self._quick:
            table.run(release=False, landing=landing)
        else:
            self._run(table, landing)
        assembly.idle.append(table)

    def prepared(
        self,
        addresses: Sequence[int],
        scalars: Sequence[Any],
        keeps: Sequence[CpuHandle | None],
        scratch: Callable[[int], int],
    ) -> Prepared:
        """All but the run; `scratch` finds memory of some bytes for it."""
        assembly, panels = self._chosen(keeps) if keeps else (self._usual, NO_PANELS)
        table = assembly.taken()
        self._fill(assembly, table, addresses, panels, scalars, scratch)
        return Prepared(table, assembly, panels)

    def profile(
        self,
        addresses: Sequence[int],
        scalars: Sequence[Any],
        runs: int,
        keeps: Sequence[CpuHandle | None] = (),
    ) -> Sequence[float]:
        """Seconds of each launch, the mean of some runs."""
        assembly, panels = self._with(
            [kept_of(h, o) for h, o in zip(keeps, self._orders, strict=False)]
        )
        table = assembly.taken()
        self._fill(assembly, table, addresses, panels, scalars, scratch_of)
        self._run(table)
        table.measure()
        for _ in range(runs):
            self._run(table)
        seconds = table.seconds / runs
        table.measure(False)
        assembly.idle.append(table)
        return [float(sum(seconds[e] for e in range(a, b))) for a, b in assembly.spans]

    def _chosen(self, keeps: Sequence[CpuHandle | None]) -> tuple[Assembly, Sequence[Panels]]:
        return self._with([panels_of(h, o) for h, o in zip(keeps, self._orders, strict=True)])

    def _with(self, found: Sequence[Panels | None]) -> tuple[Assembly, Sequence[Panels]]:
        """What runs where operands have the panels that were found, and those panels."""
        ready = tuple([n for n, panels in enumerate(found) if panels is not None])
        assembly = self._assemblies.get(ready)
        if assembly is None:
            if len(self._assemblies) > MOST_ASSEMBLIES:
                return self._usual, NO_PANELS
            operands = [self._keepable[n] for n in ready]
            assembly = Assembly(self._launches, self._buffers, operands)
            self._assemblies[ready] = assembly
        return assembly, [panels for panels in found if panels is not None]

    def sources(self) -> Sequence[str]:
        """The kernels' LLVM IR."""
        return [rendered(n) for n in self._usual.nests]

    def _fill(
        self,
        assembly: Assembly,
        table: Table,
        addresses: Sequence[int],
        panels: Sequence[Panels],
        scalars: Sequence[Any],
        scratch_of: Callable[[int], int],
    ) -> None:
        scratch = scratch_of(assembly.scratch) if assembly.scratch else 0
        behind = [p.address for p in panels] if panels else ()
        assembly.addresses.pack_into(table.base_bytes, 0, *addresses, scratch, *behind)
        if assembly.patches:
            words = {n: pack(scalars[n]) for n, pack in self._packers.items()}
            for start, number in assembly.patches:
                table.arg_bytes[start : start + 8] = words[number]

    def _run(self, table: Table, landing: Landing | None = None) -> None:
        if self._long and threading.current_thread() is threading.main_thread():
            run_interruptibly(table)
        else:
            began = time.perf_counter()
            table.run(landing=landing)
            self.seconds = time.perf_counter() - began
            self._long = self.seconds > LONG


def _packer(dtype: str) -> Callable[[Any], bytes]:
    """Makes the eight bytes in which a kernel takes a number."""

    def by_bits(number: Any) -> bytes:
        return bits_of(number, dtype).to_bytes(8, "little")

    if dtype not in _FORMATS:
        return by_bits
    form = struct.Struct("<" + _FORMATS[dtype])

    def pack(number: Any) -> bytes:
        try:
            return form.pack(number)
        except OverflowError:  # infinite in this dtype
            return by_bits(number)

    return pack


scratch_of = ThreadMemory()
"""The address of memory for what templates pack."""
