"""The scalars of a plan as bits: given to its kernels, or written where those of a graph read them.

A graph of a step, most of whose numbers are others in each run, begins with a kernel that takes
them from the host's memory; where they change seldom, a kernel in front of the graph writes them.

A token of a language model has dozens, most of which are what they were in the run before: only
others are converted again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import count
from operator import is_not, itemgetter
from struct import Struct
from typing import TYPE_CHECKING, Any

from ingle.fusion.device.executables import bits_of_number

from ..driver.sources import NUMBERS, NUMBERS_AT_ONCE, numbers_source
from .host_numbers import HostNumbers
from .step_builder import KernelStep

if TYPE_CHECKING:
    from ..backend import CudaBackend

_Argument = ctypes.c_int64 * (2 + NUMBERS_AT_ONCE)
"""What the kernel is given: where to, how many, and the numbers."""
_UNKNOWN = object()


class ScalarTable:
    """What the kernels of a plan read of its scalars; with the backend's lock.

    Args:
        backend: of the GPU.
        steps: the kernels in order.
        dtypes: of the plan's scalars.
    """

    def __init__(
        self, backend: CudaBackend, steps: Sequence[KernelStep], dtypes: Sequence[str]
    ) -> None:
        self._backend = backend
        self._read = sorted({number for step in steps for number in step.scalars if number >= 0})
        self._dtypes = [dtypes[number] for number in self._read]
        self._given = _items(self._read)
        self._last: tuple[Sequence[Any], list[int]] = (
            [_UNKNOWN] * len(self._read), [0] * len(self._read)
        )  # fmt: skip
        self._named: tuple[list[int], dict[int, int]] = ([], {})
        places = {number: place for place, number in enumerate(self._read)}
        fixed: list[int] = []
        slots: list[int] = []
        for step in steps:
            place, many = step.numbers
            for at in range(many):
                number = step.scalars[at] if at < len(step.scalars) else -1
                if number >= 0:
                    slots.append(places[number])
                    continue
                slots.append(len(places) + len(fixed))
                fixed.append(step.given[place + at])
        self._fixed = fixed
        parts = [slots[n : n + NUMBERS_AT_ONCE] for n in range(0, len(slots), NUMBERS_AT_ONCE)]
        self._parts = [(_items(part), Struct(f"<{2 + len(part)}q"), len(part)) for part in parts]
        self._slots, self._count = _items(slots), len(slots)
        self._spare: list[Any] = []
        self._memory: Any = None
        self._written: list[int] | None = None
        self._host: HostNumbers | None = None
        self._handed: list[int] | None = None
        self._is_filled = False

    @property
    def address(self) -> int:
        """Where graphs read numbers; 0 if their kernels have none."""
        if self._memory is None and self._parts:
            self._memory = self._backend.allocate(8 * self._count)
        return 0 if self._memory is None else int(self._memory.address)

    def bits(self, scalars: Sequence[Any]) -> dict[int, int]:
        """The bits of those scalars that kernels read, by the scalar's number."""
        if not self._read:
            return {}
        bits = self._bits(scalars)
        if bits is not self._named[0]:
            self._named = bits, dict(zip(self._read, bits, strict=True))
        return self._named[1]

    def write(self, scalars: Sequence[Any]) -> None:
        """Puts the scalars where graphs read them, if they are others than before."""
        if not self._parts:
            return
        bits = self._bits(scalars)
        if bits == self._written:
            return
        self._written = None  # some of both, if this is interrupted
        self._enqueue(self.address, bits)
        self._written = bits

    def _enqueue(self, to: int, bits: Sequence[int]) -> None:
        """Puts kernels into the stream that write all numbers from an address on."""
        kernel = self._backend.kernel(numbers_source(), NUMBERS)
        values = [*bits, *self._fixed]
        # Nobody else has it meanwhile, not even what a handler of signals runs.
        given = self._spare.pop() if self._spare else _Argument()
        for items, form, many in self._parts:
            form.pack_into(given, 0, to, many, *items(values))
            self._backend.enqueue(kernel, given, 1, NUMBERS_AT_ONCE, self._backend.stream)
            to += 8 * many
        self._spare.append(given)

    # Graphs that take them from the host -------------------------------------------------------

    def is_taken(self, whole: bool) -> bool:
        """Whether a graph had better take the numbers from the host's memory, which there is then:
        none can be had while it is captured.

        Args:
            whole: whether it is a step that writes over its inputs. Most have another number in
                each run, and wait for checks; the GPU may be far behind where other graphs begin.
        """
        found = bool(self._read) and whole
        if found and self._host is None:
            self._host = HostNumbers(self._backend, self._count)
        return found

    def take(self, stream: Any) -> None:
        """Puts the kernel that takes them into a stream that is captured."""
        assert self._host is not None
        self._host.take(self.address, stream)

    def ready(self, scalars: Sequence[Any]) -> list[int]:
        """What `hand_over` is given."""
        return self._bits(scalars)

    def hand_over(self, bits: list[int]) -> None:
        """Puts the scalars where a graph takes them that is launched right behind.

        What never changes is there before: steps may read it beside the kernel that takes all.
        """
        host = self._host
        assert host is not None
        if not self._is_filled:
            self._enqueue(self.address, bits)
            self._is_filled = True
        if bits != self._handed:
            self._handed = None
            if host.is_free():
                host.write(self._slots([*bits, *self._fixed]))
            else:
                self._enqueue(host.address, bits)
            self._handed = bits
        self._written = None
        host.count_launch()

    def doubt(self) -> None:
        """Is told that it is not known whether the graph was launched that `hand_over` was for."""
        if self._host is not None:
            self._host.is_doubted = True

    def _bits(self, scalars: Sequence[Any]) -> list[int]:
        given = self._given(scalars)
        before, bits = self._last
        # The same object has the same bits; an equal one, such as -0.0, may have others.
        others = [n for n, other in zip(count(), map(is_not, given, before)) if other]
        if others:
            bits = bits.copy()
            for n in others:
                bits[n] = bits_of_number(given[n], self._dtypes[n])
            self._last = given, bits
        return bits


def _items(numbers: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What takes the items of these numbers from a sequence."""
    if len(numbers) > 1:
        return itemgetter(*numbers)
    return lambda items: [items[n] for n in numbers]
