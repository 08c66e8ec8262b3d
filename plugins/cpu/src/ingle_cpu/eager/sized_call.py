"""Operations for certain sizes, by a plan for all sizes: kernels with what they are to run on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ingle.fusion.device import AnySizePlan, Launch, Line, SizedRun
from ingle.fusion.device.executables import bits_of_number
from ingle.fusion.device.kernels import NestCall, units
from ingle.tensor.blocks import call_holding
from ingle.tensor.contract import Aval, Handle
from ingle.tensor.errors import OutOfRangeError

from ..launch.executable import MANY, QUICK, CpuExecutable
from ..launch.table_builder import grain_of, kernel_of
from ..memory import SMALL, maker
from ..threads.abi import GRAIN, UNITS
from ..threads.table import IdleTables, Table, TableEntry


class SizedPlan:
    """A plan for all sizes, and the tables of its nests, if it is nests alone.

    Args:
        device: the backend.
        plan: for all sizes.
    """

    def __init__(self, device: Any, plan: AnySizePlan) -> None:
        self._device = device
        self._plan = plan
        nests = all(isinstance(launch.call, NestCall) for launch in plan.launches)
        self._tables = _NestTables(plan) if nests else None

    def call(self, run: SizedRun, made_by: str, lines: Sequence[Line]) -> CpuSizedCall | None:
        """What runs it for some sizes; None if that takes so long that Ctrl-C should be able to end
        it, as it can a plan."""
        if self._tables is None:
            launched: _SizedNests | _SizedProducts = _SizedProducts(self._plan, run)
        else:
            launched = _SizedNests(self._tables, run)
        if launched.long:
            return None
        large = any(math.prod(a.shape) * a.dtype.itemsize > SMALL for a in run.own)
        checks = [(check.flag, check.located(lines)) for check in run.checks]
        name = made_by if large else ""
        return CpuSizedCall(self._device, self._plan, run, launched, name, checks)


class CpuSizedCall:
    """A graph of certain sizes."""

    def __init__(
        self, device: Any, plan: AnySizePlan, run: SizedRun,
        launched: _SizedNests | _SizedProducts, made_by: str, checks: Sequence[tuple[int, str]],
    ) -> None:  # fmt: skip
        self._device = device
        self._run = run
        self._products = plan.products
        self._roots = plan.roots
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


class _NestTables(IdleTables):
    """Tables of nests, for all sizes.

    Attributes:
        scalars: places in the arguments, positions of numbers, and their dtypes.
    """

    def __init__(self, plan: AnySizePlan) -> None:
        self.scalars: list[tuple[int, int, str]] = []
        codes = [kernel_of(_nest_call(launch).nest) for launch in plan.launches]
        entries, args, base_of = [], 0, list[int]()
        for launch, code in zip(plan.launches, codes, strict=True):
            call = _nest_call(launch)
            entries.append(TableEntry(code.addresses[0], len(base_of), args, 0))
            base_of += [pointer.buffer for pointer in launch.pointers]
            first = args + len(call.sizes) + sum([len(strides) for strides in call.strides])
            self.scalars += [(k, n, plan.scalars[n]) for k, n in enumerate(launch.scalars, first)]
            args = first + len(launch.scalars) + len(call.fixed)
        super().__init__(
            Table(
                entries, base_of=base_of, offset_of=[0] * len(base_of),
                buffers=1 + len(plan.roots), args=[0] * args, code=codes,
            )
        )  # fmt: skip


class _SizedNests:
    """Nests for certain sizes.

    Attributes:
        long: whether they take so long that Ctrl-C should be able to end them.
    """

    def __init__(self, tables: _NestTables, run: SizedRun) -> None:
        self._tables = tables
        args: list[int] = []
        offsets: list[int] = []
        work: list[tuple[int, int]] = []
        for launch in run.launches:
            call = _nest_call(launch)
            args += call.sizes
            for strides in call.strides:
                args += strides
            args += [0] * len(launch.scalars)
            args += call.fixed
            offsets += [pointer.offset for pointer in launch.pointers]
            work.append((units(call.nest, call.sizes), grain_of(call.nest, call.sizes)))
        self._args, self._offsets = np.array(args, np.int64), np.array(offsets, np.int64)
        self._units, self._grains = np.array(work, np.int64).T
        pieces = sum([count / grain for count, grain in work])
        self._release = pieces >= QUICK
        self.long = pieces > MANY

    def __call__(
        self, arena: int, known: Sequence[Any], roots: Sequence[int], scalars: Sequence[Any]
    ) -> None:
        tables = self._tables
        table = tables.taken()
        table.bases[:] = [arena, *[known[r].address for r in roots]]
        table.args[:], table.offset_of[:] = self._args, self._offsets
        table.entries[:, UNITS], table.entries[:, GRAIN] = self._units, self._grains
        for place, number, dtype in tables.scalars:
            table.args[place] = bits_of_number(scalars[number], dtype)
        table.run(release=self._release)
        tables.idle.append(table)


class _SizedProducts:
    """Products, and what else there is, for certain sizes.

    Attributes:
        long: as of `_SizedNests`.
    """

    def __init__(self, plan: AnySizePlan, run: SizedRun) -> None:
        self._executable = CpuExecutable.of(run.launches, 1 + len(plan.roots), plan.scalars)
        self._prepacks = [plan.roots[buffer - 1] for buffer in self._executable.prepacks]
        self._inputs = plan.inputs
        self.long = self._executable.long

    def __call__(
        self, arena: int, known: Sequence[Any], roots: Sequence[int], scalars: Sequence[Any]
    ) -> None:
        addresses = [arena, *[known[r].address for r in roots]]
        inputs = self._inputs
        prepacks = [known[n] if n < inputs else None for n in self._prepacks]
        self._executable(addresses, scalars, prepacks=prepacks)


def _nest_call(launch: Launch) -> NestCall:
    assert isinstance(launch.call, NestCall)
    return launch.call
