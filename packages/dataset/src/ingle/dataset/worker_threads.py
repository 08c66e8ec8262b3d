"""Batches whose samples threads make, side by side and in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .base import Dataset, Indices
from .batching import collate as default_collate
from .batching import sample_at

AHEAD = 2
"""How many batches are begun beyond the one that is wanted, so that no thread waits for its end."""


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
    with ThreadPoolExecutor(workers, "ingle-worker") as threads:
        try:
            for indices in orders:
                waiting.append([threads.submit(sample_at, dataset, i) for i in indices.tolist()])
                if len(waiting) > AHEAD:
                    yield join([sample.result() for sample in waiting.popleft()])
            while waiting:
                yield join([sample.result() for sample in waiting.popleft()])
        finally:
            for batch in waiting:
                for sample in batch:
                    sample.cancel()
