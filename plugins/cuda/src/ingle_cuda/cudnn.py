"""cuDNN's graphs: what the library computes whole, planned once for operands of a kind.

NVIDIA's Python package `nvidia-cudnn-frontend` describes graphs and finds plans for them, which
takes up to a second; a plan is kept for the shapes, strides and dtypes that it was made for.
Without the package, or where the library has no plan, operations are computed as their bodies.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ingle.fusion.device.kernel_backend import StridedHandle
from ingle.tensor.contract import Aval, Handle
from ingle.tensor.locks import renewed

from .libraries import is_rocm

if TYPE_CHECKING:
    from .backend import CudaBackend

ALIGNMENT = 16
"""Bytes that addresses of tensors are multiples of."""
TYPES = {"float32": "FLOAT", "float16": "HALF", "bfloat16": "BFLOAT16"}
"""The package's names of dtypes."""

Layout = tuple[tuple[int, ...], tuple[int, ...]]
"""Sizes and strides, in elements."""


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
        if cudnn is None:
            return None
        self._backend.enter()
        if self._handle is None:
            self._handle = cudnn.create_handle()
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

    def run(self, plan: Plan, places: Mapping[int, int]) -> None:
        """Puts a plan into the stream; `places` are addresses by the numbers of tensors."""
        cudnn, backend = package(), self._backend
        assert cudnn is not None
        backend.enter()
        # The pool gives it to others only behind what the stream does until then.
        workspace = backend.allocate(max(plan.nbytes, ALIGNMENT))
        with backend.lock:
            cudnn.set_stream(handle=self._handle, stream=backend.stream.ptr)
            plan.graph.execute(dict(places), workspace.address, handle=self._handle)


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


def readable(backend: CudaBackend, handle: Any, *, as_it_lies: bool) -> Any:
    """A handle, or a copy of it in C order, at an address as the library takes it.

    Args:
        as_it_lies: whether strides may be any.
    """
    if not as_it_lies:
        handle = backend.in_order(handle)
    if handle.address % ALIGNMENT:
        aval, place = Aval(handle.shape, handle.dtype), (handle.memory, handle.address)
        handle = backend.in_order(StridedHandle(backend, aval, *place, strides_of(handle)))
    return handle
