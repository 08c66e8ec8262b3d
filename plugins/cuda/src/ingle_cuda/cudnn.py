"""cuDNN's graphs: what the library computes whole, planned once for operands of a kind.

NVIDIA's Python package `nvidia-cudnn-frontend` describes graphs and finds plans for them, which
takes up to a second; a plan is kept for the shapes, strides and dtypes that it was made for.
Without the package, or where the library has no plan, operations are computed as their bodies.
"""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ingle.fusion.device import WholeCall
from ingle.fusion.device.kernel_backend import StridedHandle
from ingle.tensor.callers import warn
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.locks import renewed
from ingle.tensor.operation import Op, Operation, infer

from .driver.errors import told
from .driver.libraries import is_rocm

if TYPE_CHECKING:
    from .backend import CudaBackend

ALIGNMENT = 16
"""Bytes that addresses of tensors are multiples of."""
TYPES = {"float32": "FLOAT", "float16": "HALF", "bfloat16": "BFLOAT16"}
"""The package's names of dtypes."""

Strides = tuple[int, ...]
"""In elements."""
Layout = tuple[tuple[int, ...], Strides]
"""Sizes and strides."""


@cache
def package() -> Any | None:
    """NVIDIA's package; None where it, or the library, is not installed."""
    if is_rocm() or importlib.util.find_spec("cudnn") is None:
        return None
    try:
        found = importlib.import_module("cudnn")
        found.backend_version()
    except Exception:  # the library is another package, which may be missing or of another CUDA
        return None
    return found


class Plan(NamedTuple):
    """A graph that the library has a way for.

    Attributes:
        graph: the package's.
        nbytes: of the memory that it needs besides its operands.
    """

    graph: Any
    nbytes: int


class Plans:
    """The plans of one GPU, and the library's handle, which runs them in its stream.

    Args:
        backend: of the GPU.
        tensor_float: whether products of float32 may be of tensor float 32.
    """

    def __init__(self, backend: CudaBackend, tensor_float: bool) -> None:
        self._backend = backend
        self._tensor_float = tensor_float
        self._handle: Any = None
        self._fails = False
        self._known: dict[Hashable, Plan | None] = {}
        self._lock = renewed(self, "_lock")

    def found(self, key: Hashable, dtype: str, describe: Callable[[Any, Any], None]) -> Plan | None:
        """The plan of a graph; None if the library has none.

        Args:
            key: all that the graph depends on.
            dtype: of its operands.
            describe: adds the graph's tensors, by number, and its operation; given the package and
                the graph.
        """
        if key not in self._known:
            with self._lock:
                if key not in self._known:
                    self._known[key] = self._made(dtype, describe)
        return self._known[key]

    def _made(self, dtype: str, describe: Callable[[Any, Any], None]) -> Plan | None:
        cudnn = package()
        if cudnn is None or not self._opened(cudnn):
            return None
        kinds, notes = cudnn.data_type, cudnn.numerical_note
        graph = cudnn.pygraph(
            io_data_type=getattr(kinds, TYPES[dtype]), intermediate_data_type=kinds.FLOAT,
            compute_data_type=kinds.FLOAT, handle=self._handle,
        )  # fmt: skip
        try:
            describe(cudnn, graph)
            graph.validate()
            graph.build_operation_graph()
            graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
            unwanted = [notes.NONDETERMINISTIC]
            if dtype == "float32" and not self._tensor_float:
                unwanted.append(notes.TENSOR_CORE)
            graph.deselect_numeric_notes(unwanted)
            graph.check_support()
            graph.build_plans()
        except (cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError):
            return None  # the library's way of saying that it does not compute such
        return Plan(graph, graph.get_workspace_size())

    def _opened(self, cudnn: Any) -> bool:
        """Whether there is a handle of the library; where it cannot be had, this is told once."""
        if self._handle is not None or self._fails:
            return not self._fails
        self._backend.enter()
        try:
            self._handle = cudnn.create_handle()
        except Exception as error:  # of another CUDA than the driver's, say
            self._fails = True
            warn(
                f"{self._backend.device}: cuDNN is installed but does not start ({error}), so that "
                "convolutions and attention do without it; reinstall it for the driver's CUDA, or "
                "set INGLE_CUDA_CUDNN=0",
                RuntimeWarning,
            )
        return not self._fails

    def run(self, plan: Plan, places: Mapping[int, int]) -> None:
        """Puts a plan into the backend's stream; `places` are addresses by the numbers of
        tensors."""
        backend = self._backend
        backend.enter()
        # The pool gives it to others only behind what the stream does until then.
        workspace = backend.allocate(max(plan.nbytes, ALIGNMENT))
        with backend.lock:
            self.put(plan, places, workspace.address, backend.stream)

    def put(self, plan: Plan, places: Mapping[int, int], workspace: int, stream: Any) -> None:
        """Puts a plan into a stream, by one who holds the backend's lock.

        Args:
            workspace: the address of as many bytes as the plan needs.
        """
        cudnn = package()
        assert cudnn is not None
        with told(self._backend.device, "cuDNN computed (INGLE_CUDA_CUDNN=0 does without it)"):
            cudnn.set_stream(handle=self._handle, stream=stream.ptr)
            plan.graph.execute(dict(places), workspace, handle=self._handle)


