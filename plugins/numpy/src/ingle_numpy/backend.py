"""The reference backend: each operation is the NumPy call that says what it means."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context, ContextVar
from typing import Any

import numpy as np

from ingle.tensor.blocks import call_holding
from ingle.tensor.contract import Handle, Scalar
from ingle.tensor.device import Device
from ingle.tensor.dtypes import DType, from_numpy_dtype
from ingle.tensor.eager import ArrayHandle, EagerBackend, Kernel
from ingle.tensor.errors import OutOfMemoryError
from ingle.tensor.memory import Owners, Pool
from ingle.tensor.operation import Op, infer

from . import memory
from .kernels import KERNELS
from .kernels.in_place import IN_PLACE


def _ignored() -> tuple[ContextVar[Any], Any]:
    """The context variable of NumPy's error state, and what it holds where nothing is told."""
    context = Context()
    context.run(np.seterr, all="ignore")
    (found,) = context.items()
    return found


_ERRORS, _IGNORED = _ignored()


def _silently(kernel: Kernel, *args: Any) -> Any:
    """Calls a kernel where NumPy does not warn: a tensor's 1/0 is inf and log(-1) is NaN.

    The user's own error state is back wherever an interruption comes, and whatever the kernel
    raises. `np.errstate` would take ten times as long.
    """
    return call_holding(_ERRORS, _IGNORED, kernel, *args)


_DTYPES: dict[np.dtype, Any] = {}


class OwnedHandle(ArrayHandle):
    """A handle of an array in memory that may be written in place, or of a view of it."""

    __slots__ = ("owned",)

    def __init__(self, backend: NumpyBackend, array: Any, dtype: DType, owned: Owners) -> None:
        super().__init__(backend, array, dtype)
        self.owned = owned


class NumpyBackend(EagerBackend):
    """Runs every operation at once with NumPy, on arrays of any strides."""

    name = "numpy"
    kernels = KERNELS

    def __init__(self, device: Device) -> None:
        super().__init__(device)

    def to_device_array(self, array: np.ndarray) -> np.ndarray:
        return memory.copied(array, "upload")

    def adopt(self, array: np.ndarray) -> ArrayHandle:
        """A handle of the array itself, without a copy; nobody may write to it any more."""
        return ArrayHandle(self, array.view(), from_numpy_dtype(array.dtype))

    def to_host_array(self, array: np.ndarray) -> np.ndarray:
        # A read-only view: what NumPy code writes into it would change tensors that share it.
        view = array.view()
        view.flags.writeable = False
        return view

    def download(self, handle: Handle) -> np.ndarray:
        assert isinstance(handle, ArrayHandle)
        array: np.ndarray = handle.array
        return self.to_host_array(
            array if handle.owned is None else memory.exported(array, handle.owned)
        )

    def item(self, handle: ArrayHandle) -> Any:
        return handle.array.item()

    def memory(self) -> Pool:
        """The pool that large arrays come from; all devices of this backend share it."""
        return memory.pool

    def reuse(self, op: Op, inputs: Sequence[Handle | Scalar], place: int, owner: object) -> Handle:
        """Executes into the memory of an input, if its owner is the only one who holds it.

        Else the result has new memory, with a ledger of its own if it is worth one: the next time
        it is written in place.
        """
        target, kernel = inputs[place], IN_PLACE.get(op.operation.name)
        aval = infer(op, inputs)[0]
        fits = aval.shape == target.shape and aval.dtype is target.dtype
        if kernel is None or not fits or not isinstance(target, ArrayHandle):
            return self.execute(op, inputs)[0]
        out, owned = target.array, target.owned
        if out.nbytes < memory.LARGE:
            return self.execute(op, inputs)[0]
        if owned is None or not _alone(inputs, place, owner):
            owned = Owners()
            out = memory.owned(op, out.shape, out.dtype, owned)
        arrays = [x.array() if type(x) is Scalar else x.array for x in inputs]  # type: ignore[union-attr]
        _silently(kernel, op, out, *arrays)
        return OwnedHandle(self, out, target.dtype, owned)

    def compute(self, kernel: Kernel, op: Op, arrays: Sequence[Any]) -> Any:
        # As `_silently` does, written out on the path of most operations.
        before = _ERRORS.get()
        try:
            _ERRORS.set(_IGNORED)
            return kernel(op, *arrays)
        except MemoryError as error:
            return _once_more(kernel, op, arrays, error)
        finally:
            _ERRORS.set(before)

    def wrap(self, op: Op, result: Any, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        if type(result) is np.ndarray:
            dtype = _DTYPES.get(result.dtype)
            if dtype is None:
                dtype = _DTYPES[result.dtype] = from_numpy_dtype(result.dtype)
            if result.base is not None and (owned := memory.ledger(result)) is not None:
                return (OwnedHandle(self, result, dtype, owned),)
            return (ArrayHandle(self, result, dtype),)
        if type(result) is tuple:
            return tuple(self.wrap(op, r, inputs)[0] for r in result)
        # NumPy returns its own scalars for 0-d results.
        return self.wrap(op, np.asarray(result), inputs)


def _alone(inputs: Sequence[Handle | Scalar], place: int, owner: object) -> bool:
    """Whether nobody but the owner can see an input's memory, and nothing else is read from it."""
    target = inputs[place]
    assert isinstance(target, ArrayHandle)
    owned = target.owned
    return (
        owned is not None
        and owned.only(owner)
        and target.array.flags.c_contiguous
        and all(
            x is target or not isinstance(x, Handle) or x.owned is not owned for x in inputs
        )
    )  # fmt: skip


def _once_more(kernel: Kernel, op: Op, arrays: Sequence[Any], error: MemoryError) -> Any:
    """A kernel that NumPy had no memory for, after the pool gave back what it keeps."""
    if isinstance(error, OutOfMemoryError):
        raise error
    memory.pool.release()
    try:
        return _silently(kernel, op, *arrays)
    except MemoryError as again:
        now = memory.pool.statistics()
        holders = "; ".join(map(str, now.largest)) or "none"
        raise OutOfMemoryError(
            f"{op.operation.name}: {again}. Largest holders of the pool: {holders}",
            statistics=now,
        ) from None
