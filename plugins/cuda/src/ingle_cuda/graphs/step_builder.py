"""Steps of an executable: launches with compiled kernels, all but addresses and numbers."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ingle.fusion.device import Launch, WholeCall
from ingle.fusion.device.cuda import NEST, THREADS, Grid, for_scatter, launch_of
from ingle.fusion.device.executables import compiled
from ingle.fusion.device.kernels import (
    SIZES,
    ContractionCall,
    Nest,
    NestCall,
    epilogue_nest,
    epilogue_of,
    is_copy,
    layout,
)

from ..cudnn import LibraryOffer
from ..kernel_offers import SCRATCH as OF_LAUNCH
from ..kernel_offers import KernelLaunch, Launches
from ..products.alignment import aligned
from ..products.copies import OperandCopy, copy_of
from ..products.cublas import Product, product_of
from ..products.product_results import added_row, direct_result, dtype_of_sums
from ..products.tile_products import (
    in_cluster,
    part_sums_of,
    parts_of,
    reads_much,
    sums_of,
    tile_launch,
)
from .buffer_uses import BufferUse
from .library_steps import LibraryStep, library_step

if TYPE_CHECKING:
    from ..backend import CudaBackend

SCRATCH, ARENA = -1, 0
"""Numbers of buffers: of the one behind those of the plan, and of what only its kernels use."""


class KernelStep(NamedTuple):
    """A launch with all but addresses and numbers.

    Attributes:
        kernel: compiled.
        pointers: (buffer, offset in bytes) for each operand.
        given: addresses, where the numbers lie, and the int64 behind.
        numbers: places of the scalars in `given`, and how many there are.
        scalars: the number of the plan's scalar for each of the first of them, -1 for one that
            never changes.
        blocks, threads: of the grid.
        source: for people.
        copies: whether it copies flat memory: onto itself it has nothing to do.
        early: operands that it reads before it waits for the launches in front of it.
        joins: whether it may be a member of a kernel of several, though it is of no nest.
    """

    kernel: Any
    pointers: tuple[tuple[int, int], ...]
    given: Any
    numbers: tuple[int, int]
    scalars: tuple[int, ...]
    blocks: int
    threads: int
    source: Any
    copies: bool = False
    early: tuple[int, ...] = ()
    joins: bool = False

    def is_idle(self, buffers: Sequence[int]) -> bool:
        """Whether there is nothing to do for buffers at these addresses."""
        if not self.copies:
            return False
        (one, first), (other, second) = self.pointers
        return buffers[one] + first == buffers[other] + second


class ProductStep(NamedTuple):
    """A product of the library.

    Attributes:
        a, b, out: (buffer, offset in bytes).
        row: elements of the result from one row to the next.
        steps: strides of the result along the batch.
        added: where the row lies that is added to each row of the result, if one is.
    """

    product: Product
    a: tuple[int, int]
    b: tuple[int, int]
    out: tuple[int, int]
    row: int
    steps: tuple[int, ...]
    added: tuple[int, int] | None = None


Step = KernelStep | ProductStep | LibraryStep


class StepBuilder:
    """Makes the steps of launches, in order.

    Args:
        backend: compiles kernels.
        uses: how the plan uses each buffer.

    Attributes:
        scratch: bytes of scratch memory that the steps share.
    """

    def __init__(self, backend: CudaBackend, uses: Mapping[int, BufferUse]) -> None:
        self._backend = backend
        self._steady = {n for n, use in uses.items() if n != ARENA and not use.is_written}
        self.scratch = 0
        self._copied: dict[Any, tuple[int, int]] = {}

    def steps_of(self, launch: Launch) -> list[Step]:
        """The steps of a launch; none if it computes nothing."""
        if not isinstance(launch.call, ContractionCall):
            self._copied = {}
        if isinstance(launch.call, NestCall):
            call = launch.call
            pointers = tuple([(p.buffer, p.offset) for p in launch.pointers])
            numbers = [*call.sizes, *[s for strides in call.strides for s in strides]]
            scattered = self._scatter(launch, call, pointers, numbers)
            if scattered:
                return scattered
            steady = {k for k, (buffer, _) in enumerate(pointers) if buffer in self._steady}
            step = self._nest(
                launch, call.nest, pointers, numbers, launch.scalars, call.fixed, steady
            )
            return [step] if step.blocks else []
        if isinstance(launch.call, WholeCall):
            return self._whole(launch, launch.call)
        return self._product(launch, launch.call)

    def _whole(self, launch: Launch, call: WholeCall) -> list[Step]:
        """The steps of an operation that an offer computes.

        A plan keeps the call and no more, since it may come from disk: the answer that
        `launches_whole` had is looked up again.
        """
        found = self._backend.whole_step(call)
        assert found is not None, f"nothing computes {call.op.operation.name} whole any more"
        offer, how = found
        if isinstance(how, Launches):
            self.scratch = max(self.scratch, how.nbytes)
            return [self._generated(launch, kernel) for kernel in how.kernels]
        assert isinstance(offer, LibraryOffer)
        library = library_step(launch, call, offer, how)
        if library.workspace is None:
            self.scratch = max(self.scratch, library.plan.nbytes)
        return [library]

    def _generated(self, launch: Launch, kernel: KernelLaunch) -> KernelStep:
        """A kernel of an offer, whose scratch memory is that of the steps."""
        places = [(p.buffer, p.offset) for p in launch.pointers]
        pointers = tuple([(SCRATCH, 0) if n == OF_LAUNCH else places[n] for n in kernel.operands])
        scalars = tuple([n if n < 0 else launch.scalars[n] for n in kernel.changing])
        return KernelStep(
            compiled(self._backend, launch, kernel.source, kernel.name), pointers,
            kernel.argument(), (len(pointers) + 1 + kernel.changes_at, len(scalars)), scalars,
            kernel.blocks, kernel.threads, kernel.source, early=kernel.early, joins=kernel.joins,
        )  # fmt: skip

    def _nest(
        self, launch: Launch, nest: Nest, pointers: tuple[tuple[int, int], ...],
        numbers: Sequence[int], scalars: tuple[int, ...], fixed: Sequence[int],
        steady: Container[int] = (),
    ) -> KernelStep:  # fmt: skip
        first = layout(nest).scalar(0)
        assert len(numbers) == first, (len(numbers), first)
        assert len(scalars) + len(fixed) == len(nest.scalars)
        processors = self._backend.limits.processors
        source, grid, taken = launch_of(nest, NEST, numbers, processors, steady)
        return self._kernel(
            launch, source or nest, pointers, numbers, scalars, fixed, grid, taken, is_copy(nest)
        )

    def _scatter(
        self, launch: Launch, call: NestCall, pointers: tuple[tuple[int, int], ...],
        numbers: Sequence[int],
    ) -> list[Step]:  # fmt: skip
        """The kernels of a scatter whose updates are sorted; none where the nest's own does it."""
        steps: list[Step] = []
        for one, grid in for_scatter(call.nest, NEST, numbers):
            places = (*pointers[: one.own], *[(SCRATCH, at) for at in one.lists])
            scalars, fixed = (launch.scalars, call.fixed) if one.scalars else ((), ())
            self.scratch = max(self.scratch, one.scratch)
            steps.append(self._kernel(
                launch, one.source, places, one.numbers, scalars, fixed, grid, one.units
            ))  # fmt: skip
        return steps

    def _kernel(
        self, launch: Launch, source: Nest | str, pointers: tuple[tuple[int, int], ...],
        numbers: Sequence[int], scalars: tuple[int, ...], fixed: Sequence[int], grid: Grid,
        taken: int, copies: bool = False,
    ) -> KernelStep:  # fmt: skip
        """A kernel of the argument that nests have."""
        own = 0, taken, grid.grain
        step = self._with_numbers(
            launch, source, NEST, pointers, numbers, scalars, fixed, own, grid
        )  # fmt: skip
        return step._replace(copies=copies)

    def _with_numbers(
        self, launch: Launch, source: Nest | str, name: str, pointers: Sequence[tuple[int, int]],
        numbers: Sequence[int], scalars: tuple[int, ...], fixed: Sequence[int], own: Sequence[int],
        grid: Grid,
    ) -> KernelStep:  # fmt: skip
        """A kernel with scalars among the numbers of its argument.

        Args:
            numbers, own: what stands before and behind the scalars.
            fixed: scalars behind those of the plan, which never change.
        """
        values, first = [*[0] * len(scalars), *fixed], max(len(pointers), 1) + 1
        behind = [*numbers, *values, *own]
        return KernelStep(
            compiled(self._backend, launch, source, name), tuple(pointers),
            (ctypes.c_int64 * (first + len(behind)))(*[0] * first, *behind),
            (first + len(numbers), len(values)), scalars, grid.blocks, grid.threads, source,
            early=grid.early,
        )  # fmt: skip

    def _product(self, launch: Launch, call: ContractionCall) -> list[Step]:
        m, n, _ = call.sizes
        count = math.prod(call.batch)
        if not count or not m or not n:
            return []
        whole = self._with_row(launch, call)
        if whole is not None:
            return whole
        if self._backend.tiles:
            steps = self._tiles(launch, call)
            if steps:
                return steps
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
            both = (out, *places[2:])
            steps.append(self._epilogue(launch, call, product.result, both, (*strides, product.n)))
        self.scratch = max(self.scratch, used)
        return steps

    def _tiles(self, launch: Launch, call: ContractionCall) -> list[Step]:
        """The kernel of a product and what follows it, which has one of its own where it reads
        much; nothing where the library computes the product."""
        parts, processors = parts_of(call), self._backend.limits.processors
        clusters = self._backend.clusters and in_cluster(parts)
        alone = not clusters and (parts > 1 or reads_much(call))
        if clusters:
            tile = tile_launch(call, processors, parts)
        elif parts > 1:
            tile = tile_launch(part_sums_of(call, parts), processors)
        else:
            tile = tile_launch(sums_of(call) if alone else call, processors)
        if tile is None:
            return []
        places = [(p.buffer, p.offset) for p in launch.pointers]
        given = [*places[:2], (SCRATCH, 0)] if alone else places
        scalars = () if alone else launch.scalars
        found: list[Step] = [self._with_numbers(
            launch, tile.source, tile.name, given, tile.nest_numbers, scalars, (0,), tile.own,
            Grid(tile.blocks, tile.threads, 1),
        )]  # fmt: skip
        if alone:
            sums = sums_of(call).operands[0].strides
            nbytes = math.prod((*call.batch, *call.sizes[:2])) * SIZES[call.dtype]
            self.scratch = max(self.scratch, _aligned(parts * nbytes))
            made = [(SCRATCH, part * nbytes) for part in range(parts)]
            given = [*made, *places[2:]]
            found.append(self._epilogue(launch, call, call.dtype, given, sums[:-1], parts))
        return found

    def _with_row(self, launch: Launch, call: ContractionCall) -> list[Step] | None:
        """The steps of a product to whose rows one is added, if the library does that as well."""
        added = added_row(call)
        if added is None:
            return None
        written = launch.pointers[2 + added.store]
        reads = added.rest is not None and len(added.others) > len(added.rest.stores)
        if reads and written.buffer != ARENA:  # where a result may lie in memory that is read
            return None
        places = [(p.buffer, p.offset) for p in launch.pointers]
        *outer, row, _ = call.operands[added.store].strides
        first, second, third = [p.offset % 16 != 0 for p in (*launch.pointers[:2], written)]
        product, apart = aligned(
            product_of(call, call.dtype), row, outer, (first, second, third)
        )  # fmt: skip
        row = row if call.sizes[0] > 1 else call.sizes[1]
        if apart or not self._backend.adds_row(product, row):
            return None
        steps, operands, used = self._operands(launch, call, product)
        out = places[2 + added.store]
        steps.append(ProductStep(
            product, operands[0], operands[1], out, row, tuple(outer), places[2 + added.row],
        ))  # fmt: skip
        if added.rest is not None:
            others = [places[2 + k] for k in added.others]
            steps.append(
                self._epilogue(launch, added.rest, call.dtype, (out, *others), (*outer, row))
            )
        self.scratch = max(self.scratch, used)
        return steps

    def _epilogue(
        self, launch: Launch, call: ContractionCall, dtype: str,
        places: Sequence[tuple[int, int]], strides: Sequence[int], parts: int = 1,
    ) -> KernelStep:  # fmt: skip
        """The kernel behind a product.

        Args:
            dtype: of the sums.
            places: of the sums, or of each part of them, and of the call's operands.
            strides: of the sums along the batch and from row to row.
            parts: of the sums.
        """
        nest = epilogue_nest(epilogue_of(call), len(call.batch) + 1, dtype, parts)
        m, n, _ = call.sizes
        numbers = [*call.batch, m, n, *[*strides, 1] * parts]
        for argument in call.operands:
            numbers += argument.strides
        step = self._nest(launch, nest, tuple(places), numbers, launch.scalars, (0,))
        assert not step.early, "the product, which it reads first, may not have ended"
        return step

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


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 256) * 256
