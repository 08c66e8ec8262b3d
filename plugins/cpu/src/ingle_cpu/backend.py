"""The backend: plans of generated kernels, and NumPy's kernels in the same memory for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingle.fusion import Fusion
from ingle.fusion.execution import KernelExecutable, Launch
from ingle.fusion.graph import Graph
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.device import Device
from ingle.tensor.dtypes import from_numpy_dtype
from ingle.tensor.eager import ArrayHandle
from ingle.tensor.operation import Op
from ingle_numpy.backend import NumpyBackend

from .memory import CpuHandle, ThreadMemory, borrowed, copied, new_handle
from .segments import Segment
from .single import Singles


class Cpu(NumpyBackend):
    """Runs graphs as plans of kernels that LLVM compiled for this machine."""

    name = "cpu"
    spreads_products = False

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self._arenas = ThreadMemory()
        self.fusion = Fusion(self)
        self._singles = Singles(self, self.fusion, super().execute)

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        return self._singles.run(op, inputs)

    def execute_native(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Runs an operation that no kernel is generated for."""
        return super().execute(op, inputs)

    def prepare(self, graph: Graph) -> KernelExecutable:
        """A recorded graph as something to call."""
        return KernelExecutable(self, self.fusion, graph)

    def owns(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Whether somebody wrote a kernel for the operation."""
        return False

    def contracts(self, avals: Sequence[Aval]) -> bool:
        """Whether there is a template for a matrix product of these."""
        return avals[0].dtype.name in ("float32", "float64")

    def segment(self, launches: Sequence[Launch], buffers: int, scalars: Sequence[str]) -> Segment:
        """Kernels, compiled and ready to run."""
        return Segment(launches, buffers, scalars)

    def empty(self, aval: Aval) -> CpuHandle:
        """New memory."""
        return new_handle(self, aval)

    def arena(self, nbytes: int) -> int:
        """The address of memory that one plan of this thread may use until its end."""
        return self._arenas(nbytes)

    def in_order(self, handle: Handle) -> Any:
        """The handle, or a copy of it whose elements lie in C order at a known address."""
        if type(handle) is CpuHandle:
            return handle
        assert isinstance(handle, ArrayHandle)
        dense = handle.array.flags.c_contiguous
        return (borrowed if dense else copied)(self, handle.array, handle.dtype)

    def upload(self, array: np.ndarray) -> Handle:
        return copied(self, array, from_numpy_dtype(array.dtype))

    def viewed(self, handle: Handle, aval: Aval, strides: Sequence[int], offset: int) -> Handle:
        """A handle of strided elements of another's memory."""
        assert isinstance(handle, ArrayHandle)
        array: Any = handle.array.reshape(-1)
        size = array.itemsize
        start = array[offset:] if offset else array
        view = np.lib.stride_tricks.as_strided(
            start, aval.shape, [s * size for s in strides], writeable=False
        )
        return ArrayHandle(self, view, aval.dtype)
