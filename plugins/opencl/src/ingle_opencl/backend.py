"""The backend of one OpenCL device: a queue in order, buffers, and kernels from source."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ingle.fusion.device import CustomKernel, Launch, Ordered, Rates, WindowProblem
from ingle.fusion.device.kernel_backend import AddressSpace, Held, KernelBackend, MemoryHandle
from ingle.fusion.device.kernels import DTYPES, Nest, layout, units
from ingle.fusion.device.opencl import (
    ScatterLaunch,
    Work,
    for_launch,
    for_scatter,
    render_wide,
    work_of,
)
from ingle.tensor.contract import Aval
from ingle.tensor.device import Device
from ingle.tensor.errors import BackendError
from ingle.tensor.locks import renewed
from ingle.tensor.memory import Label, Pool, pool_from_environment

from .arguments import set_bytes
from .attention import Attention
from .autotune import Tiles
from .declarations import Programs
from .devices import Limits, limits_of
from .errors import is_out_of_memory, told
from .launches import Enqueued, enqueued
from .matmul import FEWEST, is_float, is_worth_it
from .memory import BufferSource
from .run_ahead import RunAhead

_OPTIONS = ["-cl-std=CL1.2", "-w"]
_GROUPS = {1: (128,), 3: (8, 16, 1)}
"""Work items in a group of a GPU, by the number of axes of a launch. Those beyond the end do
nothing."""
_SLICE = 16
_GROUPS_AT_MOST = 16
"""Groups of a convolution up to which each is a product that is worth packing."""
_FAST_FMA = ["-D FP_FAST_FMAF", "-D FP_FAST_FMA"]
_CARD = Rates(bandwidth=500e9, flops=15e12, plain=2, root=16)
"""A graphics card's rates, to a factor of three: drivers do not say what memory moves."""

_EXACT = "-cl-fp32-correctly-rounded-divide-sqrt"


