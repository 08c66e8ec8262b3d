"""Graphs on certain sizes, by a plan for all sizes: its table with the numbers of these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ingle.fusion.device import (
    AnySizePlan,
    Launch,
    Lender,
    Line,
    SizedRun,
    at_sizes,
    example_of,
    with_sizes,
)
from ingle.fusion.device.executables import bits_of_number
from ingle.tensor.blocks import call_holding
from ingle.tensor.contract import Aval, Handle
from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.late_imports import late

from ..launch.executable import MANY, QUICK, CpuExecutable
from ..launch.table_set import SymbolicTable
from ..memory import SMALL, lent_memory, maker
from ..threads.abi import GRAIN, UNITS

_scratch = Lender()
"""Memory for what products pack."""


class CpuSizedPlan:
    """The kernels of a plan for all sizes.

    Args:
        device: the backend.
        kernels: in a table or, where products depend on sizes, as launches.
        sizes: what of them sizes decide, in terms of symbols.

    Attributes:
        kernels, sizes: likewise.
    """

    def __init__(
        self, device: Any, kernels: SymbolicTable | SizedLaunches, sizes: tuple[Any, ...] = ()
    ) -> None:
        self._device = device
        self.kernels = kernels
        self.sizes = sizes

    @classmethod
    def of(
        cls, device: Any, launches: Sequence[Launch], buffers: int, scalars: Sequence[str]
    ) -> CpuSizedPlan:
        """Those of some launches, in which sizes are symbols.

        Args:
            device, launches: as said.
            buffers: how many buffers there are.
            scalars: the dtypes of the numbers that they take.
        """
        parts = [with_sizes(launch.call) for launch in launches]
        # What sizes decide is that of the example, and never read: the rest is data.
        known = [
            example_of(launch._replace(call=call))
            for launch, (call, _) in zip(launches, parts, strict=True)
        ]
        kernels = SizedLaunches(known, buffers, scalars)
        sizes = tuple(
            [(part, launch.pointers) for launch, (_, part) in zip(launches, parts, strict=True)]
        )
        settled = kernels.at(sizes)
        # What writes tables is not needed for those that are found on disk.
        tables = late("ingle_cpu.launch.symbolic_tables")
        if tables.has_table([launch.call for launch in settled]):
            return cls(device, *tables.symbolic_table(settled, buffers, scalars))
        return cls(device, kernels, sizes)

    def call(
        self, plan: AnySizePlan, run: SizedRun, made_by: str, lines: Sequence[Line]
    ) -> CpuSizedCall | None:
        """What runs it for some sizes; None if that takes so long that Ctrl-C should be able to end
        it, as it can a plan."""
        launched: _SizedTable | _SizedExecutable
        if isinstance(self.kernels, SymbolicTable):
            launched = _SizedTable(self.kernels, run.sized)
        else:
            launched = _SizedExecutable(self.kernels.executable(run.sized), plan)
        if launched.long:
            return None
        large = any(math.prod(a.shape) * a.dtype.itemsize > SMALL for a in run.own)
        checks = [(check.flag, check.located(lines)) for check in run.checks]
        name = made_by if large else ""
        return CpuSizedCall(self._device, plan, run, launched, name, checks)


class SizedLaunches(NamedTuple):
    """Launches without what sizes decide.

    Attributes:
        launches: the kernels.
        buffers: how many buffers there are.
        scalars: the dtypes of the numbers that they take.
    """

    launches: Sequence[Launch]
    buffers: int
    scalars: Sequence[str]

    def at(self, sizes: tuple[Any, ...]) -> list[Launch]:
        """The launches with what sizes decide."""
        return [
            launch._replace(call=at_sizes(launch.call, part), pointers=pointers)
            for launch, (part, pointers) in zip(self.launches, sizes, strict=True)
        ]

    def executable(self, sizes: tuple[Any, ...]) -> CpuExecutable:
        """The executable of certain sizes."""
        return CpuExecutable.of(self.at(sizes), self.buffers, self.scalars)


class CpuSizedCall:
    """A graph of certain sizes."""

    def __init__(
        self, device: Any, plan: AnySizePlan, run: SizedRun,
        launched: _SizedTable | _SizedExecutable, made_by: str, checks: Sequence[tuple[int, str]],
    ) -> None:  # fmt: skip
        self._device = device
        self._run = run
        self._products = plan.data.products
        self._roots = plan.data.roots
        self._launched = launched
        self._name = made_by
        self._checks = checks

    def __call__(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle] | None:
        """Runs it on tensors and numbers; None if it takes a plan.

        Raises:
            OutOfRangeError: an index is.
        """
        scalars = self._run.scalars(numbers)
        if scalars is None:
            return None
        device = self._device
        for i in self._products:
            if device.axes_in_memory(given[i]) is not None:
                return None
        if self._name:
            known = call_holding(maker, self._name, self._known, given)
        else:
            known = self._known(given)
        arena = device.arena(self._run.arena) if self._run.arena else None
        self._launched(0 if arena is None else arena.address, known, self._roots, scalars)
        if arena is not None:
            device.take_back(arena)
        for number, text in self._checks:
            if device.flag(known[number]):
                raise OutOfRangeError(text)
        return [
            known[n]
            if view is None
            else device.viewed(
                known[n], Aval(view.shape, known[n].dtype), view.strides, view.offset
            )
            for n, view in self._run.outputs
        ]

    def _known(self, given: Sequence[Handle]) -> list[Any]:
        """The values: the inputs in order, and what the run makes."""
        in_order, empty = self._device.in_order, self._device.empty
        return [*[in_order(x) for x in given], *[empty(aval) for aval in self._run.own]]


class _SizedTable:
    """A table with the numbers of certain sizes.

    Attributes:
        long: whether it takes so long that Ctrl-C should be able to end it.
    """

    def __init__(self, symbolic: SymbolicTable, sized: tuple[Any, ...]) -> None:
        args, offsets, units, grains, self._scratch = sized
        self._symbolic = symbolic
        self._args = symbolic.filled(args)
        self._offsets, self._units, self._grains = offsets, units, grains
        pieces = sum([count / grain for count, grain in zip(units, grains, strict=True)])
        self._release = pieces >= QUICK
        self.long = pieces > MANY

    def __call__(
        self, arena: int, known: Sequence[Any], roots: Sequence[int], scalars: Sequence[Any]
    ) -> None:
        symbolic = self._symbolic
        table = symbolic.taken()
        scratch = _scratch.lend(self._scratch, lent_memory) if self._scratch else None
        place = 0 if scratch is None else scratch.address
        table.bases[:] = [arena, *[known[r].address for r in roots], place]
        if table.filled_for is not self:
            table.args[:], table.offset_of[:] = self._args, self._offsets
            table.entries[:, UNITS], table.entries[:, GRAIN] = self._units, self._grains
            table.filled_for = self
        for at, number, dtype in symbolic.scalars:
            table.args[at] = bits_of_number(scalars[number], dtype)
        table.run(release=self._release)
        symbolic.idle.append(table)
        if scratch is not None:
            _scratch.take_back(scratch)


class _SizedExecutable:
    """An executable of certain sizes.

    Attributes:
        long: as of `_SizedTable`.
    """

    def __init__(self, executable: CpuExecutable, plan: AnySizePlan) -> None:
        self._executable = executable
        self._prepacks = [plan.data.roots[buffer - 1] for buffer in executable.prepacks]
        self._inputs = plan.data.inputs
        self.long = executable.long

    def __call__(
        self, arena: int, known: Sequence[Any], roots: Sequence[int], scalars: Sequence[Any]
    ) -> None:
        addresses = [arena, *[known[r].address for r in roots]]
        inputs = self._inputs
        prepacks = [known[n] if n < inputs else None for n in self._prepacks]
        self._executable(addresses, scalars, prepacks=prepacks)
