"""Operations on rows: one kernel for any number of them.

A program that meets a new length at each step, as one that generates text does, would plan each
operation anew for each length. But where an operation does the same with each row, its plans for
two lengths are one kernel and differ in the number of rows alone. So from the third length on there
is no plan: the kernel is called with as many rows as there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from ingle.fusion.device import (
    GraphPlans,
    KernelRun,
    Launch,
    ScalarProgram,
    is_exact,
    registrations,
)
from ingle.fusion.device.executables import bits_of_number
from ingle.fusion.device.kernels import Argument, ContractionCall, NestCall, units
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op, infer

from ..launch.executable import MANY, QUICK, CpuExecutable
from ..launch.table_builder import grain_of, kernel_of
from ..threads.abi import GRAIN, UNITS
from ..threads.table import IdleTables, kernel_table

FAR = 4
"""Up to so many times the most rows that a plan was seen for, its kernel serves without another
look."""
TRIES = 3
"""After so many pairs of plans that are no one kernel, an operation is left to plans."""


class Rows(NamedTuple):
    """Operands of an operation as rows.

    Attributes:
        form: the operation and its operands, but for the number of rows.
        number: how many rows there are.
    """

    form: Any
    number: int


def rows_of(op: Op, inputs: Sequence[Handle | Scalar]) -> Rows | None:
    """The operands as rows along the last axis of the first one; None if there are fewer than two.

    What has the same axes before its last one has rows, too. Anything else is the same for all.
    """
    first = inputs[0] if inputs else None
    if first is None or type(first) is Scalar or len(first.shape) < 2:
        return None
    lead = first.shape[:-1]
    count = math.prod(lead)
    if count < 2:
        return None
    form: list[Any] = [op, tuple([min(n, 2) for n in lead]), is_exact(), registrations()]
    for x in inputs:
        if type(x) is Scalar:
            form.append((Scalar, x.dtype))
        elif x.shape[:-1] == lead:
            form.append((None, x.shape[-1], x.dtype))
        else:
            form.append((x.shape, x.dtype))
    return Rows(tuple(form), count)


class _Sample(NamedTuple):
    """What the plan of an operation is made of.

    Attributes:
        rows: for so many.
        launch: its one kernel.
        places: for each operand of the kernel the position of the input; -1 for the output.
        host: computes the numbers that the kernel takes.
        scalars: their dtypes.
        products: positions of inputs whose order of axes in memory decides bits.
    """

    rows: int
    launch: Launch
    places: tuple[int, ...]
    host: ScalarProgram
    scalars: tuple[str, ...]
    products: tuple[int, ...]


def _sample(rows: int, executable: GraphPlans, numbers: Sequence[Any]) -> _Sample | None:
    """The one kernel of a plan; None if the plan is more than that."""
    data = executable.serving(numbers).data
    only = data.steps[0] if len(data.steps) == 1 else None
    if not isinstance(only, KernelRun) or data.constants or data.checks or data.arena:
        return None
    assert isinstance(only.executable, CpuExecutable)
    launches = only.executable.launches()
    if len(launches) != 1 or len(data.own) != 1 or len(data.outputs) != 1:
        return None
    ((number, view),) = data.outputs
    if number != data.inputs or (view is not None and (view.offset or not view.contiguous)):
        return None
    (launch,) = launches
    if any(pointer.buffer == 0 or pointer.offset for pointer in launch.pointers):
        return None
    roots = [only.roots[p.buffer - 1] for p in launch.pointers]
    places = tuple([-1 if r == data.inputs else r for r in roots])
    return _Sample(rows, launch, places, data.host, data.scalars, data.products)


def _same_kernel(a: _Sample, b: _Sample) -> bool:
    """Whether two plans are one kernel with other numbers of rows."""
    one, other = _without_rows(a), _without_rows(b)
    return one is not None and one == other


def _without_rows(sample: _Sample) -> Any:
    """All of a kernel's call but the number of rows; None if that stands elsewhere."""
    call, rest = sample.launch.call, (*sample[2:], sample.launch.scalars)
    if call.sizes[0] != sample.rows:
        return None
    if isinstance(call, NestCall):
        if len(call.sizes) != 2:
            return None
        offsets = tuple([(a.offset, a.output) for a in call.arguments])
        return (call.nest, call.strides, call.sizes[1:], call.fixed, offsets, *rest)
    assert isinstance(call, ContractionCall), "it launches no offers"
    operands = tuple([_placed(o) for o in call.operands])
    ends = _placed(call.a), _placed(call.b), operands
    kinds = call.dtype, call.code, call.dtypes, call.stores, call.scalar_dtypes
    return (call.batch, call.sizes[1:], *ends, *kinds, *rest)


