"""The entries of a template by themselves, outside of plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ingle.fusion.device import Lender
from ingle.tensor.contract import Aval, Handle

from ..memory import CpuHandle, lent_memory
from ..threads.table import IdleTables
from .entries_table import entries_table
from .plan import Contraction, Pointer

QUICK = 1 << 20
"""Multiplications up to which Python's lock is kept."""
LINE = 64


class Located(NamedTuple):
    """A tensor in memory.

    Attributes:
        address: of its first element.
        strides: of its axes, in elements.
        handle: what keeps it there.
    """

    address: int
    strides: tuple[int, ...]
    handle: Handle


def located(device: Any, handle: Handle) -> Located:
    """Where a handle lies; a copy in C order where its strides are no whole elements."""
    if not isinstance(handle, CpuHandle):
        array: Any = handle.array  # type: ignore[attr-defined]
        size = array.itemsize
        if not any(step % size for step in array.strides):
            return Located(array.ctypes.data, tuple([s // size for s in array.strides]), handle)
    return located_in_order(device, handle)


def located_in_order(device: Any, handle: Handle) -> Located:
    """Where a handle lies in C order, or a copy of it."""
    ordered: CpuHandle = device.in_order(handle)
    strides: list[int] = []
    step = 1
    for n in reversed(ordered.shape):
        strides.append(step)
        step *= n
    return Located(ordered.address, tuple(reversed(strides)), ordered)


class EntriesCall:
    """Entries as a call, for operands that lie in one way.

    Args:
        device: the backend.
        made: the entries; they have operands and results as operands.
        operands: how many tensors are read.
        results: shapes and dtypes of the results.
        products: how many multiplications it takes.
        number_at: the place of a number among the last entry's arguments, if each call has one.
    """

    def __init__(
        self, device: Any, made: Contraction, operands: int, results: Sequence[Aval],
        products: int, number_at: int | None = None,
    ) -> None:  # fmt: skip
        self._device = device
        self._results = results
        self._release = products > QUICK
        count = operands + len(results)
        places = {Pointer("operand", n): (n, 0) for n in range(count)}
        places[Pointer("scratch")] = count, 0
        self._scratch = 0
        for number, nbytes in enumerate(made.scratch):
            places[Pointer("scratch", number)] = count, self._scratch
            self._scratch += -(-nbytes // LINE) * LINE
        table = entries_table(made.entries, places)
        self._tables = IdleTables(table)
        before = sum(len(e.args) for e in made.entries[:-1])
        self._number_at = None if number_at is None else before + number_at

    def __call__(self, addresses: Sequence[int], bits: int = 0) -> tuple[Handle, ...]:
        """Runs it on tensors at these addresses, with the bits of the number, if there is one."""
        results = tuple([self._device.empty(aval) for aval in self._results])
        table = self._tables.taken()
        scratch = _scratch.lend(self._scratch, lent_memory)
        table.bases[:] = [*addresses, *[h.address for h in results], scratch.address]
        if self._number_at is not None:
            table.args[self._number_at] = bits
        table.run(release=self._release)
        _scratch.take_back(scratch)
        self._tables.idle.append(table)
        return results


_scratch = Lender()
"""Memory for blocks and panels."""
