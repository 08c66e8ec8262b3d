"""Executables that run again and again in one native call, such as the steps of a loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ingle.fusion.device import Lender, Lent, Turns

from ..memory import lent_memory
from ..threads import abi
from ..threads.table import HOLDING, RELEASING, AbortedError
from .executable import LONG, MANY, QUICK, CpuExecutable, PreparedLaunch
from .interrupts import run_interruptibly

_BASES = abi.CONTROL.index("bases")

_scratch = Lender()
"""Memory for what templates pack: a run needs one piece, which its executables take turns with."""


def run_turns(runs: Sequence[Turns], scalars: Sequence[Any]) -> None:
    """Runs executables one after the other, as often as each of them has addresses.

    Raises:
        KeyboardInterrupt: it takes long, and Ctrl-C came meanwhile.
    """
    first: CpuExecutable = runs[0].executable  # type: ignore[assignment]
    turns = len(runs[0].addresses)
    lent: list[Lent] = []

    def scratch(nbytes: int) -> int:
        lent.append(_scratch.lend(nbytes, lent_memory))
        return lent[-1].address

    prepared = [_prepared(run, scalars, scratch) for run in runs]
    loop = _Loop(prepared, [run.addresses for run in runs], turns)
    pieces = turns * sum(p.tables.pieces for p in prepared)
    try:
        if _is_long(first, turns, pieces) and _is_main():
            run_interruptibly(loop)
        else:
            loop.run(release=pieces >= QUICK)
    finally:
        loop.end()
    first.turn_seconds = loop.seconds / turns
    for p in prepared:
        p.tables.idle.append(p.table)
    for piece in lent:
        _scratch.take_back(piece)


def _prepared(run: Turns, scalars: Sequence[Any], scratch: Callable[[int], int]) -> PreparedLaunch:
    executable: CpuExecutable = run.executable  # type: ignore[assignment]
    first, turns = run.addresses[0].tolist(), len(run.addresses)
    return executable.prepared(first, scalars, run.prepacks, scratch, turns)


def _is_long(first: CpuExecutable, turns: int, pieces: float) -> bool:
    """Whether Ctrl-C should be able to end it: as long as it took before, or by its work."""
    if first.turn_seconds is None:
        return pieces > MANY
    return first.turn_seconds * turns > LONG


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


class _Loop:
    """Tables that native code runs with a row of addresses for each turn.

    Attributes:
        seconds: how long the run took.
    """

    def __init__(
        self, prepared: Sequence[PreparedLaunch], addresses: Sequence[np.ndarray], turns: int
    ) -> None:
        self._tables = [p.table for p in prepared]
        self._rows = [_rows(p, given) for p, given in zip(prepared, addresses, strict=True)]
        words = [turns, len(prepared)]
        for table, rows in zip(self._tables, self._rows, strict=True):
            table.control[_BASES] = rows.ctypes.data
            words += [table.control_address, rows.strides[0]]
        self._words = np.array(words, np.int64)
        self.seconds = 0.0

    def run(self, *, release: bool = True) -> None:
        """Runs all turns; `release` as for a table.

        Raises:
            AbortedError: `abort` was called meanwhile.
        """
        thread_pool = self._tables[0].thread_pool
        if not thread_pool.parks_in_kernel and thread_pool.sleeping:
            thread_pool.wake()
        holding, releasing = _calls(thread_pool.repeat_address)
        began = time.perf_counter()
        status = (releasing if release else holding)(self._words.ctypes.data, thread_pool.state)
        self.seconds = time.perf_counter() - began
        if status == abi.ALONE:
            thread_pool.start()  # a forked child's first plan ran on this thread alone
        elif status:
            self.forget_abort()
            raise AbortedError(f"a loop of {self._words[0]} turns was stopped before its end")

    def abort(self) -> None:
        """Stops a run in another thread before its next kernel."""
        for table in self._tables:
            table.abort()

    def forget_abort(self) -> None:
        """Lets the tables run again."""
        for table in self._tables:
            table.forget_abort()

    def end(self) -> None:
        """Gives the tables their own addresses back."""
        for table in self._tables:
            table.control[_BASES] = table.bases_address


def _rows(prepared: PreparedLaunch, addresses: np.ndarray) -> np.ndarray:
    """All buffers of a table for each turn: scratch memory and panels are the same in all."""
    rows = np.empty((len(addresses), len(prepared.table.bases)), np.int64)
    rows[:] = prepared.table.bases
    rows[:, : addresses.shape[1]] = addresses
    return rows


@lru_cache(maxsize=4)
def _calls(address: int) -> tuple[Any, Any]:
    """The native function, holding Python's lock or releasing it."""
    return HOLDING(address), RELEASING(address)