def tensor(cudnn: Any, graph: Any, number: int, layout: Layout, dtype: str) -> Any:
    """A tensor of a graph."""
    sizes, strides = layout
    kind = getattr(cudnn.data_type, TYPES[dtype])
    return graph.tensor(dim=[*sizes], stride=[*strides], data_type=kind, uid=number)


def output(cudnn: Any, made: Any, number: int, layout: Layout, dtype: str) -> None:
    """Makes what an operation gives a result of the graph."""
    sizes, strides = layout
    made.set_output(True).set_uid(number).set_dim([*sizes]).set_stride([*strides])
    made.set_data_type(getattr(cudnn.data_type, TYPES[dtype]))


def contiguous(sizes: Sequence[int]) -> tuple[int, ...]:
    """The strides of elements in C order."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return tuple(strides[::-1])


def strides_of(handle: Handle) -> tuple[int, ...]:
    """A handle's strides in elements."""
    if isinstance(handle, StridedHandle):
        return tuple(handle.strides)
    return contiguous(handle.shape)


class Prepared(NamedTuple):
    """An operation on operands that lie in some way.

    Attributes:
        plan: what computes it.
        results: shapes and dtypes of what it gives.
    """

    plan: Plan
    results: tuple[Aval, ...]


class LibraryOffer(ABC):
    """What the library has plans for. Answers are kept, as each run of a step asks again."""

    operations: frozenset[Operation]

    def __init__(self, backend: CudaBackend, plans: Plans) -> None:
        self.backend = backend
        self.plans = plans
        self._taken: dict[Hashable, bool] = {}
        self._prepared: dict[Hashable, Prepared | None] = {}

    @abstractmethod
    def problem(
        self, op: Op, avals: Sequence[Aval], strides: Sequence[Strides] | None = None,
        results: Sequence[Strides] | None = None,
    ) -> Any | None:  # fmt: skip
        """What a plan is made for, with its `dtype`; None if there is none.

        Args:
            strides: of the operands that are no numbers; in C order if none are given.
            results: of the results, likewise.
        """

    @abstractmethod
    def describe(self, cudnn: Any, graph: Any, problem: Any) -> None:
        """Adds the tensors and the operation of a problem to a graph."""

    @abstractmethod
    def reads(self, shape: tuple[int, ...], strides: Strides) -> bool:
        """Whether the library may read an operand that lies so."""

    def writes(self, shape: tuple[int, ...], strides: Strides) -> bool:
        """Whether the library may write a result that lies so: in C order, if nobody says more."""
        each = zip(shape, strides, contiguous(shape), strict=True)
        return all(n == 1 or step == usual for n, step, usual in each)

    @abstractmethod
    def places(
        self, op: Op, tensors: Sequence[int], results: Sequence[int],
        numbers: Sequence[Scalar | None],
    ) -> tuple[Mapping[int, int], Any]:  # fmt: skip
        """Addresses by the numbers of a graph's tensors, and what has to be held meanwhile.

        Args:
            tensors, results: addresses.
            numbers: the operands that are numbers, None for each tensor.
        """

    def takes(self, op: Op, avals: Sequence[Aval]) -> bool:
        if op.operation not in self.operations:
            return False
        key = op, *avals
        if key not in self._taken:
            problem = self.problem(op, avals)
            self._taken[key] = problem is not None and self._plan(problem) is not None
        return self._taken[key]

    def prepared(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Prepared, list[Any]]:
        """How to compute an operation, and its operands that are no numbers, some of them copies:
        to be held until the plan is in the stream, behind which the pool gives memory on."""
        given = [x for x in inputs if x.shape]
        handles = [self._readable(op, n, x, self._read(x)) for n, x in enumerate(given)]
        found = self._of(op, inputs, handles)
        if found is None:
            handles = [self._readable(op, n, h, False) for n, h in enumerate(handles)]
            found = self._of(op, inputs, handles)
        assert found is not None, "takes() has seen it"
        return found, handles

    def launched(self, call: WholeCall) -> Prepared | None:
        """How executables compute an operation, whose operands and results they know; None if these
        have to be copied."""
        given = [a for a, number in zip(call.avals, call.numbers, strict=True) if number is None]
        for arguments, avals, fits in (
            (call.operands, given, self.reads), (call.outputs, call.results, self.writes)
        ):  # fmt: skip
            for argument, aval in zip(arguments, avals, strict=True):
                shifted = argument.offset * aval.dtype.itemsize % ALIGNMENT
                if shifted or not fits(aval.shape, argument.strides):
                    return None
        results = tuple([a.strides for a in call.outputs])
        key = call.op, call.avals, call.strides, results
        if key not in self._prepared:
            problem = self.problem(call.op, call.avals, call.strides, results)
            plan = None if problem is None else self._plan(problem)
            self._prepared[key] = plan and Prepared(plan, call.results)
        return self._prepared[key]

    def run(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Puts the library's kernels into the stream."""
        found, handles = self.prepared(op, inputs)
        made = [self.backend.empty(aval) for aval in found.results]
        numbers = [x if isinstance(x, Scalar) else None for x in inputs]
        addresses = [h.address for h in handles], [h.address for h in made]
        places, held = self.places(op, *addresses, numbers)
        self.plans.run(found.plan, places)
        del held
        return tuple(made)

    def _of(
        self, op: Op, inputs: Sequence[Handle | Scalar], handles: Sequence[Any]
    ) -> Prepared | None:
        lying = [h.strides if isinstance(h, StridedHandle) else None for h in handles]
        key = op, *[(x.shape, x.dtype) for x in inputs], *lying
        if key not in self._prepared:
            avals = [Aval(x.shape, x.dtype) for x in inputs]
            problem = self.problem(op, avals, [strides_of(h) for h in handles])
            plan = None if problem is None else self._plan(problem)
            self._prepared[key] = plan and Prepared(plan, tuple(infer(op, avals)))
        return self._prepared[key]

    def _read(self, handle: Any) -> bool:
        return self.reads(handle.shape, strides_of(handle))

    def _plan(self, problem: Any) -> Plan | None:
        return self.plans.found(
            problem, problem.dtype, lambda cudnn, graph: self.describe(cudnn, graph, problem)
        )

    def straight(self, op: Op, position: int, handle: Any) -> Any:
        """An operand, or a copy of it, that lies as the library takes it: in C order, mostly.

        Args:
            position: among the operands that are no numbers.
        """
        return self.backend.in_order(handle)

    def _readable(self, op: Op, position: int, handle: Any, as_it_lies: bool) -> Any:
        """A handle, or a copy of it, at an address as the library takes it."""
        if not as_it_lies:
            handle = self.straight(op, position, handle)
        if handle.address % ALIGNMENT:
            aval, place = Aval(handle.shape, handle.dtype), (handle.memory, handle.address)
            moved = StridedHandle(self.backend, aval, *place, strides_of(handle))
            handle = self.backend.in_order(moved)
        return handle
