"""Datasets made of other datasets when they are asked for: filtered, windowed, cached."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from .base import Dataset, IndexedDataset, Indices, checked_function, position
from .batching import sample_at, take
from .errors import DataValueError, SampleError
from .views import ChosenSamples

T = TypeVar("T")


class FilterDataset(ChosenSamples[T], Generic[T]):
    """The samples for which a function answers true, in their order.

    Every sample is made once to ask the function, when the length or a sample is first wanted; from
    then on only the positions are kept. Put `cache()` before it where samples are slow to make.

    Args:
        dataset: where the samples are.
        predicate: called with a sample.

    Raises:
        SampleError: on first use, where a sample cannot be made or the function fails on it.

    >>> from ingle.dataset import FilterDataset
    >>> odd = FilterDataset(range(6), lambda x: x % 2)
    >>> len(odd), odd[1]
    (3, 3)
    """

    def __init__(self, dataset: Dataset[T], predicate: Callable[[T], object]) -> None:
        self.dataset = dataset
        self.predicate = checked_function("filter", predicate)

    @cached_property
    def indices(self) -> Indices:  # type: ignore[override]
        """The positions of the samples in the dataset that was filtered."""
        found = [i for i in range(len(self.dataset)) if self._accepts(i)]
        return np.array(found, dtype=np.int64)

    def _accepts(self, index: int) -> bool:
        sample = sample_at(self.dataset, index)
        try:
            return bool(self.predicate(sample))
        except Exception as error:
            raise SampleError(
                f"filter: the function failed on sample {index} of "
                f"{type(self.dataset).__name__}: {type(error).__name__}: {error}",
                index,
            ) from error


class WindowDataset(IndexedDataset[Any]):
    """Runs of consecutive samples, each as one batch: pieces of a series, of a text, of a film.

    Window `i` holds the samples `i * stride` to `i * stride + size - 1`. Samples at the end that
    fill no window are left out; fewer than `size` samples make no window.

    Args:
        dataset: samples in their order.
        size: samples a window.
        stride: how far the next window begins from the one before.

    Raises:
        DataValueError: `size` or `stride` is no integer of at least 1.

    >>> import numpy as np
    >>> from ingle.dataset import ArrayDataset, WindowDataset
    >>> series = WindowDataset(ArrayDataset(np.arange(7)), size=3, stride=2)
    >>> [window.tolist() for window in series]
    [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    """

    def __init__(self, dataset: Dataset[Any], size: int, stride: int = 1) -> None:
        for name, value in (("size", size), ("stride", stride)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise DataValueError(
                    f"windows: {name} must be an integer of at least 1, got {value!r}"
                )
        self.dataset = dataset
        self.size = size
        self.stride = stride

    def __len__(self) -> int:
        room = len(self.dataset) - self.size
        return 0 if room < 0 else room // self.stride + 1

    def __getitem__(self, index: int, /) -> Any:
        start = position(index, len(self), self) * self.stride
        return take(self.dataset, np.arange(start, start + self.size))


class CachedDataset(IndexedDataset[T], Generic[T]):
    """Samples that are made once and then kept in memory.

    What is random in a sample is drawn once: put augmentations behind the cache. A sample is handed
    out again and again, so what changes it in place changes the cache.

    Args:
        dataset: where the samples come from.
        most: how many samples are kept at most; the rest is made each time. All if not given.

    Raises:
        DataValueError: `most` is no integer of at least 0.

    >>> from ingle.dataset import CachedDataset, MapDataset
    >>> calls = []
    >>> slow = MapDataset(range(3), lambda x: calls.append(x) or 10 * x)
    >>> cached = CachedDataset(slow)
    >>> cached[2], cached[2], calls
    (20, 20, [2])
    """

    def __init__(self, dataset: Dataset[T], most: int | None = None) -> None:
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
            raise DataValueError(f"cache: most must be an integer of at least 0, got {most!r}")
        self.dataset = dataset
        self.most = most
        self._kept: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int, /) -> T:
        at = position(index, len(self), self)
        if at in self._kept:
            return self._kept[at]
        sample = self.dataset[at]
        if self.most is None or len(self._kept) < self.most:
            self._kept[at] = sample
        return sample

    def clear(self) -> None:
        """Forgets what is kept."""
        self._kept.clear()
