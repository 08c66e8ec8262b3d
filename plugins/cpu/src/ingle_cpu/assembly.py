"""The table of a segment: its launches as entries, with their pointers and arguments."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache

from ingle.fusion.kernel.nest import BLOCK, Nest, Operand, in_blocks, is_flat, layout, units
from ingle.fusion.kernel_device import Argument, Launch
from ingle.fusion.passes.contractions import ContractionCall
from ingle.fusion.passes.nests import NestCall
from ingle.fusion.render.llvm import render
from ingle.fusion.render.targets import target_of

from . import kept
from .contraction import Epilogue, Problem, contraction
from .engine import MOST, Code, CompileError, Source, engine
from .gang import gang
from .layout import WITH_PREVIOUS
from .table import Entry, Table
from .tuning import choice_for

WORTH = 1 << 14
"""Elements that a worker should have at least: fewer take less time than waking it."""
LONG_ROW = 64
"""Elements from which on rows of a scattered nest are shared: who has a part of them goes over all,
which takes a part of what the others' work does."""


@lru_cache(maxsize=MOST)
def kernel_of(nest: Nest) -> Code:
    """A nest's code."""
    return engine().code(Source(rendered(nest), ("nest",), reduced=False))


def rendered(nest: Nest) -> str:
    """A nest's LLVM IR for this machine."""
    host = engine().machine
    return render(nest, "nest", target_of(host.present, host.triple.partition("-")[0]))


class Assembly:
    """Entries in the making, then tables of them.

    Args:
        launches: the kernels with their operands.
        buffers: how many buffers there are; the scratch memory is one more.
        ready: operands whose panels are at hand, one after the other in the buffers behind that.

    Attributes:
        addresses: makes bytes of the buffers' addresses.
        spans: of each launch its first entry and the one behind its last.
        patches: where numbers go: (byte in the arguments, position of the number).
        scratch: bytes of scratch memory.
        nests: the kernels that are generated.
        keepable: operands that may be kept in panels.
    """

    def __init__(
        self, launches: Sequence[Launch], buffers: int, ready: Sequence[kept.Operand] = ()
    ) -> None:
        self._entries: list[Entry] = []
        self._base_of: list[int] = []
        self._offset_of: list[int] = []
        self._args: list[int] = []
        self._code: list[Code] = []
        self._scratch_buffer = buffers
        self._ready = {o.launch: (n, o.choice) for n, o in enumerate(ready, buffers + 1)}
        self.patches: list[tuple[int, int]] = []
        self.scratch = 0
        self.spans: list[tuple[int, int]] = []
        self.nests: list[Nest] = []
        self.keepable: list[kept.Operand] = []
        for number, launch in enumerate(launches):
            first = len(self._entries)
            try:
                self._add(number, launch)
            except CompileError as error:
                raise CompileError(
                    f"the kernel of [{launch.operations}] cannot be compiled. This is a mistake in "
                    f"Ingle, please report it; the device numpy does without kernels. {error}"
                ) from error
            self.spans.append((first, len(self._entries)))
        self.pieces = sum(e.units / e.grain for e in self._entries)
        count = buffers + 1 + len(ready)
        self.addresses = struct.Struct(f"{count}q")
        self._table = Table(
            self._entries, self._base_of, self._offset_of, count, self._args, code=self._code
        )
        self.idle = [self._table]

    def taken(self) -> Table:
        """A table that no other thread uses, to be put back to the idle ones."""
        try:
            return self.idle.pop()
        except IndexError:
            return self._table.copy()

    def _add(self, number: int, launch: Launch) -> None:
        call = launch.call
        if isinstance(call, NestCall):
            self._add_nest(call, launch)
        else:
            self._add_contraction(call, number, launch)

    def _add_contraction(self, call: ContractionCall, number: int, launch: Launch) -> None:
        problem = Problem(
            call.dtype, call.dtype, call.batch, *call.sizes, call.a.strides, call.b.strides
        )
        named = {"a": launch.pointers[0], "b": launch.pointers[1]}
        named |= {f"operand {k}": p for k, p in enumerate(launch.pointers[2:])}
        ready = self._ready.get(number)
        if ready is not None:
            buffer, choice = ready
            named["b"] = Argument(buffer, 0)
        else:
            choice = choice_for(problem, gang().threads)
            if kept.keepable(problem, choice):
                place = launch.pointers[1]
                self.keepable.append(kept.operand(number, problem, gang().threads, place))
        made = contraction(
            problem,
            _epilogue(call),
            [o.strides for o in call.operands],
            [0] * len(call.scalars),
            workers=gang().threads,
            choice=choice,
            b_is_packed=ready is not None,
        )
        offsets: dict[str, int] = {}
        end = 0
        for scratch, nbytes in enumerate(made.scratch):
            offsets[f"scratch {scratch}"] = end
            end += -(-nbytes // 64) * 64
        self.scratch = max(self.scratch, end)
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
            self._code.extend(spec.code)
        # Scalars stand behind everything else that the last entry, which computes, is given.
        start = len(self._args) - 1 - len(launch.scalars)
        self.patches.extend((8 * (start + i), s) for i, s in enumerate(launch.scalars))

    def _add_nest(self, call: NestCall, launch: Launch) -> None:
        nest = call.nest
        self.nests.append(nest)
        count = units(nest, call.sizes)
        grain = _grain(nest, call.sizes)
        code = kernel_of(nest)
        self._code.append(code)
        first = len(self._base_of), len(self._args)
        self._entries.append(Entry(code.addresses[0], *first, count, grain))
        for pointer in launch.pointers:
            self._base_of.append(pointer.buffer)
            self._offset_of.append(pointer.offset)
        start, place = len(self._args), layout(nest)
        self._args.extend(call.sizes)
        for strides in call.strides:
            self._args.extend(strides)
        for number, scalar in enumerate(launch.scalars):
            self.patches.append((8 * (start + place.scalar(number)), scalar))
        self._args.extend([0] * len(launch.scalars))
        self._args.extend(call.fixed)


def _grain(nest: Nest, sizes: Sequence[int]) -> int:
    """Into multiples of how many units work is split."""
    if is_flat(nest):
        return WORTH
    if not nest.scattered:
        return max(1, WORTH // _work(nest, sizes))
    # Who has a part goes over all rows, and does long ones much later than it has passed others.
    shared = sizes[-1] >= LONG_ROW and math.prod(sizes[1:]) >= 2 * WORTH
    return max(1, -(-units(nest, sizes) // (gang().threads if shared else 1)))


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


def _work(nest: Nest, sizes: Sequence[int]) -> int:
    """Elements in one unit of work."""
    rows = 128 if nest.lanes == "outer" else BLOCK if in_blocks(nest) else 1
    return max(1, sizes[-1] * rows)
