"""The reference backend: each operation is the NumPy call that says what it means."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextvars import Context
from typing import Any

import numpy as np

from ingle.tensor.contract import Handle, Scalar
from ingle.tensor.device import Device
from ingle.tensor.dtypes import from_numpy_dtype
from ingle.tensor.eager import ArrayHandle, EagerBackend, Kernel, Road
from ingle.tensor.operation import Op

from .kernels import KERNELS


class _Silent(threading.local):
    """Runs kernels where NumPy does not warn: a tensor's 1/0 is inf and log(-1) is NaN.

    NumPy keeps its error state in a context variable. Entering a context that has it set costs a
    tenth of `np.errstate` on every operation, and leaves the user's own error state alone.
    """

    def __init__(self) -> None:
        context = Context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


_silent = _Silent()
_DTYPES: dict[np.dtype, Any] = {}


class NumpyBackend(EagerBackend):
    """Runs every operation at once with NumPy, on arrays of any strides."""

    name = "numpy"
    kernels = KERNELS

    def __init__(self, device: Device) -> None:
        super().__init__(device)

    def to_device_array(self, array: np.ndarray) -> np.ndarray:
        return np.array(array, order="C")

    def adopt(self, array: np.ndarray) -> ArrayHandle:
        """A handle of the array itself, without a copy; nobody may write to it any more."""
        return ArrayHandle(self, array.view(), from_numpy_dtype(array.dtype))

    def to_host_array(self, array: np.ndarray) -> np.ndarray:
        # A read-only view: what NumPy code writes into it would change tensors that share it.
        view = array.view()
        view.flags.writeable = False
        return view

    def resolve(self, op: Op, inputs: Sequence[Any]) -> tuple[Road, Kernel | None]:
        road, kernel = super().resolve(op, inputs)
        if kernel is None:
            return road, None
        return road, lambda op, *arrays: _silent.run(kernel, op, *arrays)

    def wrap(self, op: Op, result: Any, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        if type(result) is np.ndarray:
            dtype = _DTYPES.get(result.dtype)
            if dtype is None:
                dtype = _DTYPES[result.dtype] = from_numpy_dtype(result.dtype)
            return (ArrayHandle(self, result, dtype),)
        if type(result) is tuple:
            return tuple(self.wrap(op, r, inputs)[0] for r in result)
        # NumPy returns its own scalars for 0-d results.
        return self.wrap(op, np.asarray(result), inputs)
