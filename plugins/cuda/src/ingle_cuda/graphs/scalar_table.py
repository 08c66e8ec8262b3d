"""The scalars of a plan as bits: given to its kernels, or written where those of a graph read them.

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
from .step_builder import KernelStep

if TYPE_CHECKING:
    from ..backend import CudaBackend

_HEAD = 16
"""Bytes of the kernel's argument in front of the numbers: where to, and how many."""
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
        self._parts = [(_items(part), Struct(f"<{len(part)}q"), len(part)) for part in parts]
        self._memory: Any = None
        self._written: list[int] | None = None

    @property
    def address(self) -> int:
        """Where graphs read numbers; 0 if their kernels have none."""
        if self._memory is None and self._parts:
            self._memory = self._backend.allocate(8 * sum([many for *_, many in self._parts]))
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
        kernel = self._backend.kernel(numbers_source(), NUMBERS)
        to, values = self.address, [*bits, *self._fixed]
        self._written = None  # some of both, if this is interrupted
        for items, form, many in self._parts:
            given = (ctypes.c_int64 * (_HEAD // 8 + NUMBERS_AT_ONCE))(to, many)
            form.pack_into(given, _HEAD, *items(values))
            self._backend.enqueue(kernel, given, 1, NUMBERS_AT_ONCE, self._backend.stream)
            to += 8 * many
        self._written = bits

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
