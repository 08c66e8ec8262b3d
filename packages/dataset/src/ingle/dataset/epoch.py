"""One loop over a loader: hands batches out, counts them and the time that they took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .conversion import as_given
from .prefetch import Prefetcher

if TYPE_CHECKING:
    from .loader import Loader


@dataclass(slots=True)
class LoaderStats:
    """Where the time of one epoch went.

    Attributes:
        batches: how many were handed out.
        waited: seconds that the caller waited for them. Near zero, the loader keeps up.
        produced: seconds that it took to make them.

    >>> from ingle.dataset import Loader
    >>> loader = Loader([1.0, 2.0, 3.0], 2)
    >>> for batch in loader:
    ...     pass
    >>> loader.stats.batches, loader.stats.waited >= 0.0
    (2, True)
    """

    batches: int = 0
    waited: float = 0.0
    produced: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.batches} batches, {self.waited:.3f} s waited for, {self.produced:.3f} s to make"
        )


class Epoch:
    """One loop over a loader. It tells the loader how far it is, as long as it is the latest."""

    def __init__(self, loader: Loader, epoch: int, start: int) -> None:
        self._loader = loader
        self._stats = loader.stats = LoaderStats()
        source = loader._batches(epoch, start)
        convert = as_given(loader.tensors, device=loader.device, fresh=loader._fresh())
        # Without a device it is done in the thread that iterates, whose default device counts.
        self._given: Callable[[Any], Any] | None = convert
        if loader.device is not None:
            source, self._given = map(convert, source), None
        self._prefetcher = Prefetcher(source, loader.prefetch) if loader.prefetch else None
        self._source: Iterator[Any] = self._prefetcher or source
        self._open = True

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self._open:
            raise StopIteration
        start = time.perf_counter()
        try:
            batch = next(self._source)
        except StopIteration:
            self._finish()
            raise
        except KeyboardInterrupt:
            self._abandon()
            raise
        except BaseException:
            self.close()
            raise
        self._count(time.perf_counter() - start)
        return batch if self._given is None else self._given(batch)

    def _count(self, waited: float) -> None:
        stats = self._stats
        stats.batches += 1
        stats.waited += waited
        stats.produced = self._prefetcher.produced if self._prefetcher else stats.waited
        if self._loader._latest() is self:
            self._loader._batch += 1

    def _finish(self) -> None:
        loader = self._loader
        self.close()
        if loader._latest() is self:
            loader._running = None
            loader._epoch += 1
            loader._batch = 0

    def close(self) -> None:
        self._open = False
        if self._prefetcher is not None:
            self._prefetcher.close()

    def _abandon(self) -> None:
        """Closes without waiting for the batch that is being made: it may never be."""
        self._open = False
        if self._prefetcher is not None:
            self._prefetcher.close(wait=False)
        self._loader._end_workers()
