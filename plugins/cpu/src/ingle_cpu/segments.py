"""Launches of a plan as a table that the gang walks."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ingle.fusion.execution import Argument, Launch
from ingle.fusion.kernel.code import bits_of
from ingle.fusion.kernel.nest import BLOCK, Nest, Operand, in_blocks, is_flat, layout, units
from ingle.fusion.passes.contractions import ContractionCall
from ingle.fusion.passes.nests import NestCall
from ingle.fusion.render.llvm import render
from ingle.fusion.render.targets import target_of
from ingle.fusion.straight import Landing

from .contraction import Epilogue, Problem, contraction
from .engine import CompileError, Source, engine
from .gang import gang
from .interrupts import run_interruptibly
from .layout import WITH_PREVIOUS
from .memory import ThreadMemory
from .table import Entry, Table
from .tuning import choice_for

WORTH = 1 << 14
"""Elements that a worker should have at least: fewer take less time than waking it."""

QUICK = 4
"""Grains of work up to which a plan keeps Python's lock, which takes longer to get back."""

MANY = 5000
LONG = 0.2
"""Grains of work, and seconds, from which on a plan lets Ctrl-C stop it."""

_FORMATS = {
    "bool": "?7x", "int8": "b7x", "int16": "h6x", "int32": "i4x", "int64": "q",
    "uint8": "B7x", "uint16": "H6x", "uint32": "I4x", "uint64": "Q",
    "float16": "e6x", "float32": "f4x", "float64": "d",
}  # fmt: skip

_kernels: dict[Nest, int] = {}


def kernel_of(nest: Nest) -> int:
    """The address of a nest's code."""
    found = _kernels.get(nest)
    if found is None:
        (found,) = engine().addresses(Source(rendered(nest), ("nest",), reduced=False))
        _kernels[nest] = found
    return found


def rendered(nest: Nest) -> str:
    """A nest's LLVM IR for this machine."""
    host = engine().machine
    return render(nest, "nest", target_of(host.present, host.triple.partition("-")[0]))


