"""Movement on a backend that knows memory and kernels: views, and values put together by copies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op, infer

from ..ir.movement import COPIES, copy_calls, moved_view, pieces
from ..ir.views import View, strides_of
from .device_handles import MemoryHandle, StridedHandle

if TYPE_CHECKING:
    from .kernel_backend import KernelBackend


def placed(
    backend: KernelBackend, aval: Aval, memory: Any, address: int, strides: Sequence[int]
) -> Handle:
    """A handle of elements that lie somewhere in memory."""
    if _is_in_order(aval.shape, tuple(strides)):
        return MemoryHandle(backend, aval, memory, address)
    return StridedHandle(backend, aval, memory, address, strides)


@lru_cache(maxsize=1024)
def _is_in_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    return View(0, shape, strides).contiguous


def moved(backend: KernelBackend, op: Op, inputs: Sequence[Handle | Scalar]) -> Handle | None:
    """A view, or a value put together by copies; None where movement takes a kernel."""
    aval = infer(op, inputs)[0]
    first = op.operation.traits.starts
    if first is not None:
        inputs = [*inputs[:first], *[_number(backend, x) for x in inputs[first:]]]
    if op.operation.traits.access in COPIES:
        out = backend.empty(aval)
        strides = strides_of(aval.shape)
        for number, offset, steps in pieces(op, inputs, aval, strides):
            copy(backend, inputs[number], steps, out.address + offset * aval.dtype.itemsize)
        return out
    source: Any = inputs[0]
    backend.ensure(source)
    view = moved_view(op, inputs, View(0, source.shape, _strides(source)))
    if view is None:
        ordered = backend.in_order(source)
        return MemoryHandle(backend, aval, ordered.memory, ordered.address)
    address = source.address + view.offset * aval.dtype.itemsize
    return placed(backend, aval, source.memory, address, view.strides)


def copy(backend: KernelBackend, source: Any, steps: Sequence[int], address: int) -> None:
    """Copies the elements of a handle to an address, with other strides."""
    backend.ensure(source)
    own = _strides(source)
    for nest, sizes, args, offsets in copy_calls(source.shape, source.dtype, own, steps):
        places = [source.address + offsets[0], address + offsets[1]]
        backend.run_nest(nest, sizes, places, args)


def _number(backend: KernelBackend, x: Handle | Scalar) -> Scalar:
    """Where a piece begins, which may have been computed."""
    return x if isinstance(x, Scalar) else Scalar(backend.download(x).item(), x.dtype)


def _strides(handle: Any) -> tuple[int, ...]:
    return handle.strides if isinstance(handle, StridedHandle) else strides_of(handle.shape)
