"""Nests on a device with memory of its own, as something to call with arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ingle.fusion.device.kernels import Nest, bits_of, layout, units


class Machine:
    """A kernel backend: nests in, kernels to call out."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend

    def kernel(self, nest: Nest) -> Kernel:
        return Kernel(self, nest)

    def run(
        self, nest: Nest, sizes: Sequence[int], pointers: Sequence[int], args: Sequence[int],
        numbers: Sequence[int], parts: int,
    ) -> None:  # fmt: skip
        """Runs all units of work."""
        self.backend.run_nest(nest, sizes, pointers, [*args, *numbers])


class Kernel:
    """A nest, called with NumPy arrays of all its axes (strides 0 where broadcast)."""

    def __init__(self, machine: Machine, nest: Nest) -> None:
        self.machine = machine
        self.nest = nest

    def __call__(
        self, *arrays: Any, scalars: Sequence[Any] = (), parts: int = 1, total: int | None = None
    ) -> None:
        """Runs all units of work, in some parts one after the other."""
        nest, backend = self.nest, self.machine.backend
        sizes = tuple(np.broadcast_shapes(*(a.shape for a in arrays)))
        args = [*sizes, *([total] if nest.ragged else [])]
        for a in arrays:
            steps = zip(a.shape, a.strides, sizes, strict=True)
            args += [0 if n == 1 and size != 1 else s // a.itemsize for n, s, size in steps]
        numbers = [bits_of(s, d) for s, d in zip(scalars, nest.scalars, strict=True)]
        numbers = [n - (1 << 64) if n >> 63 else n for n in numbers]
        copies = {bounds(a): Copy(backend, a) for a in arrays}
        pointers = [copies[bounds(a)].pointer(a) for a in arrays]
        assert len(args) == layout(nest).scalar(0)
        if units(nest, sizes):
            self.machine.run(nest, sizes, pointers, args, numbers, parts)
        for copy in copies.values():
            copy.bring_back()


def bounds(array: Any) -> tuple[int, int]:
    """The memory that an array lies in, all of which kernels may read."""
    below = array.base
    while below is not None:  # `as_strided` puts something between that is no array
        array = below if isinstance(below, np.ndarray) else array
        below = getattr(below, "base", None)
    low, high = np.lib.array_utils.byte_bounds(array)
    return low, high


class Copy:
    """Memory of an array on the device."""

    def __init__(self, backend: Any, array: Any) -> None:
        self.low, high = bounds(array)
        self.backend = backend
        memory = (ctypes.c_uint8 * (high - self.low)).from_address(self.low)
        self.bytes = np.ctypeslib.as_array(memory)
        self.held = backend.allocate(max(self.bytes.size, 1))
        if self.bytes.size:
            backend.write(self.held.address, self.bytes)

    def pointer(self, array: Any) -> int:
        address: int = self.held.address + array.__array_interface__["data"][0] - self.low
        return address

    def bring_back(self) -> None:
        if self.bytes.size:
            self.backend.read(self.held.address, self.bytes)
