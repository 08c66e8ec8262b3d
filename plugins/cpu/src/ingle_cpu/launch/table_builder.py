"""The table of an executable: its launches as entries, with their pointers and arguments."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ingle.fusion.device import BufferOffset, Launch, WholeCall, tick
from ingle.fusion.device.kernels import (
    BLOCK,
    ContractionCall,
    Nest,
    NestCall,
    epilogue_of,
    in_blocks,
    is_flat,
    layout,
    units,
)
from ingle.fusion.device.llvm import render
from ingle.fusion.device.targets import target_of
from ingle.tensor.contract import Scalar
from ingle.tensor.operation import typed_key
from ingle.tensor.static_values import largest

from ..attention.launches import SCALE_AT
from ..jit.engine import MOST, Code, IRSource, KernelCompileError, engine
from ..matmul.autotune import choice_for
from ..matmul.joined_rows import problem_of, with_rows_joined
from ..matmul.launches import Choice, Contraction, Problem, contraction
from ..matmul.plan import A, B, Pointer
from ..matmul.prepacked import PackedOperand
from ..matmul.prepacking import Prepacking, panels_pointer, prepackable, prepacking
from ..matmul.winners import Asked
from ..threads.abi import WITH_PREVIOUS
from ..threads.pool import thread_pool
from ..threads.table import Table, TableEntry
from .table_set import TableSet
from .whole_entries import entries_of

WORTH = 1 << 14
"""Elements that a worker should have at least: fewer take less time than waking it."""
COMPILING = 1500
"""To how many steps of passes the compilation of a kernel comes."""
LONG_ROW = 64
"""Elements from which on rows of a scattered nest are shared: each worker iterates over all of
them, which takes a part of what the others' work does."""


@lru_cache(maxsize=MOST)
def kernel_of(nest: Nest) -> Code:
    """A nest's code."""
    return engine().code(IRSource(rendered(nest), ("nest",), reduced=False))


def rendered(nest: Nest) -> str:
    """A nest's LLVM IR for this machine."""
    host = engine().machine
    return render(nest, "nest", target_of(host.present, host.triple.partition("-")[0]))


def build_tables(
    launches: Sequence[Launch], buffers: int, ready: Sequence[PackedOperand] = (),
    usual: TableSet | None = None,
) -> TableSet:  # fmt: skip
    """The tables of some launches, whose code is compiled.

    Args:
        launches: the kernels with their operands.
        buffers: how many buffers there are; the scratch memory is one more.
        ready: operands whose panels are at hand, one after the other in the buffers behind that.
        usual: the tables of the same launches without these panels, from which all is copied that
            they make no difference to: writing kernels out takes longer than a run.
    """
    builder = TableBuilder(buffers, ready)
    builder.add_all(launches, usual)
    return builder.tables()


class _Product(NamedTuple):
    """The entries of a product, wherever its operands are.

    Attributes:
        made: the entries.
        prepackable: how an operand of it is prepacked, if one may be.
    """

    made: Contraction
    prepackable: Prepacking | None


class _NestEntry(NamedTuple):
    """The entry of a nest, wherever its operands are.

    Attributes:
        code: the kernel.
        units, grain: how much work there is, and into multiples of how much it is split.
        args: its arguments, without the numbers that it is given.
        scalars: the place of the first of these.
    """

    code: Code
    units: int
    grain: int
    args: Sequence[int]
    scalars: int


