"""CuPy, played by NumPy: arrays on memory of the played GPU, results in memory that it asks for."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

_FUNCTIONS = (type(np.sort), np.ufunc, type(np.zeros))


class HostArray(np.ndarray):
    """An array that says where its memory begins, as CuPy's do."""

    _place = 0

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.ctypes.data, mem=SimpleNamespace(ptr=self._place))


class HostCupy:
    """CuPy's functions: those of NumPy, once all streams have come to their end.

    Args:
        synchronize: waits for these.
        cuda: what there is in `cupy.cuda`, beside memory.
    """

    def __init__(self, synchronize: Callable[[], None], **cuda: Any) -> None:
        self._synchronize = synchronize
        self._allocators: list[Callable[[int], Any]] = []
        self.cuda = SimpleNamespace(
            UnownedMemory=lambda address, nbytes, owner: SimpleNamespace(ptr=address, owner=owner),
            MemoryPointer=lambda memory, offset: SimpleNamespace(ptr=memory.ptr, mem=memory),
            using_allocator=self._using, **cuda,
        )  # fmt: skip
        cache = SimpleNamespace(set_memsize=lambda nbytes: None)
        config = SimpleNamespace(get_plan_cache=lambda: cache)
        self.fft = _Named(partial(self._function, np.fft), config=config)
        self.linalg = _Named(partial(self._function, np.linalg))

    def __getattr__(self, name: str) -> Any:
        return self._function(np, name)

    def ndarray(
        self, shape: Sequence[int], dtype: Any, pointer: Any, strides: Sequence[int] | None
    ) -> HostArray:
        self._synchronize()
        steps = strides
        if steps is None:
            steps = [dtype.itemsize * math.prod(shape[a + 1 :]) for a in range(len(shape))]
        ends = [(n - 1) * step for n, step in zip(shape, steps, strict=True)]
        low, high = sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends) + dtype.itemsize
        span = (ctypes.c_uint8 * (high - low)).from_address(pointer.ptr + low)
        return HostArray(shape, dtype, span, -low, strides)

    def _function(self, module: Any, name: str) -> Any:
        found = getattr(module, name)
        return partial(self._called, found) if isinstance(found, _FUNCTIONS) else found

    def _called(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        if isinstance(found, tuple) and all(isinstance(x, np.ndarray | np.generic) for x in found):
            return tuple([self._placed(x) for x in found])
        return self._placed(found) if isinstance(found, np.ndarray | np.generic) else found

    def _placed(self, x: Any) -> HostArray:
        """A result in memory of the GPU."""
        pointer = self._allocators[-1](max(x.nbytes, 1))
        placed = self.ndarray(x.shape, x.dtype, pointer, None)
        placed._place = pointer.mem.ptr
        placed._held = pointer.mem.owner
        placed[...] = x
        return placed

    @contextmanager
    def _using(self, allocate: Callable[[int], Any]) -> Generator[None, None, None]:
        self._allocators.append(allocate)
        with np.errstate(all="ignore"):  # CuPy tells nobody
            yield
        self._allocators.pop()


class _Named:
    """A module of CuPy's, by a function that finds what it has."""

    def __init__(self, find: Callable[[str], Any], **have: Any) -> None:
        self._find = find
        self.__dict__.update(have)

    def __getattr__(self, name: str) -> Any:
        return self._find(name)
