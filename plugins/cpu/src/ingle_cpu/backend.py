"""The backend: plans of generated kernels, and NumPy's kernels in the same memory for the rest."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ingle.fusion.device import (
    DESKTOP,
    Fusion,
    Graph,
    GraphPlans,
    Launch,
    Lender,
    Lent,
    LinearPlan,
    Ordered,
    ProgramPlans,
    Turns,
    WholeCall,
    WindowProblem,
    avals_of,
    axes_by_strides,
    custom_kernel_of,
    disk,
    has_custom_kernel,
)
from ingle.fusion.device.kernels import FLOATS
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.device import Device
from ingle.tensor.dtypes import from_numpy_dtype
from ingle.tensor.eager import ArrayHandle, Road
from ingle.tensor.late_imports import late
from ingle.tensor.operation import Op, Operation
from ingle.tensor.programs import Program
from ingle_numpy.backend import NumpyBackend, OwnedHandle

from .eager.single_operation import SingleOperations
from .fourier import KERNELS as OF_FOURIER
from .linear_algebra import KERNELS as OF_MATRICES
from .linear_algebra import solves_triangles
from .memory import (
    CpuHandle,
    PendingHandle,
    adopted,
    borrowed,
    copied,
    lent_memory,
    new_handle,
    queues,
)
from .special_functions import KERNELS as OF_SPECIAL_FUNCTIONS

if TYPE_CHECKING:
    from .attention.calls import AttentionCalls
    from .background.async_plan import CpuAsyncPlan
    from .codes.calls import CodesCalls
    from .eager.custom_kernel import CustomCall
    from .eager.sized_call import CpuSizedPlan
    from .launch.executable import CpuExecutable
    from .launch.plan_store import CpuPlanStore
    from .stacks.calls import StackCalls

AXES = 3
"""Image axes that the template of windows knows."""
TEMPLATES = {
    "scaled_dot_product_attention": "attention",
    "scaled_dot_product_attention_training": "attention",
    "scaled_dot_product_attention_gradient": "attention",
    "quantized_linear": "codes",
    "adjugate": "stacks",
    "cholesky": "stacks",
    "det": "stacks",
    "inv": "stacks",
    "slogdet": "stacks",
    "solve": "stacks",
    "solve_triangular": "stacks",
}
"""Operations that there is a template for, which takes most of them whole, and its folder."""
BY_NUMPY = {"occurrences": 1 << 12, "products_beside": 0}
"""Composites that NumPy's kernels compute sooner than what their bodies are made of, where their
first operand has as many elements."""
BY_PARTS = frozenset({"cumulative_sum"})
"""Operations that treat the parts of complex numbers alike, so that kernels for floats serve."""
MANY_PARTS = 1 << 12
"""Complex numbers from which on kernels for their parts pay."""
FEWEST_ROWS = 4
"""With fewer rows for each of several groups, packing windows takes longer than multiplying."""


class Cpu(NumpyBackend):
    """Runs graphs as plans of kernels that LLVM compiled for this machine.

    Attributes:
        language: of the kernels' source, as `register_kernel` names it.
    """

    name = "cpu"
    kernels = OF_FOURIER | OF_MATRICES | OF_SPECIAL_FUNCTIONS
    language = "llvm"
    spreads_products = True
    splits_sums = False
    aligns_rows = False
    moves_by_vectors = True
    folds = True
    joins_launches = False
    joined_operations: frozenset[Operation] = frozenset()
    calls_beside = 0
    joins_maps = True
    fixes_numbers = True
    places_results = False
    rates = DESKTOP
    checks = None
    writes_over = True
    ordered_type: type[Handle] = CpuHandle

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self._arenas = Lender()
        self.fusion = Fusion(self)
        self._single_operations = SingleOperations(self, self.fusion, super().execute)
        self._programs = ProgramPlans(self, self.fusion)
        self._custom_calls: dict[Any, CustomCall] = {}

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        if sys.is_finalizing():
            return super().execute(op, inputs)  # a new kernel would need imports
        return self._single_operations.run(op, inputs)

    def ready(
        self, op: Op, inputs: Sequence[Handle | Scalar]
    ) -> Callable[[Op, Sequence[Handle | Scalar]], Sequence[Handle] | None] | None:
        """What runs an operation on operands like these with nothing looked up, if it is known."""
        return self._single_operations.ready(op, inputs)

    def execute_native(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Runs an operation that no kernel is generated for: by somebody's own, by a template that
        takes it whole, or by NumPy."""
        if self.has_custom_kernel(op, avals_of(inputs)):
            return self._by_custom_kernel(op, inputs)
        calls = self._template_calls.get(TEMPLATES.get(op.operation.name, ""))
        found = None if calls is None else calls.run(op, inputs)
        if found is not None:
            return found
        if _by_parts(op, avals_of(inputs)):
            return self._of_parts(op, inputs[0])
        return super().execute(op, inputs)

    def _of_parts(self, op: Op, x: Handle | Scalar) -> tuple[Handle, ...]:
        """Runs an operation on complex numbers as one on pairs of floats."""
        numbers: np.ndarray = np.ascontiguousarray(x.array)  # type: ignore[union-attr]
        parts = numbers.view(numbers.real.dtype).reshape(*numbers.shape, 2)
        (found,) = self.execute(op, (self.adopt(parts),))
        made: np.ndarray = found.array  # type: ignore[attr-defined]
        return (self.adopt(made.view(numbers.dtype)[..., 0]),)

    @cached_property
    def _template_calls(self) -> dict[str, AttentionCalls | CodesCalls | StackCalls]:
        return {
            "attention": late("ingle_cpu.attention.calls").AttentionCalls(self),
            "codes": late("ingle_cpu.codes.calls").CodesCalls(self),
            "stacks": late("ingle_cpu.stacks.calls").StackCalls(self),
        }

    def _by_custom_kernel(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        key = (op, *avals_of(inputs))
        found = self._custom_calls.get(key)
        if found is None:
            kernel = custom_kernel_of(op, avals_of(inputs), self.language)
            assert kernel is not None, op
            kind = late("ingle_cpu.eager.custom_kernel").CustomCall
            found = self._custom_calls[key] = kind(self, kernel, op, inputs)
        return found(inputs)

    def prepare(self, graph: Graph) -> GraphPlans:
        """A recorded graph as something to call."""
        return GraphPlans(self, self.fusion, graph)

    def run_program(self, program: Program, inputs: Sequence[Handle | Scalar]) -> list[Handle]:
        """The outputs of a program: the body of a loop, a branch."""
        return self._programs.run(program, inputs)

    def has_custom_kernel(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Whether somebody wrote a kernel for the operation; see `register_kernel`."""
        return has_custom_kernel(op, avals, self.language)

    def road(self, op: Op, inputs: Sequence[Handle | Scalar | Aval]) -> Road:
        return (
            "native" if self.has_custom_kernel(op, avals_of(inputs)) else super().road(op, inputs)
        )

    def takes_whole(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Attention of more than a few queries, products by codes, stacks of small matrices, large
        triangular systems, complex numbers by parts, and what NumPy is good at; other composites
        are taken apart, down to the templates of products."""
        folder = TEMPLATES.get(op.operation.name)
        if folder is None:
            fewest = BY_NUMPY.get(op.operation.name)
            many = fewest is not None and math.prod(avals[0].shape) >= fewest
            return many or _by_parts(op, avals)
        if solves_triangles(op, avals):
            return True
        return late(f"ingle_cpu.{folder}.problem").problem_of(op, avals) is not None

    def launches_whole(self, call: WholeCall) -> bool:
        """Whether executables compute an operation beside kernels."""
        folder = TEMPLATES.get(call.op.operation.name)
        if folder is None:
            return False
        launched: bool = late(f"ingle_cpu.{folder}.calls").launches(call)
        return launched

    def contracts(self, avals: Sequence[Aval]) -> bool:
        """Whether there is a template for a matrix product of these."""
        return avals[0].dtype.name in FLOATS

    def contracts_bytes(self, avals: Sequence[Aval]) -> bool:
        """Whether there is a template for a product of these matrices of bytes."""
        taken: bool = late("ingle_cpu.matmul.machine").takes_bytes(avals[0].shape[-1])
        return taken

    def takes_windows(self, problem: WindowProblem) -> bool:
        """Whether the template reads windows of images: not where a few rows leave it idle."""
        rows = problem.groups == 1 or problem.m >= FEWEST_ROWS
        return problem.dtype in FLOATS and problem.rank <= AXES and rows

    def begin_planning(self, graph: Graph) -> None:
        """Compiles what runs all kernels, what runs all products, and templates that take
        operations whole, beside what goes on."""
        contracts = any(n.op.operation.traits.kind == "contraction" for n in graph.nodes)
        ahead = late("ingle_cpu.launch.compiled_ahead")
        ahead.basics_ahead(contracts)
        ahead.templates_ahead(graph)

    def begin_compiling(self, calls: Iterable[object]) -> None:
        """Compiles what calls run beside what goes on."""
        late("ingle_cpu.launch.compiled_ahead").compiled_ahead(calls)

    def executable(
        self, launches: Sequence[Launch], buffers: int, scalars: Sequence[str]
    ) -> CpuExecutable:
        """Kernels, compiled and ready to run."""
        # A first small operation can do without all that comes with it.
        kind = late("ingle_cpu.launch.executable").CpuExecutable
        made: CpuExecutable = kind.of(launches, buffers, scalars)
        return made

    def run_turns(self, runs: Sequence[Turns], scalars: Sequence[Any]) -> None:
        """Runs executables one after the other, as often as each of them has addresses."""
        late("ingle_cpu.launch.repeat").run_turns(runs, scalars)

    def sized_plan(
        self, launches: Sequence[Launch], buffers: int, scalars: Sequence[str]
    ) -> CpuSizedPlan:
        """The kernels of a plan for all sizes, which are symbols."""
        kind = late("ingle_cpu.eager.sized_call").CpuSizedPlan
        made: CpuSizedPlan = kind.of(self, launches, buffers, scalars)
        return made

    @cached_property
    def plan_store(self) -> CpuPlanStore | None:
        """Where plans are kept between processes."""
        if not disk().usable:
            return None
        made: CpuPlanStore = late("ingle_cpu.launch.plan_store").CpuPlanStore(disk())
        return made

    def empty(self, aval: Aval) -> CpuHandle:
        """New memory."""
        return new_handle(self, aval)

    def arena(self, nbytes: int) -> Lent:
        """Memory that one run of a plan may use until its end, when it gives it back."""
        return self._arenas.lend(nbytes, lent_memory)

    def take_back(self, arena: Lent) -> None:
        """Says that the run is over."""
        self._arenas.take_back(arena)

    def in_order(self, handle: Handle) -> Any:
        """The handle, or a copy of it whose elements lie in C order at a known address."""
        if type(handle) is CpuHandle or type(handle) is PendingHandle:
            return handle
        assert isinstance(handle, ArrayHandle)
        if handle.array.flags.c_contiguous:
            return borrowed(self, handle)
        return copied(self, handle.array, handle.dtype)

    def axes_in_memory(self, handle: Handle) -> tuple[int, ...] | None:
        if isinstance(handle, CpuHandle) or handle.array.flags.c_contiguous:  # type: ignore[attr-defined]
            return None
        array: np.ndarray = handle.array  # type: ignore[attr-defined]
        return axes_by_strides(array.shape, array.strides)

    def adopt(self, array: np.ndarray) -> ArrayHandle:
        adopted(array)
        return super().adopt(array)

    def upload(self, array: np.ndarray) -> Handle:
        return copied(self, array, from_numpy_dtype(array.dtype))

    def viewed(self, handle: Handle, aval: Aval, strides: Sequence[int], offset: int) -> Handle:
        """A handle of strided elements of another's memory."""
        assert isinstance(handle, ArrayHandle)
        # By bytes, since NumPy lends its buffers only for dtypes of its own.
        size = handle.array.itemsize
        memory = handle.array.reshape(-1).view(np.uint8)
        if 0 in aval.shape:  # Its first element, which there is none of, may lie anywhere.
            offset = 0
        steps = [s * size for s in strides]
        view: Any = np.ndarray(aval.shape, handle.array.dtype, memory, offset * size, steps)
        view.flags.writeable = False
        if handle.owned is None:
            return ArrayHandle(self, view, aval.dtype)
        return OwnedHandle(self, view, aval.dtype, handle.owned)

    def download(self, handle: Handle) -> np.ndarray:
        array = super().download(handle)
        self.report()
        return array

    def item(self, handle: ArrayHandle) -> Any:
        number = handle.array.item()
        self.report()
        return number

    def synchronize(self) -> None:
        for queue in queues:
            queue.wait_for_all()
            queue.report(everyone=True)

    def async_plan(self, linear: LinearPlan) -> CpuAsyncPlan:
        """How a plan runs in the background."""
        made: CpuAsyncPlan = late("ingle_cpu.background.async_plan").CpuAsyncPlan(self, linear)
        return made

    def report(self) -> None:
        """Raises what went wrong in the background in runs that this thread asked for."""
        for queue in queues:
            # Asked here, since every read comes by, and most would enter a function for nothing.
            if queue.halt.value or queue.failures:
                queue.report()

    def flag(self, handle: Ordered) -> bool:
        """The one bool of a value that a kernel wrote."""
        return ctypes.c_uint8.from_address(handle.address).value != 0


def _by_parts(op: Op, avals: Sequence[Aval]) -> bool:
    """Whether kernels for floats compute an operation on complex numbers."""
    if op.operation.name not in BY_PARTS or not avals[0].dtype.is_complex:
        return False
    return math.prod(avals[0].shape) >= MANY_PARTS