class TableBuilder:
    """Entries in the making; see `build_tables`.

    Args:
        buffers, ready: as there.

    Attributes:
        keeps_panels: whether right operands may be kept in panels from run to run.
    """

    keeps_panels = True

    def __init__(self, buffers: int, ready: Sequence[PackedOperand] = ()) -> None:
        self._entries: list[TableEntry] = []
        self._base_of: list[int] = []
        self._offset_of: list[int] = []
        self._args: list[int] = []
        self._code: list[Code] = []
        self._scratch_buffer = buffers
        self._ready = {o.launch: (n, o.choice) for n, o in enumerate(ready, buffers + 1)}
        self._buffers = buffers + 1 + len(ready)
        self._patches: list[tuple[int, int]] = []
        self._scratch = 0
        self._spans: list[tuple[int, int]] = []
        self._keepable: list[PackedOperand] = []
        self._addressed: list[int] = []
        self._tuned: dict[str, Asked] = {}
        self._products: dict[Any, _Product] = {}
        self._by_call: dict[tuple[int, Choice | None], _Product] = {}
        self._wholes: dict[Any, Contraction] = {}
        self._nests: dict[Any, _NestEntry] = {}

    def add_all(self, launches: Sequence[Launch], usual: TableSet | None) -> None:
        """Adds the entries of launches, whose kernels are compiled.

        Args:
            launches, usual: as `build_tables` takes them.

        Raises:
            KernelCompileError: LLVM refuses one.
        """
        for number, launch in enumerate(launches):
            first, before = len(self._entries), engine().counts.compiled
            try:
                if usual is None or number in self._ready:
                    self._add(number, launch)
                else:
                    self._copy(number, usual)
            except KernelCompileError as error:
                raise KernelCompileError(
                    f"the kernel of [{launch.operations}] cannot be compiled. This is a mistake in "
                    f"Ingle, please report it; the device numpy does without kernels. {error}"
                ) from error
            self._spans.append((first, len(self._entries)))
            tick("compiling kernels", COMPILING if engine().counts.compiled > before else 1)
        if usual is not None:
            self._code.extend(usual.table.code)
            self._scratch = max(self._scratch, usual.scratch)
            self._tuned = {**usual.tuned, **self._tuned}

    def tables(self) -> TableSet:
        table = Table(
            self._entries, base_of=self._base_of, offset_of=self._offset_of,
            buffers=self._buffers, args=self._args, code=self._code,
        )  # fmt: skip
        return TableSet(
            table, self._buffers, spans=self._spans, patches=self._patches, scratch=self._scratch,
            prepackable=self._keepable, addressed=self._addressed, tuned=self._tuned,
        )  # fmt: skip

    def _copy(self, number: int, usual: TableSet) -> None:
        """Copies the entries of a launch, with as many pointers and arguments at other places."""
        first, end = usual.spans[number]
        table, rows = usual.table, usual.rows
        pointers = slice(rows[first][1], rows[end][1])
        args = slice(rows[first][2], rows[end][2])
        by_pointer = len(self._base_of) - pointers.start
        by_arg = len(self._args) - args.start
        for function, pointer, arg, *rest in rows[first:end]:
            self._entries.append(TableEntry(function, pointer + by_pointer, arg + by_arg, *rest))
        self._base_of.extend(table.base_of[pointers].tolist())
        self._offset_of.extend(table.offset_of[pointers].tolist())
        self._args.extend(table.args[args].tolist())
        patches, addressed = usual.places
        numbers = _between(patches, (8 * args.start,), (8 * args.stop,))
        self._patches.extend([(at + 8 * by_arg, n) for at, n in numbers])
        codes = _between(addressed, args.start, args.stop)
        self._addressed.extend([at + by_arg for at in codes])

    def _add(self, number: int, launch: Launch) -> None:
        call = launch.call
        if isinstance(call, NestCall):
            self._add_nest(call, launch)
        elif isinstance(call, WholeCall):
            self._add_whole(call, launch)
        else:
            self._add_contraction(call, number, launch)

    def _add_whole(self, call: WholeCall, launch: Launch) -> None:
        named = {Pointer("operand", k): p for k, p in enumerate(launch.pointers)}
        numbers = [typed_key(x.value) if type(x) is Scalar else x for x in call.numbers]
        key = (call.op, call.avals, call.strides, *numbers)
        made = self._wholes.get(key)
        if made is None:
            made = self._wholes[key] = entries_of(call)
        start = self._add_entries(made, named)
        self._give(start + SCALE_AT, launch)

    def _add_contraction(self, call: ContractionCall, number: int, launch: Launch) -> None:
        named = {A: launch.pointers[0], B: launch.pointers[1]}
        named |= {Pointer("operand", k): p for k, p in enumerate(launch.pointers[2:])}
        ready = self._ready.get(number)
        packed = None if ready is None else ready[1]
        product = self._by_call.get((id(call), packed))
        if product is None:
            product = self._by_call[id(call), packed] = self._product_of(call, packed)
        made = product.made
        if ready is not None:
            named[panels_pointer(ready[1])] = BufferOffset(ready[0], 0)
        elif product.prepackable is not None:
            self._keepable.append(product.prepackable.operand(number, launch.pointers))
        self._add_entries(made, named)
        # Scalars stand behind everything else that the last entry, which computes, is given.
        start = len(self._args) - 1 - len(launch.scalars)
        self._give(start, launch)

    def _product_of(self, call: ContractionCall, packed: Choice | None) -> _Product:
        """The entries of a call, and of all others that compute the same."""
        call = with_rows_joined(call)
        problem, strides = problem_of(call), tuple([o.strides for o in call.operands])
        key = (problem, strides, call.code, call.dtypes, call.stores, call.scalar_dtypes, packed)
        product = self._products.get(key)
        if product is None:
            product = self._products[key] = self._product(call, problem, strides, packed)
        return product

    def _add_entries(self, made: Contraction, named: dict[Pointer, BufferOffset]) -> int:
        """Adds the entries of a template, and returns where the arguments of the last begin."""
        offsets: dict[Pointer, int] = {}
        end = 0
        for scratch, nbytes in enumerate(made.scratch):
            offsets[Pointer("scratch", scratch)] = end
            end += -(-nbytes // 64) * 64
        self._scratch = largest(self._scratch, end)
        for spec in made.entries:
            first = len(self._base_of), len(self._args)
            flags = WITH_PREVIOUS if spec.independent else 0
            self._entries.append(TableEntry(spec.function, *first, spec.units, spec.grain, flags))
            for wanted in spec.pointers:
                pointer = named.get(wanted)
                if pointer is None:
                    pointer = BufferOffset(self._scratch_buffer, offsets[wanted])
                self._base_of.append(pointer.buffer)
                self._offset_of.append(pointer.offset)
            self._addressed.extend([first[1] + k for k in spec.addresses])
            self._args.extend(spec.args)
            self._code.extend(spec.code)
        return len(self._args) - len(made.entries[-1].args)

    def _product(
        self, call: ContractionCall, problem: Problem, strides: Sequence[Sequence[int]],
        packed: Choice | None,
    ) -> _Product:  # fmt: skip
        """What the products of many layers have in common; `packed` is the choice by which the
        panels that are at hand were made."""
        workers = thread_pool().threads
        asked: dict[str, Asked] = {}
        choice = self._choice(problem, workers, asked) if packed is None else packed
        self._tuned |= asked
        made = contraction(
            problem, epilogue_of(call), strides, [0] * len(call.scalars),
            workers=workers, choice=choice, ready=packed is not None,
        )  # fmt: skip
        keeps = packed is None and self.keeps_panels and prepackable(problem, choice)
        if not keeps:
            return _Product(made, None)
        measured = any(answer.variation is not None for answer in asked.values())
        return _Product(made, prepacking(problem, workers, None if measured else choice))

    def _choice(self, problem: Problem, workers: int, asked: dict[str, Asked]) -> Choice:
        """How a product is computed whose operands are not in panels yet; see `choice_for`."""
        return choice_for(problem, workers, asked)

    def _nest(self, call: NestCall) -> _NestEntry:
        found = self._nests.get(id(call))
        if found is None:
            nest, sizes = call.nest, call.sizes
            strides = [s for along in call.strides for s in along]
            args = [*sizes, *strides, *[0] * len(call.scalars), *call.fixed]
            work = units(nest, sizes), grain_of(nest, sizes)
            found = _NestEntry(kernel_of(nest), *work, args, layout(nest).scalar(0))
            self._nests[id(call)] = found
        return found

    def _add_nest(self, call: NestCall, launch: Launch) -> None:
        code, count, grain, args, scalars = self._nest(call)
        self._code.append(code)
        start = len(self._args)
        self._entries.append(TableEntry(code.addresses[0], len(self._base_of), start, count, grain))
        for pointer in launch.pointers:
            self._base_of.append(pointer.buffer)
            self._offset_of.append(pointer.offset)
        self._args.extend(args)
        self._give(start + scalars, launch)

    def _give(self, at: int, launch: Launch) -> None:
        """Has a launch's numbers among the arguments: in each run, or now if they never change."""
        for number, scalar in enumerate(launch.scalars, at):
            bits = launch.fixed[number - at] if launch.fixed else None
            if bits is None:
                self._patches.append((8 * number, scalar))
            else:
                self._args[number] = bits - (bits >> 63 << 64)


def _between(places: Sequence[Any], start: Any, stop: Any) -> Sequence[Any]:
    """Those of some sorted places from `start` up to, but not including, `stop`."""
    return places[bisect_left(places, start) : bisect_left(places, stop)]


def grain_of(nest: Nest, sizes: Sequence[int]) -> int:
    """Into multiples of how many units work is split."""
    if is_flat(nest):
        return WORTH
    if not nest.scattered:
        return largest(1, WORTH // _work(nest, sizes))
    # Each worker iterates over all rows, and does long ones much later than it has passed others.
    shared = sizes[-1] >= LONG_ROW and math.prod(sizes[1:]) >= 2 * WORTH
    return largest(1, -(-units(nest, sizes) // (thread_pool().threads if shared else 1)))


def _work(nest: Nest, sizes: Sequence[int]) -> int:
    """Elements in one unit of work."""
    rows = 128 if nest.lanes == "outer" else BLOCK if in_blocks(nest) else 1
    return largest(1, sizes[-1] * rows)
