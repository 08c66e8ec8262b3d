"""The loader: shuffled batches, made ahead of time, that resume in mid-epoch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal, Never

import numpy as np
from numpy.typing import ArrayLike

from .base import Dataset, Indices, IterableDataset
from .batching import collate as default_collate
from .batching import numbered, sample_at, take, takes_copies
from .epoch import Epoch, LoaderStats
from .errors import BatchError, DatasetError, DataValueError, EmptyDatasetError
from .given import check_dataset
from .ordering import as_seed, generator
from .orders import SOMETIMES, BatchOrder, checked_lengths
from .other_names import refuse
from .sampling import checked_weights
from .worker_processes import Workers
from .worker_threads import batches_of_threads

Collate = Callable[[list[Any]], Any]
Transform = Callable[[Any], Any]
Augment = Callable[[Any, np.random.Generator], Any]


class Loader:
    """Goes through a dataset in batches; each `for` loop over it is one epoch.

    The order depends on (seed, epoch) alone and is the same on every machine. A loop that is left
    early does not end its epoch: the next one begins it again. `state()` and `load_state()` resume
    after the last batch that was handed out, with the same batches.

    Args:
        dataset: indexable (`len` and `[i]`), or iterable for streams. Of an array or a tensor
            the samples are its rows.
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
        lengths: of the samples, one integer each. Batches then have samples of like length, so
            that `Padding` fills up little. With `shuffle` both the batches and what is in them
            differ from epoch to epoch; without it samples are sorted by length.
        weights: of the samples, one number each. An epoch then has as many samples as the dataset,
            drawn with replacement in proportion to them; see `balancing_weights`.
        rank: of this process among those that train together, from 0.
        world_size: how many processes train together. Each has a share of every epoch, and all
            have equally many batches: what does not share out evenly is filled up with samples
            from the epoch's start, or left out with `drop_last`. All need the same seed.
        workers: threads that make samples side by side, one by one and not with the dataset's
            `take`; 0 for none. For samples that wait for a disk or a network, or that libraries
            compute which let other threads run, as Pillow does. Batches are the same with any
            number.
        worker_kind: `"processes"` for workers that are processes, each making whole batches: for
            samples that Python computes. The dataset and `collate` are pickled for them.
        persistent: whether processes stay between epochs, so that they start once. They see the
            dataset as it was at the first; `close()` ends them.
        device: where the arrays of batches go as tensors, in the background thread already, while
            the device still works on the batch before, and through memory that it reads by itself
            (pinned) where it offers that. If not given, they go where the default
            device is when they are handed out.

    Raises:
        DataValueError: an argument that makes no sense, or does not fit the samples.
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
        lengths: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        rank: int = 0,
        world_size: int = 1,
        workers: int = 0,
        worker_kind: Literal["threads", "processes"] = "threads",
        persistent: bool = False,
        device: object = None,
        **others: Never,
    ) -> None:
        refuse(others)
        check_dataset(dataset, loads=isinstance(dataset, Loader))
        self.dataset = dataset
        if hasattr(batch_size, "shape"):
            raise DataValueError(
                f"Loader: batch_size must be an integer, got an array of shape {batch_size.shape}; "
                "arrays go together: Loader(ArrayDataset(x, y), 32)"
            )
        self.batch_size = _count(batch_size, "batch_size", least=1)
        self.prefetch = _count(prefetch, "prefetch", least=0)
        self.seed = as_seed(seed, "Loader")
        self.shuffle = _switch(shuffle, "shuffle")
        self.drop_last = _switch(drop_last, "drop_last")
        for name, given in (("collate", collate), ("transform", transform), ("augment", augment)):
            if given is not None and not callable(given):
                raise DataValueError(f"Loader: {name} must be a function, got {given!r:.80}")
        self.collate = collate
        self.transform = transform
        self.augment = augment
        self.tensors = None if tensors is None else _switch(tensors, "tensors")
        self.stats = LoaderStats()
        self._epoch = 0
        self._batch = 0  # batches of this epoch that were handed out
        self._resumed = False
        # Weak: when nobody holds the running loop any more, its thread ends.
        self._running: weakref.ref[Epoch] | None = None
        self.rank = _count(rank, "rank", least=0)
        self.world_size = _count(world_size, "world_size", least=1)
        self.workers = _count(workers, "workers", least=0)
        if worker_kind not in ("threads", "processes"):
            raise DataValueError(
                f"Loader: worker_kind must be 'threads' or 'processes', got {worker_kind!r}"
            )
        self.worker_kind = worker_kind
        if _switch(persistent, "persistent") and (worker_kind != "processes" or not workers):
            raise DataValueError(
                "Loader: persistent=True keeps processes: give workers=2, or more, and "
                "worker_kind='processes'"
            )
        self.persistent = persistent
        self.device = device
        self._kept: Workers | None = None
        self._samples = samples = _length(dataset, shuffle)
        if samples is None and (world_size > 1 or lengths is not None or weights is not None):
            raise DataValueError(
                f"Loader: {type(dataset).__name__} is a stream, of which there are no lengths, "
                "weights or shares; give each process a stream of its own"
            )
        count = samples or 0
        self._lengths = None if lengths is None else checked_lengths(lengths, count)
        self._weights = None if weights is None else checked_weights(weights, count, "Loader")
        if samples is not None:
            self._require_batches(samples)
            self._order()  # refuses settings that do not go together

    def _order(self) -> BatchOrder | None:
        """The order by the settings as they are now; None for a stream."""
        if self._samples is None:
            return None
        return BatchOrder(
            self._samples, self.batch_size, self.shuffle, self.seed, self.drop_last,
            self.rank, self.world_size, self._lengths, self._weights,
        )  # fmt: skip

    def __len__(self) -> int:
        """How many batches an epoch has."""
        order = self._order()
        if order is None:
            raise TypeError(
                f"Loader: {type(self.dataset).__name__} is a stream of unknown length; "
                "count the batches while iterating"
            )
        return len(order)

    @property
    def epoch(self) -> int:
        """The epoch that the next loop goes through, or that the current one is in."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._leave()
        self._epoch = _count(epoch, "epoch", least=0)
        self._batch = 0
        self._resumed = False

    def __iter__(self) -> Iterator[Any]:
        self._leave()
        if not self._resumed:
            self._batch = 0
        self._resumed = False
        running = Epoch(self, self._epoch, self._batch)
        self._running = weakref.ref(running)
        return running

    def close(self) -> None:
        """Ends the background thread of a loop that was left early, and processes that stayed."""
        self._end_workers()  # ahead of the thread, which may wait for what they never make
        self._leave()
        self._end_workers()  # those that it started meanwhile

    def _end_workers(self) -> None:
        workers, self._kept = self._kept, None
        if workers is not None:
            workers.close()

    def _leave(self) -> None:
        """Ends the loop that runs, if any."""
        running = self._latest()
        self._running = None
        if running is not None:
            running.close()

    def _latest(self) -> Epoch | None:
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
        own = self._settings()
        for name in (*own, *(name for name in SOMETIMES if name in state and name not in own)):
            if state.get(name) != own.get(name):
                raise DataValueError(
                    f"Loader: the state was saved with {name}={state.get(name)!r}, this loader has "
                    f"{name}={own.get(name)!r}; its batches would differ. Make the loader as it "
                    "was, or start anew without the state"
                )
        self.epoch = state["epoch"]
        self._batch = _count(state["batch"], "batch", least=0)
        self._resumed = True

    state_dict = state
    """`state()` by PyTorch's name."""

    load_state_dict = load_state
    """`load_state()` by PyTorch's name."""

    def _settings(self) -> dict[str, Any]:
        order = self._order()
        if order is not None:
            return order.settings()
        return {
            "seed": self.seed,
            "shuffle": self.shuffle,
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "samples": None,
        }

    def _require_batches(self, samples: int) -> None:
        name = type(self.dataset).__name__
        if samples == 0:
            raise EmptyDatasetError(
                f"Loader: the dataset ({name}) has no samples; check the folder, filter or split "
                "that it came from"
            )
        if self.drop_last and samples < self.batch_size * self.world_size:
            each = f" in each of {self.world_size} processes" if self.world_size > 1 else ""
            raise EmptyDatasetError(
                f"Loader: with drop_last there is no batch at all: the dataset ({name}) has "
                f"{samples} samples and batch_size is {self.batch_size}{each}; use a batch_size of "
                f"at most {samples // self.world_size} or drop_last=False"
            )

    def _batches(self, epoch: int, start: int) -> Iterator[Any]:
        """The batches of an epoch from number `start` on."""
        order = self._order()
        made = self._streamed(epoch, start) if order is None else self._indexed(order, epoch, start)
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

    def _indexed(self, order: BatchOrder, epoch: int, start: int) -> Iterator[Any]:
        if not self.workers:
            for indices in order.batches(epoch, start):
                yield self._gather(indices)
            return
        assert isinstance(self.dataset, Dataset)
        orders = order.batches(epoch, start)
        if self.worker_kind == "threads":
            yield from batches_of_threads(self.dataset, self.collate, orders, self.workers)
            return
        workers = self._kept
        if workers is None or workers.closed:
            self._kept = workers = Workers(self.dataset, self.collate, self.workers, self)
        try:
            yield from workers.batches(orders)
        finally:
            if not self.persistent:
                workers.close()

    def _sample(self, index: int) -> Any:
        assert isinstance(self.dataset, Dataset)
        return sample_at(self.dataset, index)

    def _gather(self, indices: Indices) -> Any:
        assert isinstance(self.dataset, Dataset)
        if self.collate is None:
            return take(self.dataset, indices)
        return self.collate([self._sample(i) for i in indices.tolist()])

    def _fresh(self) -> bool:
        """Whether batches are of arrays that nobody else holds."""
        changed = self.collate is not None or self.augment is not None
        alone = self.workers > 0 or takes_copies(self.dataset)
        return alone and not changed and self.transform is None

    def _streamed(self, epoch: int, start: int) -> Iterator[Any]:
        assert isinstance(self.dataset, IterableDataset)
        seen = 0
        of_epoch = getattr(self.dataset, "at_epoch", None)
        samples = numbered(self.dataset if of_epoch is None else of_epoch(epoch))
        collate = default_collate if self.collate is None else self.collate
        while chunk := list(islice(samples, self.batch_size)):
            seen += len(chunk)
            if seen > start * self.batch_size and not (
                self.drop_last and len(chunk) < self.batch_size
            ):
                yield collate(chunk)
        self._require_batches(seen)


def _length(dataset: object, shuffle: bool) -> int | None:
    """How many samples there are; None for a stream."""
    if isinstance(dataset, Dataset):
        return len(dataset)
    if shuffle:
        raise DataValueError(
            f"Loader: {type(dataset).__name__} is a stream, whose order only it can change; use "
            "shuffle=False and shuffle inside of it"
        )
    return None


def _switch(value: object, name: str) -> bool:
    """True or False; 0, 1 and NumPy's own are one of them, a word is not what it says."""
    if not isinstance(value, (bool, int, np.bool_)) or value not in (0, 1):
        raise DataValueError(f"Loader: {name} must be True or False, got {value!r:.60}")
    return bool(value)


def _count(value: object, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DataValueError(
            f"Loader: {name} must be an integer of at least {least}, got {value!r}"
        )
    return value
