"""Batches that processes of their own make, side by side and in order."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue
from typing import Any

from .base import Dataset, Indices
from .batching import sample_at, take
from .errors import BatchError, DataValueError, SampleError

AHEAD = 2
"""How many batches wait for each process, so that none is idle."""
PATIENCE = 5.0
"""Seconds that processes have to end by themselves: a sample may wait for what never comes."""


@dataclass(frozen=True)
class _Failed:
    """What went wrong in a process; exceptions themselves may not survive the way."""

    message: str
    index: int | None


class _DiedError(Exception):
    """The process that was to make a batch is gone."""


class Workers:
    """Processes that hold a dataset, for one epoch or for several.

    Those of `concurrent.futures` keep a program from ending until a batch is made, which a disk or
    a server that does not answer may never allow.

    Args:
        dataset: goes to each process once, pickled.
        collate: likewise.
        count: how many processes.
        owner: they end when nobody holds it any more.

    Attributes:
        closed: whether they were ended, by `close` or by the death of one.

    Raises:
        DataValueError: the dataset or the function cannot be pickled.
    """

    def __init__(
        self, dataset: Dataset[Any], collate: Callable[[list[Any]], Any] | None, count: int,
        owner: object,
    ) -> None:  # fmt: skip
        try:
            self._held = pickle.dumps((dataset, collate))
        except Exception as error:
            raise DataValueError(
                f"Loader: {type(dataset).__name__} cannot go to another process: "
                f"{type(error).__name__}: {error}. Functions in it must be defined at the top of a "
                "module, not inside of another function or as a lambda; or use "
                "worker_kind='threads'"
            ) from error
        self.count = count
        self.closed = False
        self._processes: list[_Process] = []
        self._end = weakref.finalize(owner, self.close)

    def batches(self, orders: Iterator[Indices]) -> Iterator[Any]:
        """The batches of some indices each, in order.

        Raises:
            SampleError: a sample could not be made.
            BatchError: a batch could not be made, or a process died. The workers are closed then.
        """
        waiting: deque[Future[bytes]] = deque()
        number = 0
        try:
            for indices in orders:
                waiting.append(self._begin(indices))
                if len(waiting) >= AHEAD * self.count:
                    yield _result(waiting.popleft(), number)
                    number += 1
            while waiting:
                yield _result(waiting.popleft(), number)
                number += 1
        except _DiedError as error:
            self.close()
            raise _died(number, self.count) from error
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """Ends the processes, by force where they do not within some seconds."""
        self.closed = True  # ahead of the rest: `_begin` looks at it last
        for process in self._processes:
            process.end()
        last = time.monotonic() + PATIENCE
        for process in self._processes:
            process.join(max(0.0, last - time.monotonic()))
        self._end.detach()  # which would hold the pickled dataset as long as the owner lives

    def _begin(self, indices: Indices) -> Future[bytes]:
        """A batch, pickled, when it is made: by a new process, or by that with the least to do."""
        if not self.closed:
            if len(self._processes) < self.count:
                self._processes.append(_Process(self._held))
                process = self._processes[-1]
            else:
                process = min(self._processes, key=_Process.waiting)
            batch = process.make(indices)
            if not self.closed:
                return batch
            process.end()  # `close`, in another thread, may not have seen a new one
        raise RuntimeError("the loader was closed while it was iterated over")


class _Process:
    """A process that makes batches, in the order in which it is asked for them.

    It is not forked: a process that is forked while threads run, as the loader's own does, may
    never end.
    """

    def __init__(self, held: bytes) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._asked_for: SimpleQueue[Future[bytes] | None] = SimpleQueue()
        self._asked = self._made = 0
        with theirs:
            self._process = SpawnProcess(
                target=_serve, args=(held, theirs), name="ingle-worker", daemon=True
            )
            try:
                self._process.start()
            except BrokenPipeError as error:
                raise _DiedError from error
        threading.Thread(target=self._receive, name="ingle-worker", daemon=True).start()

    def waiting(self) -> int:
        """How many batches it was asked for and has not made."""
        return self._asked - self._made

    def make(self, indices: Indices) -> Future[bytes]:
        batch: Future[bytes] = Future()
        self._asked += 1
        self._asked_for.put(batch)
        try:
            self._pipe.send(indices)
        except OSError as error:
            raise _DiedError from error
        return batch

    def end(self) -> None:
        """Has it end after what it was asked for."""
        self._asked_for.put(None)

    def join(self, patience: float) -> None:
        """Waits for its end, no longer than some seconds, and kills it otherwise."""
        self._process.join(patience)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _receive(self) -> None:
        started = False
        with self._pipe:
            while (batch := self._asked_for.get()) is not None:
                made: bytes | _DiedError
                try:
                    started = started or self._starts()
                    made = self._pipe.recv_bytes() if started else _DiedError()
                except (EOFError, OSError):
                    made = _DiedError()
                self._made += 1
                if not batch.set_running_or_notify_cancel():
                    continue
                if isinstance(made, _DiedError):
                    batch.set_exception(made)
                else:
                    batch.set_result(made)

    def _starts(self) -> bool:
        """Waits for the first batch; False where the process ends without one.

        From then on its end closes the pipe. Before, it does not on Windows: the program keeps a
        copy of the process's side until that takes it, which one that cannot start never does.
        """
        ready = wait([self._pipe, self._process.sentinel])
        return self._pipe in ready or self._pipe.poll()


def _serve(held: bytes, program: Connection) -> None:
    """In a process: makes the batches that it is asked for, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program, which ends this one
    threading.Thread(target=_end_with_parent, name="ingle-parent", daemon=True).start()
    dataset, collate = pickle.loads(held)
    with suppress(EOFError, ConnectionError):
        while True:
            program.send_bytes(_pickled(_made(dataset, collate, program.recv())))


def _end_with_parent() -> None:
    """A program that is killed tells nobody, and its workers would wait for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _made(
    dataset: Dataset[Any], collate: Callable[[list[Any]], Any] | None, indices: Indices
) -> Any:
    try:
        if collate is None:
            return take(dataset, indices)
        return collate([sample_at(dataset, int(i)) for i in indices])
    except SampleError as error:
        return _Failed(str(error), error.index)
    except Exception as error:
        return _Failed(f"{type(error).__name__}: {error}", None)


def _pickled(made: Any) -> Any:
    try:
        return ForkingPickler.dumps(made)
    except Exception as error:
        return ForkingPickler.dumps(
            _Failed(f"it cannot go to another process: {type(error).__name__}: {error}", None)
        )


def _result(batch: Future[bytes], number: int) -> Any:
    pickled = batch.result()
    try:
        found = pickle.loads(pickled)
    except Exception as error:
        found = _Failed(f"it cannot be unpickled: {type(error).__name__}: {error}", None)
    if not isinstance(found, _Failed):
        return found
    if found.index is not None:
        raise SampleError(found.message, found.index)
    raise BatchError(
        f"Loader: batch {number} of this loop, from 0, could not be made: {found.message}"
    )


def _died(number: int, workers: int) -> BatchError:
    return BatchError(
        f"Loader: one of the {workers} worker processes died while batch {number} of this loop, "
        "from 0, or one soon after was made: it was killed, perhaps for want of memory, or ended "
        "itself, or could not start. Try fewer workers or smaller batches; with workers=0 errors "
        "are shown where they arise. A script that starts processes needs its code below "
        "`if __name__ == '__main__':`"
    )
