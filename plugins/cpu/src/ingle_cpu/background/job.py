"""Runs of plans in the queue: what they hold, and what becomes of it when they fail."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ingle.fusion.device import user_line
from ingle.tensor.cell import Cell
from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.transactions import commit_lock

from ..launch.executable import PreparedLaunch
from ..memory import give_back
from ..threads import abi

if TYPE_CHECKING:
    from .queue import Queue, Room


class QueuedRun(NamedTuple):
    """One part of a job: what runs, and then the bytes that end the job if one is not zero, with
    what is wrong then."""

    prepared: PreparedLaunch
    flags: Sequence[tuple[int, str]]


_THE_SAME: Any = object()


class Failure:
    """Why a job did not come to its end, nor those that make use of its results.

    Attributes:
        text: what is wrong.
        line: where in the user's code the job was asked for.
        thread: which asked.
    """

    def __init__(self, text: str, line: str, thread: int) -> None:
        self.text = text
        self.line = line
        self.thread = thread

    def error(self) -> OutOfRangeError:
        """A new error that says so."""
        return OutOfRangeError(f"{self.text} (found while it ran ahead; called at {self.line})")


class Job:
    """A plan's run in the queue.

    Args:
        queue: where it runs.
        runs: what it does, in order.
        inputs: what it reads and does not write: kept until its end.
        room: memory that it uses meanwhile.

    Attributes:
        number: its place in the queue.
        after: jobs of whose results it makes use.
        failure: why it did not come to its end; what it was to write has no value then.
    """

    def __init__(
        self, queue: Queue, runs: Sequence[QueuedRun], inputs: Sequence[object], room: Room
    ) -> None:
        self.number = -1
        self.after: set[Job] = set()
        self.failure: Failure | None = None
        self._asked = str(user_line()), threading.get_ident()
        self._queue = queue
        self._runs = runs
        self._held: tuple[object, ...] = inputs, room
        self._garbage: list[Any] = []
        self._undo: Sequence[tuple[Cell[Any], Any, int]] = ()
        self._ended = False
        words: list[int] = []
        for run in runs:
            words += [abi.RUN, run.prepared.table.control_address]
            for address, _ in run.flags:
                words += [abi.CHECK, address]
        self._program = np.array([*words, abi.END, 0], np.int64)
        self.program = self._program.ctypes.data

    @property
    def given(self) -> bool:
        """Whether it is in the queue, or was."""
        return 0 <= self.number < self._queue.given

    def wait(self) -> None:
        """Waits for its end, which may be a failure."""
        self._queue.wait(self.number)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._ended

    def hear(self, failure: Failure) -> None:
        """Raises what went wrong."""
        self._queue.heard(failure)
        raise failure.error()

    def wrote(self, before: Sequence[tuple[Cell[Any], Any]]) -> None:
        """Notes what cells held before they got its results, which they hold again if it fails."""
        # A value that was written over is held by its cell only, so that it may be once more.
        found = [
            (cell, _THE_SAME if cell._value is old else old, cell.version) for cell, old in before
        ]
        with commit_lock, self._queue.lock:
            if self.failure is not None:
                self._undo = found
                self.take_back({})
            elif not self._ended:
                self._undo = found

    def take_back(self, restored: dict[Cell[Any], int]) -> None:
        """Gives cells what they held before; with `commit_lock`.

        Args:
            restored: the versions of cells that were given back what they held before later runs.
        """
        for cell, old, version in self._undo:
            if cell.version in (version, restored.get(cell)):
                if old is not _THE_SAME:
                    cell._store(old)
                restored[cell] = cell.version
        self._undo = ()

    def keep(self, memory: Any) -> None:
        """Gives memory back when the job has ended. Never waits, since finalizers call it."""
        self._garbage.append(memory)
        if self._ended:
            self._sweep()

    def fail(self) -> Failure:
        """Finds out which of its flags is set."""
        flags = [flag for run in self._runs for flag in run.flags]
        texts = [t for address, t in flags if ctypes.c_uint8.from_address(address).value]
        self.failure = Failure(texts[0], *self._asked)
        return self.failure

    def end(self) -> None:
        """Lets go of everything that only its run needed; where Ctrl-C cuts that off, once more."""
        while self._runs:
            runs = self._runs
            run, *rest = runs
            idle, table = run.prepared.tables.idle, [run.prepared.table]
            # In one step, without a call: a table that is idle twice would get two runs.
            if self._runs is runs:
                self._runs = rest
                idle += table
        self._runs, self._held, self._undo = (), (), ()
        self.after = set()
        self._ended = True
        self._sweep()

    def _sweep(self) -> None:
        while True:
            try:
                memory = self._garbage.pop()
            except IndexError:
                return
            give_back(memory)
