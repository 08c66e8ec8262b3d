"""Batches whose samples threads make, side by side and in order."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

from .base import Dataset, Indices
from .batching import collate as default_collate
from .batching import sample_at

AHEAD = 2
"""How many batches are begun beyond the one that is wanted, so that no thread waits for its end."""
PATIENCE = 5.0
"""Seconds that the end of the program waits for samples that are being made."""


def batches_of_threads(
    dataset: Dataset[Any],
    collate: Callable[[list[Any]], Any] | None,
    orders: Iterator[Indices],
    workers: int,
) -> Iterator[Any]:
    """The batches of some indices each, in order.

    Args:
        dataset: asked for one sample after the other, in several threads at once.
        collate: makes a batch of samples; the usual one if not given.
        orders: indices of samples, batch by batch.
        workers: how many threads.

    Raises:
        SampleError: a sample could not be made.
    """
    join = default_collate if collate is None else collate
    waiting: deque[list[Future[Any]]] = deque()
    threads = _Threads(dataset, workers)
    patience = None
    try:
        for indices in orders:
            waiting.append([threads.make(i) for i in indices.tolist()])
            if len(waiting) > AHEAD:
                yield join([sample.result() for sample in waiting.popleft()])
        while waiting:
            yield join([sample.result() for sample in waiting.popleft()])
    except KeyboardInterrupt:
        patience = 0.0  # perhaps pressed because a sample never comes
        raise
    finally:
        for batch in waiting:
            for sample in batch:
                sample.cancel()
        threads.close(patience)


_Wanted = tuple[int, Future[Any]] | None


class _Threads:
    """Threads that make samples of a dataset.

    Those of `concurrent.futures` keep a program from ending until a sample is made, which a disk
    or a server that does not answer may never allow.
    """

    def __init__(self, dataset: Dataset[Any], count: int) -> None:
        self._wanted: SimpleQueue[_Wanted] = SimpleQueue()
        threads = [
            threading.Thread(
                target=_work, args=(dataset, self._wanted), name="ingle-worker", daemon=True
            )
            for _ in range(count)
        ]
        for thread in threads:
            thread.start()
        self._threads = threads
        self._end = weakref.finalize(self, _end, self._wanted, threads, PATIENCE)

    def make(self, index: int) -> Future[Any]:
        """The sample at an index, when it is made."""
        sample: Future[Any] = Future()
        self._wanted.put((index, sample))
        return sample

    def close(self, patience: float | None) -> None:
        """Ends the threads and waits for them: until they did, or no longer than some seconds."""
        if self._end.detach() is not None:
            _end(self._wanted, self._threads, patience)


def _end(
    wanted: SimpleQueue[_Wanted], threads: Sequence[threading.Thread], patience: float | None
) -> None:
    for _ in threads:
        wanted.put(None)
    last = None if patience is None else time.monotonic() + patience
    for thread in threads:
        thread.join(None if last is None else max(0.0, last - time.monotonic()))


def _work(dataset: Dataset[Any], wanted: SimpleQueue[_Wanted]) -> None:
    while (task := wanted.get()) is not None:
        index, sample = task
        if sample.set_running_or_notify_cancel():
            try:
                sample.set_result(sample_at(dataset, index))
            except BaseException as error:  # whatever it is, it belongs to who waits
                sample.set_exception(error)
