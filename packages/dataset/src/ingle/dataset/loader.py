"""The loader: shuffled batches, made ahead of time, that resume in mid-epoch."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from .base import Dataset, Indices, IterableDataset
from .batching import collate as default_collate
from .batching import sample_at, take
from .conversion import as_given
from .errors import BatchError, DatasetError, DataValueError, EmptyDatasetError, SampleError
from .ordering import as_seed, generator, shuffled
from .prefetch import Prefetcher

Collate = Callable[[list[Any]], Any]
Transform = Callable[[Any], Any]
Augment = Callable[[Any, np.random.Generator], Any]


@dataclass(slots=True)
class LoaderStats:
    """Where the time of one epoch went.

    Attributes:
        batches: how many were handed out.
        waited: seconds that the caller waited for them. Near zero, the loader keeps up.
        produced: seconds that it took to make them.
    """

    batches: int = 0
    waited: float = 0.0
    produced: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.batches} batches, {self.waited:.3f} s waited for, {self.produced:.3f} s to make"
        )


class Loader:
    """Goes through a dataset in batches; each `for` loop over it is one epoch.

    The order depends on (seed, epoch) alone and is the same on every machine. A loop that is left
    early does not end its epoch: the next one begins it again. `state()` and `load_state()` resume
    after the last batch that was handed out, with the same batches.

    Args:
        dataset: indexable (`len` and `[i]`), or iterable for streams.
        batch_size: samples a batch; the last batch of an epoch may be smaller.
        shuffle: whether each epoch has an order of its own. Not for streams.
        seed: which orders and augmentations.
        drop_last: whether to leave out a last batch that is not full.
        prefetch: how many batches a background thread makes ahead; 0 for no thread.
        collate: makes a batch of a list of samples; `ingle.dataset.collate` if not given.
        transform: applied to each batch.
        augment: applied to each batch with a generator of its own for (seed, epoch, batch), so
            that a resumed epoch continues as it would have.
        tensors: whether the arrays of a batch arrive as tensors of `ingle.tensor`, on the device
            that is the default where the loop runs. If not given they do where that package is
            installed. `collate`, `augment` and `transform` work on arrays in any case.

    Raises:
        EmptyDatasetError: no samples, or with `drop_last` less than one batch of them. For a
            stream it is raised at the end of the epoch, when that is known.

    >>> import numpy as np
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> loader = Loader(ArrayDataset(np.arange(10)), batch_size=4)
    >>> [batch.tolist() for batch in loader]
    [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    >>> len(loader), loader.epoch
    (3, 1)
    """

    def __init__(
        self,
        dataset: Dataset[Any] | IterableDataset[Any],
        batch_size: int = 32,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        prefetch: int = 2,
        collate: Collate | None = None,
        transform: Transform | None = None,
        augment: Augment | None = None,
        tensors: bool | None = None,
    ) -> None:
        self.dataset = dataset
        self.batch_size = _count(batch_size, "batch_size", least=1)
        self.prefetch = _count(prefetch, "prefetch", least=0)
        self.seed = as_seed(seed, "Loader")
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.collate = collate
        self.transform = transform
        self.augment = augment
        self.tensors = tensors
        self.stats = LoaderStats()
        self._epoch = 0
        self._batch = 0  # batches of this epoch that were handed out
        self._resumed = False
        # Weak: when nobody holds the running loop any more, its thread ends.
        self._running: weakref.ref[_Epoch] | None = None
        self._samples = _length(dataset, shuffle)
        if self._samples is not None:
            self._require_batches(self._samples)

    def __len__(self) -> int:
        """How many batches an epoch has."""
        if self._samples is None:
            raise TypeError(
                f"Loader: {type(self.dataset).__name__} is a stream of unknown length; "
                "count the batches while iterating"
            )
        whole, rest = divmod(self._samples, self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    @property
    def epoch(self) -> int:
        """The epoch that the next loop goes through, or that the current one is in."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self.close()
        self._epoch = _count(epoch, "epoch", least=0)
        self._batch = 0
        self._resumed = False

    def __iter__(self) -> Iterator[Any]:
        self.close()
        if not self._resumed:
            self._batch = 0
        self._resumed = False
        running = _Epoch(self, self._epoch, self._batch)
        self._running = weakref.ref(running)
        return running

    def close(self) -> None:
        """Ends the background thread of a loop that was left early."""
        running = self._latest()
        self._running = None
        if running is not None:
            running.close()

    def _latest(self) -> _Epoch | None:
        return None if self._running is None else self._running()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def state(self) -> dict[str, Any]:
        """Where the loader stands, as plain values that JSON can hold.

        >>> from ingle.dataset import Loader
        >>> loader = Loader(range(6), batch_size=2)
        >>> first = next(iter(loader))
        >>> resumed = Loader(range(6), batch_size=2)
        >>> resumed.load_state(loader.state())
        >>> [batch.tolist() for batch in resumed]
        [[2, 3], [4, 5]]
        """
        return {**self._settings(), "epoch": self._epoch, "batch": self._batch}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues where `state()` was taken: the next loop starts with the batch after it.

        Raises:
            DataValueError: the state is of a loader with other settings or another dataset size.
        """
        for name, value in self._settings().items():
            if state.get(name) != value:
                raise DataValueError(
                    f"Loader: the state was saved with {name}={state.get(name)!r}, this loader has "
                    f"{name}={value!r}; its batches would differ. Make the loader as it was, or "
                    "start anew without the state"
                )
        self.epoch = state["epoch"]
        self._batch = _count(state["batch"], "batch", least=0)
        self._resumed = True

    def _settings(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "shuffle": self.shuffle,
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "samples": self._samples,
        }

    def _require_batches(self, samples: int) -> None:
        name = type(self.dataset).__name__
        if samples == 0:
            raise EmptyDatasetError(
                f"Loader: the dataset ({name}) has no samples; check the folder, filter or split "
                "that it came from"
            )
        if self.drop_last and samples < self.batch_size:
            raise EmptyDatasetError(
                f"Loader: with drop_last there is no batch at all: the dataset ({name}) has "
                f"{samples} samples and batch_size is {self.batch_size}; use a batch_size of at "
                f"most {samples} or drop_last=False"
            )

    def _batches(self, epoch: int, start: int) -> Iterator[Any]:
        """The batches of an epoch from number `start` on."""
        made = self._indexed(epoch, start) if self._samples is not None else self._streamed(start)
        for number, batch in enumerate(made, start):
            try:
                if self.augment is not None:
                    batch = self.augment(batch, generator(self.seed, epoch, number))
                yield batch if self.transform is None else self.transform(batch)
            except DatasetError:
                raise
            except Exception as error:
                raise BatchError(
                    f"Loader: batch {number} of epoch {epoch} could not be transformed: "
                    f"{type(error).__name__}: {error}"
                ) from error

    def _indexed(self, epoch: int, start: int) -> Iterator[Any]:
        assert self._samples is not None
        if self.shuffle:
            order = shuffled(self._samples, self.seed, epoch)
        else:
            order = np.arange(self._samples)
        for number in range(start, len(self)):
            yield self._gather(order[number * self.batch_size : (number + 1) * self.batch_size])

    def _gather(self, indices: Indices) -> Any:
        assert isinstance(self.dataset, Dataset)
        if self.collate is None:
            return take(self.dataset, indices)
        return self.collate([sample_at(self.dataset, int(i)) for i in indices])

    def _streamed(self, start: int) -> Iterator[Any]:
        assert isinstance(self.dataset, IterableDataset)
        seen = 0
        samples = _numbered(self.dataset)
        collate = default_collate if self.collate is None else self.collate
        while chunk := list(islice(samples, self.batch_size)):
            seen += len(chunk)
            if seen > start * self.batch_size and not (
                self.drop_last and len(chunk) < self.batch_size
            ):
                yield collate(chunk)
        self._require_batches(seen)


class _Epoch:
    """One loop over a loader. It tells the loader how far it is, as long as it is the latest."""

    def __init__(self, loader: Loader, epoch: int, start: int) -> None:
        self._loader = loader
        self._stats = loader.stats = LoaderStats()
        source = loader._batches(epoch, start)
        self._prefetcher = Prefetcher(source, loader.prefetch) if loader.prefetch else None
        self._source: Iterator[Any] = self._prefetcher or source
        self._given = as_given(loader.tensors)
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
        except BaseException:
            self.close()
            raise
        self._count(time.perf_counter() - start)
        # Here and not in the background, where the caller's default device is not known.
        return self._given(batch)

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


def _numbered(dataset: IterableDataset[Any]) -> Iterator[Any]:
    number = 0
    samples = iter(dataset)
    while True:
        try:
            sample = next(samples)
        except StopIteration:
            return
        except Exception as error:
            raise SampleError(
                f"sample {number} of the stream {type(dataset).__name__} could not be made: "
                f"{type(error).__name__}: {error}",
                number,
            ) from error
        yield sample
        number += 1


def _length(dataset: object, shuffle: bool) -> int | None:
    """How many samples there are; None for a stream."""
    if isinstance(dataset, Dataset):
        return len(dataset)
    if not isinstance(dataset, IterableDataset):
        raise TypeError(
            f"Loader: a dataset has __len__ and __getitem__, or __iter__; "
            f"{type(dataset).__name__} has neither"
        )
    if shuffle:
        raise DataValueError(
            f"Loader: {type(dataset).__name__} is a stream, whose order only it can change; use "
            "shuffle=False and shuffle inside of it"
        )
    return None


def _count(value: object, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DataValueError(
            f"Loader: {name} must be an integer of at least {least}, got {value!r}"
        )
    return value
