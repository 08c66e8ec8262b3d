"""Inputs of a plan that lie elsewhere in each run, though all else lies where it was.

A graph has addresses in it. Batches of a data set, or the tokens of a text, come from many places:
each would need a graph of its own, which takes longer to capture than to run. They are copied to
where one graph reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..backend import CudaBackend
    from .buffer_uses import BufferUse

_MISSES = 3
"""Runs in a row without a graph for their memory, from which on inputs are copied."""
_STILL = 8
"""Runs in a row in which a copied input lay where it was, after which it is copied no more: the
first runs of a training lie elsewhere altogether. Twice as many the next time."""
_MOST = 64 << 20
"""Bytes that are copied for a run at most; of more, graphs are captured."""


class WanderingInputs:
    """Which of a plan's buffers are copied, and where to.

    Args:
        backend: of the GPU.
        uses: of the plan's buffers.
    """

    def __init__(self, backend: CudaBackend, uses: Mapping[int, BufferUse]) -> None:
        self._backend = backend
        self._nbytes = {
            n: use.nbytes for n, use in uses.items() if use.nbytes and not use.is_written
        }
        self._places: dict[int, Any] = {}
        self._still: dict[int, tuple[int, int]] = {}
        self._patience = _STILL
        self._before: tuple[int, ...] = ()
        self._misses = 0

    def settled(self, buffers: tuple[int, ...]) -> tuple[int, ...]:
        """The addresses with those of copies in place of what is copied."""
        if not self._places:
            return buffers
        found = list(buffers)
        for number, memory in self._places.items():
            found[number] = memory.address
        return tuple(found)

    def met(self) -> None:
        """There was a graph."""
        self._misses = 0

    def missed(self, buffers: tuple[int, ...]) -> bool:
        """There was none for a run's memory; whether other buffers are copied from now on.

        Args:
            buffers: settled addresses.
        """
        before, self._before = self._before, buffers
        self._misses += 1
        if self._misses < _MISSES or len(before) != len(buffers):
            return False
        moved = [n for n in self._nbytes if n not in self._places and before[n] != buffers[n]]
        wanted = sum([self._nbytes[n] for n in (*self._places, *moved)])
        if not moved or wanted > _MOST:
            return False
        self._misses = 0
        for number in moved:
            self._places[number] = self._backend.allocate(self._nbytes[number])
        return True

    def copy(self, buffers: Sequence[int]) -> None:
        """Puts the copies into the stream, from a run's own addresses."""
        if not self._places:
            return
        settled = []
        for number, memory in self._places.items():
            address = buffers[number]
            self._backend.duplicate(memory.address, address, self._nbytes[number])
            last, times = self._still.get(number, (0, 0))
            times = times + 1 if last == address else 0
            self._still[number] = address, times
            if times >= self._patience:
                settled.append(number)
        for number in settled:
            del self._places[number], self._still[number]
        self._patience <<= bool(settled)
