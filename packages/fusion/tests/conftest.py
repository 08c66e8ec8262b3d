"""Compiling and calling kernels without a backend, and backends that note what they are asked."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import Fusion
from ingle.fusion.kernel.code import bits_of
from ingle.fusion.kernel.nest import Nest, units
from ingle.fusion.render.llvm.source import render
from ingle.fusion.render.llvm.targets import Target, target_of
from ingle.fusion.runtime.at_once import READ
from ingle.tensor import plugins
from ingle.tensor.contract import Backend
from ingle.tensor.device import Device
from ingle_numpy.backend import NumpyBackend

_numbers = itertools.count()
SIGNATURE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)


class Machine:
    """LLVM for the host: text in, callable kernels out."""

    def __init__(self, binding: Any) -> None:
        self.binding = binding
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        features = binding.get_host_cpu_features()
        triple = binding.get_default_triple()
        have = {name for name, on in features.items() if on}
        self.target = target_of(have, triple.split("-")[0])
        # Kernels may land anywhere: drivers of GPUs take most of the addresses that are near.
        self._machine = binding.Target.from_triple(triple).create_target_machine(
            cpu=binding.get_host_cpu_name(), features=features.flatten(), opt=3,
            reloc="pic", codemodel="large",
        )  # fmt: skip
        self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), self._machine)

    def object(self, text: str) -> bytes:
        """The object file of a module."""
        return bytes(self._machine.emit_object(self.binding.parse_assembly(text)))

    def assembly(self, text: str) -> str:
        """What the module becomes, for people."""
        return str(self._machine.emit_assembly(self.binding.parse_assembly(text)))

    def load(self, text: str, name: str) -> Any:
        """The function of that name as a ctypes function."""
        found = self.binding.ObjectFileRef.from_data(self.object(text))
        self._engine.add_object_file(found)
        self._engine.finalize_object()
        return SIGNATURE(self._engine.get_function_address(name))

    def kernel(self, nest: Nest, target: Target | None = None) -> Kernel:
        """A nest as something to call with arrays."""
        name = f"kernel{next(_numbers)}"
        return Kernel(nest, self.load(render(nest, name, target or self.target), name))


class Kernel:
    """A compiled nest, called with NumPy arrays of all its axes (strides 0 where broadcast)."""

    def __init__(self, nest: Nest, function: Callable[..., None]) -> None:
        self.nest = nest
        self.function = function

    def arguments(
        self, arrays: Sequence[Any], scalars: Sequence[Any], total: int | None
    ) -> tuple[Any, Any, tuple[int, ...]]:
        """Pointers, args and sizes for a call."""
        sizes = tuple(np.broadcast_shapes(*(a.shape for a in arrays)))
        assert len(sizes) == self.nest.outer + 1
        args = [*sizes, *([total] if self.nest.ragged else [])]
        for a in arrays:
            steps = zip(a.shape, a.strides, sizes, strict=True)
            args += [0 if n == 1 and size != 1 else s // a.itemsize for n, s, size in steps]
        args += [bits_of(s, d) for s, d in zip(scalars, self.nest.scalars, strict=True)]
        pointers = np.array([a.ctypes.data for a in arrays], np.uint64)
        return pointers, np.array([x & (2**64 - 1) for x in args], np.uint64), sizes

    def __call__(
        self,
        *arrays: Any,
        scalars: Sequence[Any] = (),
        parts: int = 1,
        total: int | None = None,
    ) -> None:
        """Runs all units of work, in some parts one after the other."""
        pointers, args, sizes = self.arguments(arrays, scalars, total)
        count = units(self.nest, sizes)
        cuts = [count * p // parts for p in range(parts + 1)]
        for begin, end in itertools.pairwise(cuts):
            self.function(pointers.ctypes.data, args.ctypes.data, begin, end, 0)


@pytest.fixture(scope="session")
def machine() -> Machine:
    """The host."""
    return Machine(pytest.importorskip("llvmlite.binding"))


@pytest.fixture
def fused() -> Iterator[Callable[[Callable[[Device], Backend]], Any]]:
    """Makes a backend that notes what it is asked for, and the default device fusion over it."""
    device = Device("noting")
    with ExitStack() as stack:

        def made(create: Callable[[Device], Backend]) -> Backend:
            backend = create(device)
            plugins._backends[device] = Fusion(backend)
            stack.callback(plugins._backends.pop, device)
            stack.enter_context(it.device("noting"))
            return backend

        yield made


@pytest.fixture
def at_once(fused: Callable[[Callable[[Device], Backend]], Any]) -> None:
    """The default device runs operations as they come, since short streams were read."""
    fused(NumpyBackend)
    x = it.asarray([1.0, 2.0])
    for _ in range(READ):
        (x - x).numpy()
