"""Plans of launches: kernels called one after the other from Python."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ingle.tensor.errors import BackendError, LostDeviceError, OutOfMemoryError
from ingle.tensor.interruptions import is_from_outside

from ..kernel.code import INTEGERS, SIZES, bits_of
from ..kernel.nest import Nest, layout, units
from ..lowering.nests import NestCall
from .device import Launch

if TYPE_CHECKING:
    from .kernel_backend import KernelBackend
    from .plan_codegen import DonationState


class _Step(NamedTuple):
    """A launch with everything but addresses and numbers.

    Attributes:
        pointers: (buffer, offset in bytes) for each operand.
        scalars: (place in `args`, number of the scalar) for each.
    """

    kernel: Any
    pointers: tuple[tuple[int, int], ...]
    args: tuple[int, ...]
    scalars: tuple[tuple[int, int], ...]
    units: int
    nest: Nest


def compiled_launches(
    backend: KernelBackend, launches: Sequence[Launch], scalars: Sequence[str]
) -> Launches:
    """The launches of a plan, whose kernels are compiled.

    Args:
        backend: compiles and launches them.
        launches: in order.
        scalars: the dtypes of the plan's scalars.
    """
    return Launches(backend, [_step(backend, launch) for launch in launches], scalars)


class Launches:
    """Kernels that are launched one after the other; made by `compiled_launches`."""

    long = False
    prepacks: tuple[int, ...] = ()
    renewed = False
    profiles_whole = False

    def __init__(
        self, backend: KernelBackend, steps: Sequence[_Step], scalars: Sequence[str]
    ) -> None:
        self._backend = backend
        self._dtypes = list(scalars)
        self._steps = steps
        self._read = sorted({number for step in steps for _, number in step.scalars})

    def __call__(
        self, addresses: Sequence[int], scalars: Sequence[Any],
        donation: DonationState | None = None, *, prepacks: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        """Runs them on buffers at these addresses; nothing is kept."""
        numbers = self._numbers(scalars)
        for step in self._steps:
            self._run(step, addresses, numbers)

    def _numbers(self, scalars: Sequence[Any]) -> dict[int, int]:
        """The bits of those that kernels read; others may have dtypes that no kernel knows."""
        return {n: bits_of_number(scalars[n], self._dtypes[n]) for n in self._read}

    def _run(self, step: _Step, addresses: Sequence[int], numbers: Mapping[int, int]) -> None:
        args = list(step.args)
        for place, number in step.scalars:
            args[place] = numbers[number]
        pointers = [addresses[buffer] + offset for buffer, offset in step.pointers]
        self._backend.launch(step.kernel, pointers, args, 0, step.units)

    def profile(
        self,
        addresses: Sequence[int],
        scalars: Sequence[Any],
        runs: int,
        prepacks: Sequence[Any] = (),
    ) -> Sequence[float]:
        """Seconds of each launch, the mean of some runs."""
        numbers = self._numbers(scalars)
        seconds = []
        for step in self._steps:
            start = time.perf_counter()
            for _ in range(runs):
                self._run(step, addresses, numbers)
            seconds.append((time.perf_counter() - start) / runs)
        return seconds

    def sources(self) -> Sequence[str]:
        """The kernels' source code."""
        return [self._backend.source(step.nest) for step in self._steps]


def _step(backend: KernelBackend, launch: Launch) -> _Step:
    call = launch.call
    assert isinstance(call, NestCall), "there are no templates"
    places = layout(call.nest)
    args = [*call.sizes, *[s for strides in call.strides for s in strides]]
    return _Step(
        compiled(backend, launch, call.nest),
        tuple([(p.buffer, p.offset) for p in launch.pointers]),
        (*args, *[0] * len(launch.scalars), *call.fixed),
        tuple([(places.scalar(n), s) for n, s in enumerate(launch.scalars)]),
        units(call.nest, call.sizes),
        call.nest,
    )


def compiled(backend: KernelBackend, launch: Launch, source: Nest | str, name: str = "nest") -> Any:
    """The kernel of a launch.

    Args:
        source: a nest, or source code with a function `name`.

    Raises:
        BackendError: it cannot be compiled; it names the operations.
        LostDeviceError, OutOfMemoryError: the device failed, not the compiler.
    """
    try:
        return backend.kernel(source, name)
    except (LostDeviceError, OutOfMemoryError):
        raise
    except Exception as error:  # a stranger's compiler may raise anything
        if is_from_outside(error):
            raise
        raise BackendError(
            f"{backend.device}: the kernel of [{launch.operations}] cannot be compiled: {error}"
        ) from error


_ITSELF = {dtype: 1 << 8 * SIZES[dtype] - 1 for dtype in INTEGERS}
"""By dtype, up to where a number from 0 on has the bits of the 64-bit integer."""


def bits_of_number(value: Any, dtype: str) -> int:
    """A number's bits in a dtype, as the 64-bit integer that has them."""
    if type(value) is int and dtype in _ITSELF and 0 <= value < _ITSELF[dtype]:
        return value
    bits = bits_of(value, dtype)
    return bits - (1 << 64) if bits >> 63 else bits
