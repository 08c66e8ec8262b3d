"""Kernels of a plan in the device's stream; from the second run on the same memory on, as one
graph.

What changes between two runs of a graph, the scalars, lies in memory of the device, where a kernel
in front of the graph writes them if they are others than before.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ingle.fusion.device import DonationState, Launch, WholeCall
from ingle.fusion.device.cuda import THREADS, for_length, grid_of
from ingle.fusion.device.executables import bits_of_number, compiled
from ingle.fusion.device.kernels import (
    SIZES,
    ContractionCall,
    Nest,
    NestCall,
    epilogue_nest,
    epilogue_of,
    layout,
    units,
)

from .alignment import aligned
from .copies import OperandCopy, copy_of
from .cublas import Product, product_of
from .errors import told
from .joined import JoinedStep, with_joined
from .library_steps import LibraryStep, ShiftedInputs, library_step
from .product_results import direct_result, dtype_of_sums
from .sources import NUMBERS, NUMBERS_AT_ONCE, numbers_source
from .wandering_inputs import WanderingInputs

if TYPE_CHECKING:
    from .backend import CudaBackend

SCRATCH = -1
"""The number of the buffer behind those of the plan."""
_NEST = "nest"
"""The name of kernels that are nests."""
_WORTH_A_GRAPH = 3
"""Launches from which on a graph takes less time than they do; one of a library is as many."""
_GRAPHS = 8
"""Graphs that are kept of an executable, one for each memory that it runs on."""
_SEEN = 64


class KernelStep(NamedTuple):
    """A launch with all but addresses and numbers.

    Attributes:
        kernel: compiled.
        pointers: (buffer, offset in bytes) for each operand.
        given: addresses, where the numbers lie, and the int64 behind.
        numbers: places of the scalars in `given`, and how many there are.
        scalars: the number of the plan's scalar for each of the first of them.
        blocks, threads: of the grid.
        source: for people.
    """

    kernel: Any
    pointers: tuple[tuple[int, int], ...]
    given: Any
    numbers: tuple[int, int]
    scalars: tuple[int, ...]
    blocks: int
    threads: int
    source: Any


class ProductStep(NamedTuple):
    """A product of the library.

    Attributes:
        a, b, out: (buffer, offset in bytes).
        row: elements of the result from one row to the next.
        steps: strides of the result along the batch.
    """

    product: Product
    a: tuple[int, int]
    b: tuple[int, int]
    out: tuple[int, int]
    row: int
    steps: tuple[int, ...]


Step = KernelStep | ProductStep | LibraryStep


class Executable:
    """The launches of a plan, compiled."""

    prepacks: tuple[int, ...] = ()
    renewed = False
    long = False

    def __init__(
        self, backend: CudaBackend, launches: Sequence[Launch], scalars: Sequence[str]
    ) -> None:
        self._backend = backend
        self._dtypes = list(scalars)
        self._scratch = 0
        self._copied: dict[Any, tuple[int, int]] = {}
        self._parts = [self._steps_of(launch) for launch in launches]
        self._steps = [step for part in self._parts for step in part]
        self._runs: list[Step | JoinedStep] = [*self._steps]
        if backend.joins:
            self._runs = with_joined(backend, launches, self._parts)
        kernels = [s for s in self._steps if isinstance(s, KernelStep)]
        self._read = sorted({number for step in kernels for number in step.scalars})
        self._numbers = sum(step.numbers[1] for step in kernels)
        self._shifted = ShiftedInputs(launches)
        self._wandering = WanderingInputs(backend, launches)
        library = sum([isinstance(step, LibraryStep) for step in self._steps])
        self._is_long = len(self._steps) + library * _WORTH_A_GRAPH >= _WORTH_A_GRAPH
        self._graphs: OrderedDict[tuple[int, ...], Any] = OrderedDict()
        self._seen: OrderedDict[tuple[int, ...], None] = OrderedDict()
        self._table: Any = None
        self._values = [one for step in kernels for one in _values_of(step)]
        self._written: dict[int, int] | None = None

    # Making ------------------------------------------------------------------------------------

    def _steps_of(self, launch: Launch) -> list[Step]:
        if not isinstance(launch.call, ContractionCall):
            self._copied = {}
        if isinstance(launch.call, NestCall):
            call = launch.call
            pointers = tuple([(p.buffer, p.offset) for p in launch.pointers])
            numbers = [*call.sizes, *[s for strides in call.strides for s in strides]]
            step = self._nest(
                launch, call.nest, call.sizes, pointers, numbers, launch.scalars, call.fixed
            )
            return [step] if step.blocks else []
        if isinstance(launch.call, WholeCall):
            library = library_step(self._backend, launch, launch.call)
            self._scratch = max(self._scratch, library.plan.nbytes)
            return [library]
        return self._product(launch, launch.call)

    def _nest(
        self, launch: Launch, nest: Nest, sizes: Sequence[int],
        pointers: tuple[tuple[int, int], ...], numbers: Sequence[int], scalars: tuple[int, ...],
        fixed: Sequence[int],
    ) -> KernelStep:  # fmt: skip
        count, first = len(nest.operands), layout(nest).scalar(0)
        assert len(numbers) == first, (len(numbers), first)
        grid = grid_of(nest, sizes, self._backend.limits.processors)
        values = [*[0] * len(scalars), *fixed]
        assert len(values) == len(nest.scalars)
        behind = [*numbers, *values, 0, units(nest, sizes), grid.grain]
        given = (ctypes.c_int64 * (max(count, 1) + 1 + len(behind)))(
            *[0] * (max(count, 1) + 1), *behind
        )
        own = for_length(nest, _NEST, sizes[-1]) if sizes else None
        source = nest if own is None else own
        return KernelStep(
            compiled(self._backend, launch, source, _NEST), pointers, given,
            (max(count, 1) + 1 + first, len(values)), scalars, grid.blocks, grid.threads,
            source,
        )  # fmt: skip

    def _product(self, launch: Launch, call: ContractionCall) -> list[Step]:
        m, n, _ = call.sizes
        count = math.prod(call.batch)
        if not count or not m or not n:
            return []
        result = direct_result(call)
        product = product_of(call, result or dtype_of_sums(call))
        places = [(p.buffer, p.offset) for p in launch.pointers]
        *outer, row, _ = call.operands[0].strides if result else [0] * (len(call.batch) + 2)
        first, second, third = [p.offset % 16 != 0 for p in launch.pointers[:3]]
        product, apart = aligned(product, row, outer, (first, second, third))
        result = None if apart else result
        steps, operands, used = self._operands(launch, call, product)
        if result is not None:
            steps.append(ProductStep(
                product, operands[0], operands[1], places[2],
                row if m > 1 else n, tuple(outer),
            ))  # fmt: skip
        else:
            wide = product.m * product.n
            strides = [wide * math.prod(call.batch[i + 1 :]) for i in range(len(call.batch))]
            out = (SCRATCH, used)
            used += _aligned(count * wide * SIZES[product.result])
            steps.append(
                ProductStep(product, operands[0], operands[1], out, product.n, tuple(strides))
            )
            nest = epilogue_nest(epilogue_of(call), len(call.batch) + 1, product.result)
            sizes = (*call.batch, m, n)
            numbers = [*sizes, *strides, product.n, 1]
            for argument in call.operands:
                numbers += argument.strides
            steps.append(self._nest(
                launch, nest, sizes, (out, *places[2:]), numbers, launch.scalars, (0,)
            ))  # fmt: skip
        self._scratch = max(self._scratch, used)
        return steps

    def _operands(
        self, launch: Launch, call: ContractionCall, product: Product
    ) -> tuple[list[Step], list[tuple[int, int]], int]:
        """Copies of operands that need one, where the operands are then, and the scratch memory in
        use. What the product before has copied alike lies there still: both gradients of a
        product read that of its result."""
        places = [(p.buffer, p.offset) for p in launch.pointers]
        copies: dict[int, tuple[Any, OperandCopy]] = {}
        for n, operand in enumerate((product.a, product.b)):
            if operand.copied:
                copy = copy_of(call, product, n == 0)
                copies[n] = (places[n], copy.source, *copy.numbers), copy
        before, self._copied = self._copied, {}
        used = max([sum(before[key]) for key, _ in copies.values() if key in before], default=0)
        written = [p for p, o in zip(places[2:], call.operands, strict=True) if o.output]
        steps: list[Step] = []
        operands = places[:2]
        for n, (key, copy) in copies.items():
            if key in before:
                self._copied[key] = before[key]
            else:
                steps.append(self._copy(launch, copy, places[n], used))
                self._copied[key] = used, _aligned(copy.nbytes)
                used += _aligned(copy.nbytes)
            operands[n] = (SCRATCH, self._copied[key][0])
            if places[n] in written:
                del self._copied[key]
        return steps, operands, used

    def _copy(
        self, launch: Launch, copy: OperandCopy, place: tuple[int, int], used: int
    ) -> KernelStep:
        """A copy into scratch memory."""
        numbers = copy.numbers
        given = (ctypes.c_int64 * (3 + len(numbers)))(0, 0, 0, *numbers)
        kernel = compiled(self._backend, launch, copy.source, copy.name)
        return KernelStep(
            kernel, (place, (SCRATCH, used)), given, (0, 0), (), -(-numbers[0] // THREADS),
            THREADS, copy.source,
        )  # fmt: skip

    # Running -----------------------------------------------------------------------------------

    def __call__(
        self, addresses: Sequence[int], scalars: Sequence[Any],
        donation: DonationState | None = None, *, prepacks: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        """Puts them into the stream, for buffers at these addresses."""
        numbers = {n: bits_of_number(scalars[n], self._dtypes[n]) for n in self._read}
        backend = self._backend
        backend.enter()
        with backend.lock, told(backend.device, "a plan was run"):
            scratch = backend.scratch(self._scratch) if self._scratch else 0
            buffers, held = self._shifted.straightened(backend, (*addresses, scratch))
            graph = self._graph(buffers, whole=donation is not None)
            if graph is None:
                for step in self._runs:
                    self._put(step, buffers, numbers, backend.stream)
                del held
                return
            self._write(numbers)
            self._wandering.copy(buffers)
            launch, stream = graph.launch, backend.stream
            if donation is not None:
                # Python looks for signals after calls: none is handled before the next one's end.
                donation.done = True
            launch(stream)
            del held

    def _graph(self, buffers: tuple[int, ...], whole: bool) -> Any:
        """The graph for this memory, if it was seen before.

        Args:
            whole: whether the launches may not be interrupted, since they write over inputs.
        """
        own, buffers = buffers, self._wandering.settled(buffers)
        found = self._graphs.get(buffers)
        if found is not None:
            self._graphs.move_to_end(buffers)
            self._wandering.met()
            return found
        if not whole and not (self._is_long and self._backend.graphs):
            return None
        if self._backend.graphs and self._wandering.missed(buffers):
            buffers = self._wandering.settled(own)
        if buffers not in self._seen and not whole:
            self._seen[buffers] = None
            if len(self._seen) > _SEEN:
                self._seen.popitem(last=False)
            return None
        if self._table is None and self._numbers:
            self._table = self._backend.allocate(8 * self._numbers)
        stream = self._backend.capturing()
        try:
            stream.begin_capture(1)  # of this thread alone
            at = 0 if self._table is None else self._table.address
            for step in self._runs:
                at = self._put(step, buffers, None, stream, at)
        except BaseException:
            # Without an end, this thread could neither capture nor allocate any more; what the
            # end itself says of an incomplete graph is nothing new.
            with suppress(RuntimeError):
                stream.end_capture()
            raise
        graph = stream.end_capture()
        self._graphs[buffers] = graph
        if len(self._graphs) > _GRAPHS:
            self._graphs.popitem(last=False)
        return graph

    def _put(
        self, step: Step | JoinedStep, buffers: Sequence[int], numbers: dict[int, int] | None,
        stream: Any, table: int = 0,
    ) -> int:  # fmt: skip
        """Puts a step into a stream.

        Args:
            numbers: the plan's scalars; None where kernels read them at `table`.

        Returns:
            Where the next step's scalars lie.
        """
        if isinstance(step, JoinedStep):
            if not step.is_apart(buffers):
                for one in step.steps:
                    table = self._put(one, buffers, numbers, stream, table)
                return table
            given = []
            for one in step.steps:
                given.append(_argument(one, buffers, numbers, table))
                table += 8 * one.numbers[1]
            whole, blocks = step.together(given)
            self._backend.enqueue(step.kernel, whole, blocks, step.steps[0].threads, stream)
            return table
        if isinstance(step, LibraryStep):
            step.put(buffers, buffers[SCRATCH], stream)
            return table
        if isinstance(step, ProductStep):
            a, b, out = (buffers[n] + offset for n, offset in (step.a, step.b, step.out))
            self._backend.multiply(step.product, stream, a, b, out, step.row, step.steps)
            return table
        argument = _argument(step, buffers, numbers, table)
        self._backend.enqueue(step.kernel, argument, step.blocks, step.threads, stream)
        return table + 8 * step.numbers[1]

    def _write(self, numbers: dict[int, int]) -> None:
        """Writes the scalars where a graph reads them, if they are others than before."""
        if not self._numbers:
            return
        if self._written == numbers:
            return
        values = [numbers[n] if n >= 0 else fixed for n, fixed in self._values]
        kernel = self._backend.kernel(numbers_source(), NUMBERS)
        self._written = None  # some of both, if this is interrupted
        for start in range(0, len(values), NUMBERS_AT_ONCE):
            part = values[start : start + NUMBERS_AT_ONCE]
            given = (ctypes.c_int64 * (2 + NUMBERS_AT_ONCE))(
                self._table.address + 8 * start, len(part), *part
            )
            self._backend.enqueue(kernel, given, 1, NUMBERS_AT_ONCE, self._backend.stream)
        self._written = numbers

    def profile(
        self, addresses: Sequence[int], scalars: Sequence[Any], runs: int,
        prepacks: Sequence[Any] = (),
    ) -> Sequence[float]:  # fmt: skip
        """Seconds of each launch, the mean of some runs."""
        numbers = {n: bits_of_number(scalars[n], self._dtypes[n]) for n in self._read}
        backend, seconds = self._backend, []
        backend.enter()
        with backend.lock, told(backend.device, "a plan was profiled"):
            buffers = (*addresses, backend.scratch(self._scratch) if self._scratch else 0)
            for part in self._parts:
                backend.synchronize()
                start = time.perf_counter()
                for _ in range(runs):
                    for step in part:
                        self._put(step, buffers, numbers, backend.stream)
                backend.synchronize()
                seconds.append((time.perf_counter() - start) / runs)
        return seconds

    def sources(self) -> Sequence[str]:
        """The kernels' source code."""
        return [
            f"/* cuBLAS: {s.product} */" if isinstance(s, ProductStep)
            else f"/* cuDNN: {s.op.operation.name} */" if isinstance(s, LibraryStep)
            else s.source if isinstance(s.source, str) else self._backend.source(s.source)
            for s in self._steps
        ]  # fmt: skip


def _values_of(step: KernelStep) -> list[tuple[int, int]]:
    """What a graph's kernel reads from memory: of the plan's scalars its number, of what never
    changes -1 and itself."""
    place, count = step.numbers
    fixed = step.given[place + len(step.scalars) : place + count]
    return [*[(n, 0) for n in step.scalars], *[(-1, number) for number in fixed]]


def _argument(
    step: KernelStep, buffers: Sequence[int], numbers: dict[int, int] | None, table: int
) -> Any:
    """What a kernel is given: addresses, where its scalars lie, and numbers."""
    given = type(step.given).from_buffer_copy(step.given)
    for k, (buffer, offset) in enumerate(step.pointers):
        given[k] = buffers[buffer] + offset
    place, count = step.numbers
    if numbers is None and count:
        given[max(len(step.pointers), 1)] = table
    elif numbers is not None:
        for n, number in enumerate(step.scalars):
            given[place + n] = numbers[number]
    return given


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 256) * 256
