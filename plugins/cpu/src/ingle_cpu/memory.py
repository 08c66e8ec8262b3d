"""Handles in memory whose address is known, so that plans need not ask NumPy for it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import DType
from ingle.tensor.eager import ArrayHandle
from ingle.tensor.memory import Block, HostMemory, Label
from ingle_numpy.memory import pool

if TYPE_CHECKING:
    from .backend import Cpu

SMALL = 1 << 16
"""Bytes up to which blocks are kept here, by size; larger ones come from the pool."""
_KEPT = 256
_LINE_BITS = 6
_LINE = 1 << _LINE_BITS


class ThreadMemory(threading.local):
    """Memory of each thread that plans take turns with: the largest that one of them needed."""

    def __init__(self) -> None:
        self._buffer = np.empty(0, np.uint8)
        self._address = 0

    def __call__(self, nbytes: int) -> int:
        """The address of memory that this thread may use until its plan ends."""
        if nbytes + _LINE > self._buffer.nbytes:
            self._buffer = np.empty(nbytes + _LINE, np.uint8)
            self._address = -(-self._buffer.ctypes.data // _LINE) * _LINE
        return self._address


class _Small:
    """A small block of memory of its own, of `2 ** bits` bytes."""

    __slots__ = ("address", "buffer", "home", "start")

    def __init__(self, bits: int) -> None:
        self.buffer = np.empty((1 << bits) + _LINE, np.uint8)
        first = self.buffer.__array_interface__["data"][0]
        self.home = _free[bits]
        self.start = -first % _LINE
        self.address = first + self.start


_free: list[list[_Small]] = [[] for _ in range(SMALL.bit_length())]
"""By the logarithm of their size."""


class _Borrowed:
    """Memory of an array that NumPy made."""

    __slots__ = ("address", "array")

    def __init__(self, array: Any) -> None:
        self.array = array
        self.address = array.__array_interface__["data"][0]


class CpuHandle(ArrayHandle):
    """A value whose elements lie in C order at a known address.

    Attributes:
        address: of the first element.
        memory: what keeps it alive; it goes back when the handle is gone, unless NumPy saw it.
    """

    __slots__ = ("_seen", "address", "memory", "owned")

    def __init__(self, backend: Cpu, aval: Aval, memory: _Small | Block | _Borrowed) -> None:
        self.backend = backend
        self.shape, self.dtype = aval
        self.owned = None
        self.memory = memory
        self.address = memory.address
        self._seen: Any = None

    @property
    def array(self) -> Any:
        """The value as an array that shares the memory, and keeps it from then on."""
        if self._seen is None:
            self._seen = _array(self.memory, self.shape, self.dtype.dtype)
        return self._seen

    @property
    def exclusive(self) -> bool:
        """Whether nothing but this handle sees the memory."""
        return self._seen is None and type(self.memory) is not _Borrowed

    def fill(self, array: np.ndarray) -> None:
        """Writes elements into the memory, which nobody has seen yet."""
        np.copyto(_array(self.memory, self.shape, self.dtype.dtype), array)

    def __del__(self) -> None:
        memory = self.memory
        if type(memory) is _Small:
            if self._seen is None:
                home = memory.home
                if len(home) < _KEPT:
                    home.append(memory)
        elif type(memory) is Block:
            memory.release()


class _Held(np.ndarray[Any, Any]):
    """Below every array in a block of the pool: it gives the block back."""

    block: Block | None

    def __del__(self) -> None:
        block = getattr(self, "block", None)
        if block is not None:
            block.release()


def _array(memory: _Small | Block | _Borrowed, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    if isinstance(memory, _Borrowed):
        return memory.array
    if isinstance(memory, _Small):
        return np.ndarray(shape, dtype, memory.buffer, memory.start)
    host = memory.memory
    assert isinstance(host, HostMemory)
    memory.retain()
    held = np.ndarray.__new__(_Held, shape, dtype, host.buffer, host.start + memory.offset)
    held.block = memory
    return held.view(np.ndarray)


def new_handle(backend: Cpu, aval: Aval) -> CpuHandle:
    """A handle with whatever is in its memory."""
    nbytes = aval.dtype.itemsize
    for size in aval.shape:
        nbytes *= size
    if nbytes > SMALL:
        label = Label("a plan", aval.shape, aval.dtype)
        return CpuHandle(backend, aval, pool.allocate(nbytes, label))
    bits = (nbytes - 1).bit_length() if nbytes > _LINE else _LINE_BITS
    try:
        memory = _free[bits].pop()
    except IndexError:
        memory = _Small(bits)
    return CpuHandle(backend, aval, memory)


def copied(backend: Cpu, array: np.ndarray, dtype: DType) -> CpuHandle:
    """A handle of a copy of an array's elements."""
    made = new_handle(backend, Aval(array.shape, dtype))
    made.fill(array)
    return made


def borrowed(backend: Cpu, handle: ArrayHandle) -> CpuHandle:
    """A handle of another one's memory, whose elements lie in C order."""
    made = CpuHandle(backend, Aval(handle.shape, handle.dtype), _Borrowed(handle.array))
    made.owned = handle.owned
    return made