def _placed(argument: Argument) -> tuple[Any, ...]:
    return argument.strides, argument.offset, argument.output


class RowCalls:
    """How an operation on rows runs, whatever their number.

    Args:
        device: the backend.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._last: _Sample | None = None
        self._agreed: tuple[_Sample, _NestTables | None] | None = None
        self._far = 0
        self._failed = 0

    @property
    def wanted(self) -> bool:
        """Whether it wants to know of plans."""
        return self._failed < TRIES

    def note(self, rows: int, executable: GraphPlans, numbers: Sequence[Any]) -> None:
        """Takes notice of a plan of the operation."""
        before, agreed = self._last, self._agreed
        if not self.wanted or (before is not None and before.rows == rows):
            return
        self._last = sample = _sample(rows, executable, numbers)
        if sample is None or (before is not None and not _same_kernel(before, sample)):
            self._failed += 1
            self._agreed = None
        elif before is not None:
            self._far = FAR * max(before.rows, rows)
            if agreed is None or not _same_kernel(agreed[0], sample):
                is_nest = isinstance(sample.launch.call, NestCall)
                self._agreed = sample, _NestTables(sample) if is_nest else None

    def call(self, op: Op, inputs: Sequence[Handle | Scalar], rows: int) -> RowCall | None:
        """How it runs on operands like these; None if there has to be a plan."""
        agreed = self._agreed
        if agreed is None or rows > self._far:
            return None
        sample, tables = agreed
        (result,) = infer(op, inputs)
        given = [x for x in inputs if type(x) is not Scalar]
        avals = [result if p < 0 else Aval(given[p].shape, given[p].dtype) for p in sample.places]
        if not _inside(sample.launch.call, rows, avals):
            return None
        if tables is None:
            return ProductRows(self._device, sample, result, rows)
        bound = NestRows(self._device, sample, result, tables, rows)
        return None if bound.long else bound


def _inside(call: Any, rows: int, avals: Sequence[Aval]) -> bool:
    """Whether a kernel stays within its operands: one that left them would take the process."""
    for (sizes, strides, offset), aval in zip(_walks(call, rows), avals, strict=True):
        steps = [(n - 1) * s for n, s in zip(sizes, strides, strict=True)]
        first = offset + sum(min(s, 0) for s in steps)
        last = offset + sum(max(s, 0) for s in steps)
        if first < 0 or last >= math.prod(aval.shape):
            return False
    return True


def _walks(call: Any, rows: int) -> list[tuple[Sequence[int], Sequence[int], int]]:
    """For each operand the sizes and strides of its loops, and its offset."""
    if isinstance(call, NestCall):
        sizes = (rows, *call.sizes[1:])
        pairs = zip(call.strides, call.arguments, strict=True)
        return [(sizes, strides, argument.offset) for strides, argument in pairs]
    _, n, k = call.sizes
    walks = [((*call.batch, rows, k), call.a), ((*call.batch, k, n), call.b)]
    walks += [((*call.batch, rows, n), o) for o in call.operands]
    return [(sizes, o.strides, o.offset) for sizes, o in walks]


class _Bound:
    """An operation on rows of a certain number."""

    def __init__(self, device: Any, sample: _Sample, result: Aval) -> None:
        self._device = device
        self._result = result
        self._places = sample.places
        self._products = sample.products
        self._host = sample.host.function()

    def _operands(
        self, inputs: Sequence[Handle | Scalar]
    ) -> tuple[list[Any], Sequence[Any]] | None:
        """The inputs in order, and the numbers of the kernel; None if it takes a plan."""
        scalars = self._host(*[x.value for x in inputs if type(x) is Scalar])
        if scalars is None:
            return None
        device, given = self._device, [x for x in inputs if type(x) is not Scalar]
        for i in self._products:
            if device.axes_in_memory(given[i]) is not None:
                return None
        return [device.in_order(x) for x in given], scalars


class NestRows(_Bound):
    """A nest over rows.

    Attributes:
        long: whether it takes so long that Ctrl-C should be able to end it, as it can a plan.
    """

    def __init__(
        self, device: Any, sample: _Sample, result: Aval, tables: _NestTables, rows: int
    ) -> None:  # fmt: skip
        super().__init__(device, sample, result)
        self._tables = tables
        call = sample.launch.call
        assert isinstance(call, NestCall)
        self._rows = rows
        sizes = (rows, *call.sizes[1:])
        self._units, self._grain = units(call.nest, sizes), grain_of(call.nest, sizes)
        self._release = self._units >= QUICK * self._grain
        self.long = self._units > MANY * self._grain

    def __call__(self, inputs: Sequence[Handle | Scalar]) -> list[Handle] | None:
        """Runs it; None if it takes a plan."""
        found = self._operands(inputs)
        if found is None:
            return None
        (handles, scalars), tables = found, self._tables
        result = self._device.empty(self._result)
        table = tables.taken()
        table.bases[:] = [result.address if p < 0 else handles[p].address for p in self._places]
        table.args[0] = self._rows
        table.entries[0, UNITS], table.entries[0, GRAIN] = self._units, self._grain
        for place, number, dtype in tables.scalars:
            table.args[place] = bits_of_number(scalars[number], dtype)
        table.run(release=self._release)
        tables.idle.append(table)
        return [result]


class _NestTables(IdleTables):
    """Tables of one nest.

    Attributes:
        scalars: places in the arguments, positions of numbers, and their dtypes.
    """

    def __init__(self, sample: _Sample) -> None:
        call = sample.launch.call
        assert isinstance(call, NestCall)
        code = kernel_of(call.nest)
        strides = [s for strides in call.strides for s in strides]
        first = len(call.sizes) + len(strides)
        numbers = sample.launch.scalars
        self.scalars = [(k, n, sample.scalars[n]) for k, n in enumerate(numbers, first)]
        count = len(sample.places)
        offsets = [p.offset for p in sample.launch.pointers]
        args = [*call.sizes, *strides, *[0] * len(numbers), *call.fixed]
        super().__init__(kernel_table(code, range(count), count, args, offset_of=offsets))


class ProductRows(_Bound):
    """A product of so many rows, with what is done with each of its elements."""

    def __init__(self, device: Any, sample: _Sample, result: Aval, rows: int) -> None:
        super().__init__(device, sample, result)
        launch = sample.launch
        assert isinstance(launch.call, ContractionCall)
        call = launch.call._replace(sizes=(rows, *launch.call.sizes[1:]))
        pointers = tuple([p._replace(buffer=1 + n) for n, p in enumerate(launch.pointers)])
        renamed = launch._replace(call=call, pointers=pointers)
        self._executable = CpuExecutable.of([renamed], 1 + len(pointers), sample.scalars)
        self._prepacks = [self._places[n - 1] for n in self._executable.prepacks]

    def __call__(self, inputs: Sequence[Handle | Scalar]) -> list[Handle] | None:
        """Runs it; None if it takes a plan."""
        found = self._operands(inputs)
        if found is None:
            return None
        handles, scalars = found
        result = self._device.empty(self._result)
        buffers = [result.address if p < 0 else handles[p].address for p in self._places]
        self._executable([0, *buffers], scalars, prepacks=[handles[p] for p in self._prepacks])
        return [result]


RowCall: TypeAlias = "NestRows | ProductRows"