class OpenCLBackend(KernelBackend):
    """Runs kernels in a queue of the device, which works while Python goes on.

    Args:
        device: its name in Ingle.
        hardware: the device of the driver.
        wide: whether work items are many and small, and groups of them share rows; if not given, of
            what is not a processor.
        limits: what kernels may ask of it; what it says itself if not given.

    Attributes:
        tiles: of its products.
        programs: builds them.
    """

    name = "opencl"
    language = "opencl"
    joins_maps = True

    def __init__(
        self, device: Device, hardware: Any, limits: Limits | None = None, wide: bool | None = None
    ) -> None:
        import pyopencl as cl

        self.limits = limits or limits_of(hardware)
        self.wide = self.limits.gpu if wide is None else wide
        self.splits_sums = self.wide
        if self.limits.gpu:
            self.rates = _CARD
        self.dtypes = None if self.limits.float64 else DTYPES - {"float64"}
        super().__init__(device)
        self._cl = cl
        self.hardware = hardware
        with told(device, "a context was made"):
            self._context = cl.Context([hardware])
            self._queue = cl.CommandQueue(self._context)
        self._space: AddressSpace[Any] = AddressSpace()
        source = BufferSource(self._context, self._space, self.limits)
        self._pool = pool_from_environment(source)
        options = [
            *_OPTIONS,
            *([_EXACT] if self.limits.exact else []),
            *(_FAST_FMA if self.limits.fma else []),
            *([] if self.wide else [f"-D INGLE_VECTOR={self.limits.register // 8}"]),
        ]
        self.programs = Programs(self._context, hardware.platform.name, options)
        self._ahead = RunAhead()
        self._process = os.getpid()
        # A kernel keeps its arguments from `set_arg` to the queue.
        self._launching = renewed(self, "_launching")
        self._arguments_of: Any = None
        self.offers = (Attention(self),) if self.wide else ()
        self.tiles = Tiles(self)

    def memory(self) -> Pool:
        """The pool of the device's buffers."""
        return self._pool

    # What `KernelBackend` asks -----------------------------------------------------------------

    def compile_source(self, source: str, name: str) -> Any:
        try:
            built = self.programs.build(source)
        except self._cl.Error as error:
            raise BackendError(f"{error}\n{source}") from error
        return self._cl.Kernel(built, name)

    def launch(
        self, kernel: Any, pointers: Sequence[int], args: Sequence[int], begin: int, end: int
    ) -> None:
        """Runs a kernel that was written by hand: one work item for each unit of work."""
        self._check_process()
        with (
            self._launching,
            told(self.device, "a kernel was launched"),
            self._own(kernel) as kernel,
        ):
            for k, address in enumerate(pointers):
                buffer, offset = self._space.find(address)
                if offset:
                    buffer = buffer.get_sub_region(offset, buffer.size - offset)
                kernel.set_arg(k, buffer)
            for k, number in enumerate(args, len(pointers)):
                set_bytes(kernel, k, np.array(number, np.int64))
            event = self._put("nd_range_kernel", kernel, (end - begin,), None, (begin,))
        self._count(event)

    def run_custom(
        self, own: CustomKernel, tensors: Sequence[MemoryHandle], results: Sequence[MemoryHandle],
        numbers: Sequence[int],
    ) -> None:  # fmt: skip
        """Runs a kernel that somebody wrote, on operands that begin where a buffer may."""
        inputs = [self._aligned(handle) for handle in tensors]
        outputs = [self._aligned(handle, copied=False) for handle in results]
        super().run_custom(own, inputs, outputs, numbers)
        for made, wanted in zip(outputs, results, strict=True):
            if made is not wanted:
                self._copy_bytes(made, wanted)

    def _aligned(self, handle: MemoryHandle, copied: bool = True) -> MemoryHandle:
        if not handle.address % self.limits.alignment:
            return handle
        memory = Held(self._pool.allocate(_nbytes(handle) + self.limits.alignment))
        start = -(-memory.address // self.limits.alignment) * self.limits.alignment
        made = MemoryHandle(self, Aval(handle.shape, handle.dtype), memory, start)
        if copied:
            self._copy_bytes(handle, made)
        return made

    def _copy_bytes(self, source: MemoryHandle, target: MemoryHandle) -> None:
        (a, start), (b, stop) = (self._space.find(h.address) for h in (source, target))
        with told(self.device, "a value was copied"):
            self._put("copy", b, a, byte_count=_nbytes(source), src_offset=start, dst_offset=stop)

    def empty(self, aval: Aval) -> MemoryHandle:
        """New memory, labelled for statistics and messages."""
        self._check_process()
        nbytes = _nbytes(aval)
        label = Label("a value of", aval.shape, aval.dtype)
        memory = Held(self._pool.allocate(max(nbytes, 1), label))
        return MemoryHandle(self, aval, memory, memory.address)

    def run_nest(
        self, nest: Nest, sizes: Sequence[int], pointers: Sequence[int], args: Sequence[int]
    ) -> None:
        """Runs all units of a nest by itself, without a plan."""
        first = layout(nest).scalar(0)
        own = self.for_launch(nest, args)
        source, (items, grain, group) = own or (nest, self.work_of(nest, sizes))
        taken = items // group[0] if own and group else units(nest, sizes)
        given = np.array([*[0] * len(pointers), *args[first:], 0, 0, taken, grain], np.int64)
        table = self.table(args[:first])
        self.enqueue(self.kernel(source), pointers, table, given, (items,), group)

    def allocate(self, nbytes: int) -> Held:
        self._check_process()
        return Held(self._pool.allocate(nbytes))

    def write(self, address: int, array: np.ndarray) -> None:
        buffer, offset = self._space.find(address)
        with told(self.device, f"{array.nbytes} bytes were written"):
            self._put("copy", buffer, array, dst_offset=offset, is_blocking=True)

    def read(self, address: int, array: np.ndarray) -> None:
        self._check_process()
        buffer, offset = self._space.find(address)
        with told(self.device, f"{array.nbytes} bytes were read"):
            self._put("copy", array, buffer, src_offset=offset, is_blocking=True)

    def begin_flags(self, handles: Sequence[Ordered]) -> Callable[[], Sequence[bool]]:
        """Puts copies of flags into the queue, and returns what waits for these."""
        self._check_process()
        found = [np.empty(handle.shape, np.uint8) for handle in handles]
        with told(self.device, "flags were read"):
            for array, handle in zip(found, handles, strict=True):
                buffer, offset = self._space.find(handle.address)
                event = self._put("copy", array, buffer, src_offset=offset, is_blocking=False)
            self._queue.flush()

        def wait() -> Sequence[bool]:
            self._check_process()
            with told(self.device, "flags were read"):
                event.wait()
            return [bool(array.any()) for array in found]

        return wait

    def synchronize(self) -> None:
        self._check_process()
        with told(self.device, "it was waited for"):
            self._queue.finish()

    def contracts(self, avals: Sequence[Aval]) -> bool:
        """Whether there is a template for a matrix product of these."""
        a, b = avals
        return is_worth_it(a.dtype.name, a.shape[-2], b.shape[-1])

    def takes_windows(self, problem: WindowProblem) -> bool:
        """Whether a product with windows is one of packed ones."""
        few = problem.groups > 1 and min(problem.m, problem.n) < FEWEST
        return is_float(problem.dtype) and problem.groups <= _GROUPS_AT_MOST and not few

    def executable(
        self, launches: Sequence[Launch], buffers: int, scalars: Sequence[str]
    ) -> Enqueued:
        """Kernels, compiled and ready for the queue."""
        return enqueued(self, launches, scalars)

    # What launches ask -------------------------------------------------------------------------

    def work_of(self, nest: Nest, sizes: Sequence[int]) -> Work:
        """How a nest's units of work are cut into work items."""
        return work_of(nest, sizes, self.limits.processors, self.wide)

    def for_launch(self, nest: Nest, numbers: Sequence[int]) -> tuple[str, Work] | None:
        """A kernel for a launch's sizes and strides, and its work; None where that is the nest's
        own."""
        return for_launch(nest, "nest", numbers) if self.wide else None

    def scatter(self, nest: Nest, numbers: Sequence[int]) -> list[ScatterLaunch]:
        """The launches of a scatter whose updates are sorted; none where the nest's own is it."""
        return for_scatter(nest, "nest", numbers) if self.wide else []

    def source(self, nest: Nest) -> str:
        """A nest in OpenCL C."""
        return render_wide(nest, "nest") if self.wide else super().source(nest)

    def slices_of(self, k: int) -> tuple[int, int]:
        """Into how many pieces packing cuts the lines of an operand, and how long these are."""
        length = _SLICE if self.wide else max(k, 1)
        return max(1, -(-k // length)), length

    def table(self, numbers: Sequence[int]) -> Any:
        """A buffer with what kernels read of sizes and strides."""
        cl = self._cl
        host = np.array([*numbers, 0], np.int64)
        with told(self.device, "a table of arguments was made"):
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            return self._roomy(lambda: cl.Buffer(self._context, flags, hostbuf=host))

    def enqueue(
        self, kernel: Any, pointers: Sequence[int], table: Any, given: np.ndarray,
        items: tuple[int, ...], group: tuple[int, ...] | None = None, first: int = 0,
    ) -> None:  # fmt: skip
        """Puts a kernel into the queue, for so many work items along each axis, or some more.

        Args:
            group: how many make a group, if the kernel was written for that.
            first: the number of the first one along the last axis.
        """
        self._check_process()
        count = len(pointers)
        with (
            self._launching,
            told(self.device, "a kernel was launched"),
            self._own(kernel) as kernel,
        ):
            for k, address in enumerate(pointers):
                buffer, given[k] = self._space.find(address)
                kernel.set_arg(k, buffer)
            kernel.set_arg(count, table)
            set_bytes(kernel, count + 1, given)
            if group is None:
                group = _GROUPS[len(items)] if self.wide else (1,) * len(items)
            whole = tuple([-(-n // g) * g for n, g in zip(items, group, strict=True)])
            offset = (*[0] * (len(items) - 1), first) if first else None
            event = self._put("nd_range_kernel", kernel, whole, group, offset)
        self._count(event)

    def _put(self, what: str, *arguments: Any, **options: Any) -> Any:
        """Puts a command into the queue; returns its event."""
        command = getattr(self._cl, f"enqueue_{what}")
        return self._roomy(lambda: command(self._queue, *arguments, **options))

    def _roomy(self, asked: Callable[[], Any]) -> Any:
        """What a driver answers, asked again with more room if it had no memory.

        Many promise buffers and find memory for them in the first command that uses them, as they
        do for what kernels spill, so that a command may be refused where the pool was not. What
        other processes hold of the device counts as well, for as long as they do.
        """
        try:
            return asked()
        except self._cl.Error as error:
            if not is_out_of_memory(error):
                raise
        self._queue.finish()  # drivers keep buffers until the commands that use them are done
        gc.collect()
        self._pool.release()
        return asked()

    def _count(self, event: Any) -> None:
        with told(self.device, "its queue was waited for"):
            self._ahead.launched(event)

    @contextmanager
    def _own(self, kernel: Any) -> Iterator[Any]:
        """A kernel whose arguments nobody else sets: a handler of signals may launch it between two
        arguments of the run that it interrupts, and then gets another one."""
        before = self._arguments_of
        if before is not None:
            program = kernel.get_info(self._cl.kernel_info.PROGRAM)
            kernel = self._cl.Kernel(program, kernel.function_name)
        self._arguments_of = kernel
        try:
            yield kernel
        finally:
            self._arguments_of = before

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise BackendError(
                f"{self.device} was opened before this process was forked, and drivers cannot be "
                "used in a forked child; start processes with multiprocessing's method 'spawn'"
            )


def _nbytes(x: MemoryHandle | Aval) -> int:
    return math.prod(x.shape) * x.dtype.itemsize
