"""A base for backends that can compile and launch source code, and nothing else.

Derive from `KernelBackend` and write five methods: `compile_source`, `launch`, `allocate`, `write`
and `read`. Every operation that kernels can be generated for runs natively then, alone or fused
with its neighbours; what is left runs on the host, which is announced once and counted.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ingle.tensor.contract import Aval, Backend, Handle, Scalar
from ingle.tensor.device import Device, call_staged
from ingle.tensor.dispatch import execute_body
from ingle.tensor.dtypes import from_numpy_dtype
from ingle.tensor.eager import EagerBackend, Road
from ingle.tensor.locks import renewed
from ingle.tensor.memory import ALIGNMENT
from ingle.tensor.operation import Op, Operation, infer
from ingle.tensor.programs import Program

from ..fusion import Fusion
from ..grouping.legality import Legality
from ..ir.graph import Graph
from ..ir.movement import COPIES
from ..ir.views import strides_of
from ..kernel.nest import Nest, units
from ..passes.convolutions import WindowProblem
from ..render.c import cuda, opencl, source
from ..schedule.rates import DESKTOP
from ..schedule.schedule import Call, HostStep
from ..support.settings import is_fused
from .checked_plans import CheckedPlans
from .custom_kernels import CustomKernel, custom_kernel_of, has_custom_kernel
from .device import Launch, NativeExecutable, Ordered, Turns
from .device_handles import MemoryHandle as MemoryHandle
from .device_handles import StridedHandle as StridedHandle
from .graph_plans import GraphPlans
from .launch import bits_of_number, compiled_launches
from .moving import copy, moved, placed
from .offers import Offer, taker
from .pending_checks import PendingChecks
from .plan_codegen import LinearPlan
from .plan_store import PlanStore
from .programs import ProgramPlans
from .scratch import Lender, Lent

RENDERERS: dict[str, Callable[[Nest, str], str]] = {
    "c": source.render, "cuda": cuda.render, "opencl": opencl.render,
}  # fmt: skip
"""Languages that kernels can be written in: from a nest and a name to the source."""


NAME = "nest"
"""Of the function that a nest becomes. (`kernel` is a word of OpenCL C.)"""
MOST_ALONE = 512
"""Operations on certain shapes whose plans are kept."""
MOST_KERNELS = 4096
"""Kernels that are found again; plans keep their own, however many there are."""
_UNKNOWN: Any = object()


class KernelBackend(EagerBackend):
    """Runs operations and plans by kernels that are generated as source code.

    Attributes:
        name: for messages.
        language: what `compile_source` takes; one of `RENDERERS`.
        fusion: the decorator over this backend that records and fuses.
        rates: the device's rates, by which plans that give the same bits are weighed.
        offers: what it computes whole, the first one that takes an operation.
        checks: those of plans that have returned before they had run; None where `begin_flags` is
            the one given here, so that plans wait for their flags.
    """

    language: str = "c"
    writes_over = False
    ordered_type: type[Handle] = MemoryHandle
    spreads_products = True
    splits_sums = False
    aligns_rows = False
    moves_by_vectors = False
    folds = False
    joins_launches = False
    joined_operations: frozenset[Operation] = frozenset()
    calls_beside = 0
    joins_maps = False
    fixes_numbers = False
    places_results = False
    plan_store: PlanStore | None = None
    rates = DESKTOP
    offers: Sequence[Offer] = ()
    checks: PendingChecks | None = None

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.fusion = Fusion(self)
        self._arenas = Lender()
        self._programs = ProgramPlans(self, self.fusion)
        self._kernels: OrderedDict[Nest | str, Any] = OrderedDict()
        self._compiling = renewed(self, "_compiling")
        self._alone: OrderedDict[Any, GraphPlans | None] = OrderedDict()
        self._legality = Legality(self)
        if type(self).begin_flags is not KernelBackend.begin_flags:
            self.checks = PendingChecks(self.begin_flags)

    # What a stranger writes ------------------------------------------------------------------

    @abstractmethod
    def compile_source(self, source: str, name: str) -> Any:
        """A kernel: the function `name` of a source, in whatever form `launch` takes it.

        Each source is compiled once.
        """
        raise NotImplementedError

    @abstractmethod
    def launch(
        self, kernel: Any, pointers: Sequence[int], args: Sequence[int], begin: int, end: int
    ) -> None:
        """Runs units of work `begin` to `end` of a kernel, in any order, also side by side.

        Args:
            pointers: addresses in the device's memory.
            args: 64-bit integers.
        """
        raise NotImplementedError

    @abstractmethod
    def allocate(self, nbytes: int) -> Any:
        """Memory: an object with an `address`, aligned to 64 bytes, that frees it when it goes."""
        raise NotImplementedError

    @abstractmethod
    def write(self, address: int, array: np.ndarray) -> None:
        """Copies a contiguous host array into the device's memory."""
        raise NotImplementedError

    @abstractmethod
    def read(self, address: int, array: np.ndarray) -> None:
        """Copies from the device's memory into a contiguous host array."""
        raise NotImplementedError

    # The contract ----------------------------------------------------------------------------

    def composition(self) -> Backend:
        """What a plugin hands out: this backend under fusion, or alone with `INGLE_FUSION=0`."""
        return self.fusion if is_fused() else self

    def upload(self, array: np.ndarray) -> Handle:
        handle = self.empty(Aval(array.shape, from_numpy_dtype(array.dtype)))
        if array.size:
            self.write(handle.address, np.ascontiguousarray(array))
        return handle

    def download(self, handle: Handle) -> np.ndarray:
        value: Any = handle
        self.ensure(value)
        array = _aligned(handle.shape, handle.dtype.dtype)
        if array.size:
            self.fetch(handle, array)
        if self.checks is not None and value.check is not None:
            self.checks.wait(value.check)  # the device is behind it
            self.checks.ensure(value)
        return array

    def fetch(self, handle: Handle, array: np.ndarray) -> None:
        """Waits for a value that has elements, and copies it into a host array in C order."""
        ordered = self.in_order(handle)
        self.read(ordered.address, array)

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Whether kernels are generated for the operation itself."""
        copies = op.operation.traits.access in COPIES
        return copies or self._legality.answer(op, avals).way != "other"

    def road(self, op: Op, inputs: Sequence[Handle | Scalar | Aval]) -> Road:
        if self.supports(op, [Aval(x.shape, x.dtype) for x in inputs]):
            return "native"
        return "host" if op.operation.body is None else "composed"

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Runs one operation, as a plan of its own where kernels can be generated."""
        if op.operation.traits.family == "movement" or op.operation.traits.access in COPIES:
            found = moved(self, op, inputs)
            if found is not None:
                return (found,)
        key = (op, *[(type(x) is Scalar, x.shape, x.dtype) for x in inputs])
        plan = self._alone.get(key, _UNKNOWN)
        if plan is _UNKNOWN:
            plan = self._planned(op, inputs)
            while len(self._alone) >= MOST_ALONE:
                self._alone.popitem(last=False)
        else:
            self._alone.pop(key, None)
        self._alone[key] = plan  # the one used last
        if plan is None:
            return self.execute_native(op, inputs)
        handles = [x for x in inputs if not isinstance(x, Scalar)]
        numbers = [x.value for x in inputs if isinstance(x, Scalar)]
        return tuple(plan(handles, numbers))

    def execute_native(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Runs what no kernel is generated for: by one's own kernel, by an offer, by a
        library, moved, composed, or on the host."""
        avals = [Aval(x.shape, x.dtype) for x in inputs]
        for x in inputs if self.checks is not None else ():
            if not isinstance(x, Scalar):
                self.ensure(x)
        if self.has_custom_kernel(op, avals):
            return self._by_own_kernel(op, inputs, avals)
        offer = taker(self.offers, op, avals)
        if offer is not None:
            return offer.run(op, inputs)
        by_library = self.by_library(op, inputs)
        if by_library is not None:
            return by_library
        if op.operation.traits.family == "movement" or op.operation.traits.access in COPIES:
            found = moved(self, op, inputs)
            if found is not None:
                return (found,)
        if op.operation.body is not None:
            return call_staged(self, execute_body, op, inputs, self.device)
        results = infer(op, inputs) if not op.operation.traits.dynamic_shape else ()
        if results and all(0 in a.shape for a in results):
            return tuple([self.empty(a) for a in results])
        if any(0 in a.shape for a in avals):  # what nothing gives is a constant, copied once
            return self._computed_by_host(op, inputs)
        return self._on_host(op, inputs)

    def by_library(
        self, op: Op, inputs: Sequence[Handle | Scalar]
    ) -> tuple[Handle, ...] | None:  # fmt: skip
        """What no kernel is generated for, by a library of the device, before it is composed or
        sent to the host; None if there is none for it."""
        return None

    def has_custom_kernel(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Whether somebody wrote a kernel for the operation; see `register_kernel`."""
        return has_custom_kernel(op, avals, self.language)

    def takes_whole(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Whether one of the offers takes the operation."""
        return taker(self.offers, op, avals) is not None

    def _by_own_kernel(
        self, op: Op, inputs: Sequence[Handle | Scalar], avals: Sequence[Aval]
    ) -> tuple[Handle, ...]:
        own = custom_kernel_of(op, avals, self.language)
        assert own is not None
        results = [self.empty(a) for a in infer(op, inputs)]
        tensors = [self.in_order(x) for x in inputs if not isinstance(x, Scalar)]
        numbers = [bits_of_number(x.value, x.dtype.name) for x in inputs if isinstance(x, Scalar)]
        self.run_custom(own, tensors, results, numbers)
        return tuple(results)

    def run_custom(
        self, own: CustomKernel, tensors: Sequence[MemoryHandle], results: Sequence[MemoryHandle],
        numbers: Sequence[int],
    ) -> None:  # fmt: skip
        """Runs a kernel that somebody wrote; `numbers` are the bits of scalars."""
        pointers = [h.address for h in (*tensors, *results)]
        kernel = self.kernel(own.source, own.name)
        self.launch(kernel, pointers, [*own.args, *numbers], 0, own.units)

    def _planned(self, op: Op, inputs: Sequence[Handle | Scalar]) -> GraphPlans | None:
        """The plan of one operation, if kernels can be generated for it or its body."""
        avals = [Aval(x.shape, x.dtype) for x in inputs]
        can = self.supports(op, avals) or op.operation.body is not None
        if op.operation.traits.dynamic_shape or any(0 in a.shape for a in avals) or not can:
            return None
        if self.has_custom_kernel(op, avals) or self.takes_whole(op, avals):
            return None
        graph = Graph()
        args = [
            graph.scalar(x.dtype) if isinstance(x, Scalar) else graph.input(Aval(x.shape, x.dtype))
            for x in inputs
        ]
        graph.outputs = graph.node(op, args)
        return self.prepare(graph)

    # What plans need -------------------------------------------------------------------------

    def prepare(self, graph: Graph) -> GraphPlans:
        """A recorded graph as something to call."""
        return (GraphPlans if self.checks is None else CheckedPlans)(self, self.fusion, graph)

    def run_program(self, program: Program, inputs: Sequence[Handle | Scalar]) -> list[Handle]:
        """The outputs of a program: the body of a loop, a branch."""
        return self._programs.run(program, inputs)

    def contracts(self, avals: Sequence[Aval]) -> bool:
        """Whether there is a template for a matrix product; without one it becomes a nest."""
        return False

    def takes_windows(self, problem: WindowProblem) -> bool:
        """Whether there is a template for a product with windows."""
        return False

    def begin_planning(self, graph: Graph) -> None:
        """Nothing is compiled before it is asked for."""

    def begin_compiling(self, calls: Iterable[Call | HostStep]) -> None:
        """Nothing is compiled before it is asked for."""

    def executable(
        self, launches: Sequence[Launch], buffers: int, scalars: Sequence[str]
    ) -> NativeExecutable:
        """Kernels, compiled and ready to run."""
        return compiled_launches(self, launches, scalars)

    def run_nest(
        self, nest: Nest, sizes: Sequence[int], pointers: Sequence[int], args: Sequence[int]
    ) -> None:
        """Runs all units of a nest by itself, without a plan."""
        self.launch(self.kernel(nest), pointers, args, 0, units(nest, sizes))

    def run_turns(self, runs: Sequence[Turns], scalars: Sequence[Any]) -> None:
        """Runs executables one after the other, as often as each of them has addresses."""
        for rows in zip(*[run.addresses.tolist() for run in runs], strict=True):
            for run, addresses in zip(runs, rows, strict=True):
                run.executable(addresses, scalars, prepacks=run.prepacks)

    def empty(self, aval: Aval) -> MemoryHandle:
        """New memory."""
        nbytes = math.prod(aval.shape) * aval.dtype.itemsize
        memory = self.allocate(max(nbytes, 1))
        return MemoryHandle(self, aval, memory, memory.address)

    def arena(self, nbytes: int) -> Lent:
        """Memory that one run of a plan may use until its end, when it gives it back."""
        return self._arenas.lend(nbytes, self._lent)

    def _lent(self, nbytes: int) -> Lent:
        memory = self.allocate(max(nbytes, 1))
        return Lent(memory.address, nbytes, memory)

    def take_back(self, arena: Lent) -> None:
        """Says that the run is over."""
        self._arenas.take_back(arena)

    def viewed(self, handle: Handle, aval: Aval, strides: Sequence[int], offset: int) -> Handle:
        """A handle of strided elements of another's memory."""
        assert isinstance(handle, MemoryHandle)
        self.ensure(handle)
        address = handle.address + offset * handle.dtype.itemsize
        return placed(self, aval, handle.memory, address, strides)

    def flag(self, handle: Ordered) -> bool:
        """The one bool of a value that a kernel wrote."""
        found = np.empty(1, np.uint8)
        self.read(handle.address, found)
        return bool(found[0])

    def begin_flags(self, handles: Sequence[Ordered]) -> Callable[[], Sequence[bool]]:
        """Begins to read such values, and returns what waits for them and says which are set.

        A loop has a bool for each of its turns in one value, which is set where one of them is. A
        device that works by itself has its own: plans return before they have run then, and what is
        wrong is raised where somebody waits. Others read flags at once, by `flag`.
        """
        found = [True in self.download(handle) for handle in handles]
        return lambda: found

    def ensure(self, handle: Any) -> None:
        """Raises what is known to have gone wrong in the making of a value."""
        if self.checks is not None and handle.check is not None:
            self.checks.ensure(handle)

    def async_plan(self, linear: LinearPlan) -> None:
        """Nothing runs in the background here."""

    def report(self) -> None:
        """Nothing went wrong there."""

    def axes_in_memory(self, handle: Handle) -> tuple[int, ...] | None:
        """Nothing: sums of a product have one order here, wherever its operands lie."""

    def in_order(self, handle: Handle) -> MemoryHandle:
        """The handle, or a copy of it whose elements lie in C order."""
        self.ensure(handle)
        if isinstance(handle, MemoryHandle):
            return handle
        assert isinstance(handle, StridedHandle), handle
        copied = self.empty(Aval(handle.shape, handle.dtype))
        copy(self, handle, strides_of(handle.shape), copied.address)
        return copied

    def kernel(self, source: Nest | str, name: str = NAME) -> Any:
        """A nest or source code, compiled; those that were asked for lately are kept."""
        found = self._kernels.get(source)
        if found is not None:
            with suppress(KeyError):  # another thread has dropped it
                self._kernels.move_to_end(source)
        else:
            with self._compiling:
                found = self._kernels.get(source)
                if found is None:
                    if not isinstance(source, str):  # it has the name that `source` gives it
                        found = self.compile_source(self.source(source), NAME)
                    else:
                        found = self.compile_source(source, name)
                    self._kernels[source] = found
                    while len(self._kernels) > MOST_KERNELS:
                        self._kernels.popitem(last=False)  # plans keep those that they run
        return found

    def source(self, nest: Nest) -> str:
        """A nest in the backend's language."""
        return RENDERERS[self.language](nest, NAME)


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """A host array at the start of a cache line: the bits of libraries depend on where it lies."""
    nbytes = math.prod(shape) * dtype.itemsize
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return np.ndarray(shape, dtype, memory.data, start)