class Segment:
    """Kernels that run one after the other without Python in between.

    Args:
        launches: the kernels with their operands.
        buffers: how many buffers there are.
        scalars: dtypes of the numbers that each run is given.
    """

    def __init__(self, launches: Sequence[Launch], buffers: int, scalars: Sequence[str]) -> None:
        self._entries: list[Entry] = []
        self._base_of: list[int] = []
        self._offset_of: list[int] = []
        self._args: list[int] = []
        self._patches: list[tuple[int, int]] = []
        self._scratch = 0
        self._scratch_buffer = buffers
        self._spans: list[tuple[int, int]] = []
        self._nests: list[Nest] = []
        for launch in launches:
            first = len(self._entries)
            try:
                self._add(launch)
            except CompileError as error:
                raise CompileError(
                    f"the kernel of [{launch.operations}] cannot be compiled. This is a mistake in "
                    f"Ingle, please report it; the device numpy does without kernels. {error}"
                ) from error
            self._spans.append((first, len(self._entries)))
        self._table = Table(self._entries, self._base_of, self._offset_of, buffers + 1, self._args)
        self._idle = [self._table]
        self._addresses = struct.Struct(f"{buffers + 1}q")
        self._packers = {n: _packer(scalars[n]) for n in {n for _, n in self._patches}}
        pieces = sum(e.units / e.grain for e in self._entries)
        self._quick = pieces < QUICK
        self._long = pieces > MANY

    @property
    def long(self) -> bool:
        """Whether it takes so long that Ctrl-C should be able to end it."""
        return self._long

    def __call__(
        self, addresses: Sequence[int], scalars: Sequence[Any], landing: Landing | None = None
    ) -> None:
        """Runs them on buffers at these addresses."""
        table = self._taken()
        self._run(table, addresses, scalars, landing)
        self._idle.append(table)

    def _taken(self) -> Table:
        """A table that no other thread uses: where all are in use, a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._table.copy()

    def profile(
        self, addresses: Sequence[int], scalars: Sequence[Any], runs: int
    ) -> Sequence[float]:
        """Seconds of each launch, the mean of some runs."""
        table = self._taken()
        self._run(table, addresses, scalars)
        table.measure()
        for _ in range(runs):
            self._run(table, addresses, scalars)
        seconds = table.seconds / runs
        table.measure(False)
        self._idle.append(table)
        return [float(sum(seconds[e] for e in range(a, b))) for a, b in self._spans]

    def sources(self) -> Sequence[str]:
        """The kernels' LLVM IR."""
        return [rendered(n) for n in self._nests]

    def _run(
        self,
        table: Table,
        addresses: Sequence[int],
        scalars: Sequence[Any],
        landing: Landing | None = None,
    ) -> None:
        scratch = scratch_of(self._scratch) if self._scratch else 0
        self._addresses.pack_into(table.base_bytes, 0, *addresses, scratch)
        if self._patches:
            words = {n: pack(scalars[n]) for n, pack in self._packers.items()}
            for start, number in self._patches:
                table.arg_bytes[start : start + 8] = words[number]
        if self._quick:
            table.run(release=False, landing=landing)
        elif self._long and threading.current_thread() is threading.main_thread():
            run_interruptibly(table)
        else:
            began = time.perf_counter()
            table.run(landing=landing)
            self._long = time.perf_counter() - began > LONG

    def _add(self, launch: Launch) -> None:
        call = launch.call
        if isinstance(call, NestCall):
            self._add_nest(call, launch)
        else:
            self._add_contraction(call, launch)

    def _add_contraction(self, call: ContractionCall, launch: Launch) -> None:
        problem = Problem(
            call.dtype, call.dtype, call.batch, *call.sizes, call.a.strides, call.b.strides
        )
        made = contraction(
            problem,
            _epilogue(call),
            [o.strides for o in call.operands],
            [0] * len(call.scalars),
            workers=gang().threads,
            choice=choice_for(problem, gang().threads),
        )
        offsets: dict[str, int] = {}
        end = 0
        for number, nbytes in enumerate(made.scratch):
            offsets[f"scratch {number}"] = end
            end += -(-nbytes // 64) * 64
        self._scratch = max(self._scratch, end)
        named = {"a": launch.pointers[0], "b": launch.pointers[1]}
        named |= {f"operand {k}": p for k, p in enumerate(launch.pointers[2:])}
        for spec in made.entries:
            first = len(self._base_of), len(self._args)
            flags = WITH_PREVIOUS if spec.independent else 0
            self._entries.append(Entry(spec.function, *first, spec.units, spec.grain, flags))
            for name in spec.pointers:
                pointer = named.get(name)
                if pointer is None:
                    pointer = Argument(self._scratch_buffer, offsets[name])
                self._base_of.append(pointer.buffer)
                self._offset_of.append(pointer.offset)
            self._args.extend(spec.args)
        # Scalars stand behind everything else that the last entry, which computes, is given.
        start = len(self._args) - 1 - len(launch.scalars)
        self._patches.extend((8 * (start + i), s) for i, s in enumerate(launch.scalars))

    def _add_nest(self, call: NestCall, launch: Launch) -> None:
        nest = call.nest
        self._nests.append(nest)
        count = units(nest, call.sizes)
        grain = WORTH if is_flat(nest) else max(1, WORTH // _work(nest, call.sizes))
        self._entries.append(
            Entry(kernel_of(nest), len(self._base_of), len(self._args), count, grain)
        )
        for pointer in launch.pointers:
            self._base_of.append(pointer.buffer)
            self._offset_of.append(pointer.offset)
        start, place = len(self._args), layout(nest)
        self._args.extend(call.sizes)
        for strides in call.strides:
            self._args.extend(strides)
        for number, scalar in enumerate(launch.scalars):
            self._patches.append((8 * (start + place.scalar(number)), scalar))
        self._args.extend([0] * len(launch.scalars))


def _epilogue(call: ContractionCall) -> Epilogue:
    stored = {k for k, _ in call.stores}
    lanes = {0: "zero", 1: "unit"}
    operands = tuple(
        [
            Operand(
                dtype, k in stored, "unit" if k in stored else lanes.get(o.strides[-1], "strided")
            )
            for k, (o, dtype) in enumerate(zip(call.operands, call.dtypes, strict=True))
        ]
    )
    return Epilogue(call.code, operands, call.stores, call.scalar_dtypes)


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


def _work(nest: Nest, sizes: Sequence[int]) -> int:
    """Elements in one unit of work."""
    rows = 128 if nest.lanes == "outer" else BLOCK if in_blocks(nest) else 1
    return max(1, sizes[-1] * rows)
