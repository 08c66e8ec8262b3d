"""Batches that processes of their own make, side by side and in order."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.context import SpawnContext, SpawnProcess
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


_held: list[Any] = []
"""In a worker: the dataset and the collate function."""


def _hold(pickled: bytes) -> None:
    threading.Thread(target=_end_with_parent, name="ingle-parent", daemon=True).start()
    _held[:] = pickle.loads(pickled)


def _end_with_parent() -> None:
    """A program that is killed tells nobody, and its workers would wait for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _make(indices: Indices) -> Any:
    dataset, collate = _held
    try:
        if collate is None:
            return take(dataset, indices)
        return collate([sample_at(dataset, int(i)) for i in indices])
    except SampleError as error:
        return _Failed(str(error), error.index)
    except Exception as error:
        return _Failed(f"{type(error).__name__}: {error}", None)


class Workers:
    """Processes that hold a dataset, for one epoch or for several.

    Args:
        dataset: goes to each process once, pickled.
        collate: likewise.
        count: how many processes.

    Attributes:
        closed: whether they were ended, by `close` or by the death of one.

    Raises:
        DataValueError: the dataset or the function cannot be pickled.
    """

    def __init__(
        self, dataset: Dataset[Any], collate: Callable[[list[Any]], Any] | None, count: int
    ) -> None:
        try:
            pickled = pickle.dumps((dataset, collate))
        except Exception as error:
            raise DataValueError(
                f"Loader: {type(dataset).__name__} cannot go to another process: "
                f"{type(error).__name__}: {error}. Functions in it must be defined at the top of a "
                "module, not inside of another function or as a lambda; or use "
                "worker_kind='threads'"
            ) from error
        self.count = count
        self.closed = False
        self._processes = _Processes()
        self._pool = ProcessPoolExecutor(
            count, self._processes, initializer=_hold, initargs=(pickled,)
        )

    def batches(self, orders: Iterator[Indices]) -> Iterator[Any]:
        """The batches of some indices each, in order.

        Raises:
            SampleError: a sample could not be made.
            BatchError: a batch could not be made, or a process died. The workers are closed then.
        """
        waiting: deque[Future[Any]] = deque()
        number = 0
        try:
            for indices in orders:
                waiting.append(self._pool.submit(_make, indices))
                if len(waiting) >= AHEAD * self.count:
                    yield _result(waiting.popleft(), number)
                    number += 1
            while waiting:
                yield _result(waiting.popleft(), number)
                number += 1
        except BrokenProcessPool as error:
            self.close()
            raise _died(number, self.count) from error
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """Ends the processes, by force where they do not within some seconds."""
        self.closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._processes.end(PATIENCE)
        self._pool.shutdown(wait=True)


class _Processes(SpawnContext):
    """Starts processes for a pool, and knows them.

    They are not forked: a process that is forked while threads run, as the loader's own does, may
    never end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._started: list[SpawnProcess] = []

    def Process(self, *args: Any, **options: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        process = SpawnProcess(*args, **options)
        self._started.append(process)
        return process

    def end(self, patience: float) -> None:
        """Waits for the end of all, no longer than some seconds, and kills those that remain."""
        last = time.monotonic() + patience
        for process in self._started:
            process.join(max(0.0, last - time.monotonic()))
            if process.is_alive():
                process.kill()


def _result(future: Future[Any], number: int) -> Any:
    found = future.result()
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
