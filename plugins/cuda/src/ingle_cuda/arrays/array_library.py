"""Operations by CuPy: in the plugin's stream, on its memory, with results that are its own."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ingle.fusion.device.kernel_backend import Held, MemoryHandle, StridedHandle
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.dtypes import from_numpy_dtype
from ingle.tensor.operation import Op, infer

from ..driver.errors import told
from ..driver.libraries import answers_checked
from . import complex_numbers, decompositions, fourier, places
from .decompositions import UnsolvedError
from .sorting import Sorts

if TYPE_CHECKING:
    from ..backend import CudaBackend

Way = Callable[[Op, Sequence[Handle | Scalar]], "tuple[Handle, ...] | None"]
"""Computes an operation; None where the library finds no results, and the host says why."""

_PLANS = 1 << 28
"""Bytes that transforms of known sizes may keep to work in, for each thread."""
_SHORT = 16
"""Elements of rows that generated kernels sort."""
_SORTS = frozenset({"argsort", "sort"})
_INT64 = np.dtype(np.int64)


class ArrayLibrary:
    """Computes what no kernel is generated for.

    Args:
        backend: whose stream, memory and CuPy these are.
    """

    def __init__(self, backend: CudaBackend) -> None:
        self._backend = backend
        self._sorts = Sorts(backend, self)

    def way(self, op: Op, avals: Sequence[Aval]) -> Way | None:
        """How CuPy computes an operation on operands like these, if it does so sooner than the
        host."""
        name = op.operation.name
        if any(0 in a.shape for a in avals):
            return None
        if name in _SORTS:
            axis: int = op.attributes["axis"]
            return self._sorted if avals[0].shape[axis] > _SHORT else None
        if name in decompositions.CALLS and not decompositions.pays(name, avals[0].shape):
            return None
        call = _call(op, avals)
        return None if call is None else partial(self._computed, call)

    def _sorted(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        return (self._sorts.run(op, inputs[0]),)

    def _computed(
        self, call: Callable[..., Any], op: Op, inputs: Sequence[Handle | Scalar]
    ) -> tuple[Handle, ...] | None:
        name = op.operation.name
        with ExitStack() as stack:
            made = stack.enter_context(self._speaking(f"{name} was computed"))
            xp = self._backend.cupy
            if name in decompositions.CALLS:
                stack.enter_context(answers_checked())
            if name in fourier.CALLS:
                xp.fft.config.get_plan_cache().set_memsize(_PLANS)
            try:
                found = call(xp, op, *[self._operand(x) for x in inputs])
            except UnsolvedError:
                return None
            arrays = found if isinstance(found, tuple) else (found,)
            return tuple([
                self._handle(array, aval, made)
                for array, aval in zip(arrays, _avals(op, inputs, arrays), strict=True)
            ])  # fmt: skip

    @contextmanager
    def _speaking(self, doing: str) -> Generator[dict[int, Held]]:
        """A block in which CuPy works in the plugin's stream, with what it gets of its memory."""
        backend = self._backend
        made: dict[int, Held] = {}

        def allocate(nbytes: int) -> Any:
            held = backend.allocate(nbytes)
            made[held.address] = held
            return self._pointer(held.address, nbytes, held)

        backend.enter()
        with (
            backend.lock, told(backend.device, doing), backend.stream,
            backend.cupy.cuda.using_allocator(allocate),
        ):  # fmt: skip
            yield made

    def sort(self, words: Held, count: int) -> None:
        with self._speaking("words were sorted"):
            self._words(words, count).sort()

    def order(self, words: Held, count: int) -> Held:
        with self._speaking("words were sorted") as made:
            order = self._backend.cupy.argsort(self._words(words, count), kind="stable")
            return made[order.astype(_INT64, copy=False).data.mem.ptr]

    def _words(self, words: Held, count: int) -> Any:
        return self._array(words.address, (count,), np.dtype(np.uint64), None)

    def _operand(self, x: Handle | Scalar) -> Any:
        """An operand as CuPy's array, which reads the memory of the handle."""
        if isinstance(x, Scalar):
            return np.asarray(x.value, x.dtype.dtype)[()]
        assert isinstance(x, MemoryHandle | StridedHandle)
        strides = None
        if isinstance(x, StridedHandle):
            strides = tuple([x.dtype.itemsize * n for n in x.strides])
        return self._array(x.address, x.shape, x.dtype.dtype, strides, x.memory)

    def _array(
        self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any],
        strides: tuple[int, ...] | None, owner: Any = None,
    ) -> Any:  # fmt: skip
        return self._backend.cupy.ndarray(shape, dtype, self._pointer(address, 0, owner), strides)

    def _pointer(self, address: int, nbytes: int, owner: Any) -> Any:
        cuda = self._backend.cupy.cuda
        return cuda.MemoryPointer(cuda.UnownedMemory(address, nbytes, owner), 0)

    def _handle(self, array: Any, aval: Aval, made: dict[int, Held]) -> Handle:
        """A result as a handle: on the memory that CuPy took for it, or a copy of a view."""
        held = made.get(array.data.mem.ptr)
        if held is not None and array.flags.c_contiguous and array.dtype == aval.dtype.dtype:
            return MemoryHandle(self._backend, aval, held, array.data.ptr)
        handle = self._backend.empty(aval)
        self._operand(handle)[...] = array
        return handle


def _call(op: Op, operands: Sequence[Any]) -> Callable[..., Any] | None:
    """What computes an operation; None if there is none for dtypes of such operands."""
    name = op.operation.name
    for calls in (places.CALLS, fourier.CALLS, decompositions.CALLS):
        if name in calls:
            return calls[name]
    if op.operation.traits.dynamic_shape:
        return None
    is_complex = any(x.dtype.is_complex for x in (*operands, *infer(op, operands)))
    return complex_numbers.CALLS.get(name) if is_complex else None


def _avals(op: Op, inputs: Sequence[Any], arrays: Sequence[Any]) -> Sequence[Aval]:
    """Of results, whose sizes values say where no rule does."""
    if op.operation.traits.dynamic_shape:
        return [Aval(a.shape, from_numpy_dtype(a.dtype)) for a in arrays]
    return infer(op, inputs)
