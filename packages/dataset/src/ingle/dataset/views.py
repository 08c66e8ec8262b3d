"""Datasets made of other datasets: mapped, parts, joined."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .base import Dataset, IndexedDataset, Indices, checked_function, position, positions
from .batching import take, takes_copies
from .errors import DataValueError
from .ordering import as_seed, shuffled

T = TypeVar("T")


class MapDataset(IndexedDataset[T], Generic[T]):
    """The samples of a dataset, each passed through a function when it is asked for.

    >>> from ingle.dataset import MapDataset
    >>> MapDataset([1, 2, 3], lambda x: 10 * x)[1]
    20
    """

    def __init__(self, dataset: Dataset[Any], function: Callable[[Any], T]) -> None:
        self.dataset = dataset
        self.function = checked_function("map", function)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int, /) -> T:
        return self.function(self.dataset[position(index, len(self), self)])


class ChosenSamples(IndexedDataset[T], Generic[T]):
    """The samples of a dataset at some positions: what `Subset` and `FilterDataset` share.

    Attributes:
        dataset: where the samples are.
        indices: their positions there.
    """

    dataset: Dataset[T]
    indices: Indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int, /) -> T:
        return self.dataset[int(self.indices[position(index, len(self), self)])]

    @property
    def takes_copies(self) -> bool:
        """Whether nobody else holds the arrays of `take`."""
        return type(self).take is ChosenSamples.take and takes_copies(self.dataset)

    def take(self, indices: Indices) -> Any:
        """A batch of the samples at `indices`."""
        return take(self.dataset, self.indices[indices])


class Subset(ChosenSamples[T], Generic[T]):
    """Some of the samples of a dataset, in a given order.

    Args:
        dataset: where the samples are.
        indices: their positions there, negative ones counting from the end.

    Raises:
        SampleIndexError: an index is outside of the dataset.

    >>> from ingle.dataset import Subset
    >>> list(Subset("abcd", [2, 0]))
    ['c', 'a']
    """

    def __init__(self, dataset: Dataset[T], indices: Sequence[int] | NDArray[Any]) -> None:
        self.dataset = dataset
        self.indices = positions(indices, len(dataset), self)


class ConcatDataset(IndexedDataset[T], Generic[T]):
    """Datasets one after the other.

    >>> from ingle.dataset import ConcatDataset
    >>> list(ConcatDataset([1, 2], [3]))
    [1, 2, 3]
    """

    def __init__(self, *datasets: Dataset[T]) -> None:
        self.datasets = datasets
        self._ends = np.cumsum([len(d) for d in datasets], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, index: int, /) -> T:
        at = position(index, len(self), self)
        part = int(np.searchsorted(self._ends, at, side="right"))
        start = int(self._ends[part - 1]) if part else 0
        return self.datasets[part][at - start]


def split(
    dataset: Dataset[T], *sizes: float, seed: int = 0, labels: ArrayLike | None = None
) -> list[Subset[T]]:
    """Disjoint random subsets, the same for the same seed on every machine.

    Args:
        dataset: what to split.
        sizes: a number of samples each (int), or a share of the whole each (float). Shares that
            sum to 1 use every sample.
        seed: which of the random splits.
        labels: the class of each sample; the subsets then hold every class in the same share,
            as far as whole samples allow. Sizes must be shares.

    Raises:
        DataValueError: the sizes ask for more samples than there are, or mix counts and shares.

    >>> from ingle.dataset import split
    >>> train, valid = split(range(10), 0.8, 0.2)
    >>> len(train), len(valid), sorted([*train, *valid]) == list(range(10))
    (8, 2, True)
    """
    seed = as_seed(seed, "split")
    count = len(dataset)
    if labels is None:
        ends = _ends(count, sizes)
        order = shuffled(count, seed)
        return [Subset(dataset, order[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
    classes = np.asarray(labels)
    if classes.shape != (count,):
        raise DataValueError(
            f"split: labels must be one for each of the {count} samples, got shape {classes.shape}"
        )
    if not all(isinstance(s, float) for s in sizes):
        raise DataValueError(f"split: with labels, sizes must be shares such as 0.8, got {sizes}")
    parts: list[list[Indices]] = [[] for _ in sizes]
    for stream, label in enumerate(np.unique(classes)):
        members = np.flatnonzero(classes == label)
        members = members[shuffled(len(members), seed, stream)]
        ends = _ends(len(members), sizes)
        for part, a, b in zip(parts, [0, *ends], ends, strict=False):
            part.append(members[a:b])
    return [Subset(dataset, np.sort(np.concatenate(part))) for part in parts]


def _ends(count: int, sizes: tuple[float, ...]) -> list[int]:
    """Where each part ends in a row of `count` samples."""
    if not sizes:
        raise DataValueError("split: give at least one size")
    if not all(isinstance(s, Real) for s in sizes):
        raise DataValueError(
            f"split: sizes must be counts or shares, one by one, got {sizes!r:.80}; write "
            "split(dataset, 0.8, 0.2)"
        )
    if any(s < 0 or not math.isfinite(s) for s in sizes):
        raise DataValueError(f"split: sizes must not be negative or infinite, got {sizes}")
    kinds = {isinstance(s, float) for s in sizes}
    if len(kinds) > 1:
        raise DataValueError(f"split: sizes must be all counts or all shares, got {sizes}")
    total = math.fsum(sizes)
    whole = 1.0 if kinds == {True} else count
    if total > whole * (1 + 1e-9):
        raise DataValueError(
            f"split: the sizes {sizes} sum to {total:g}, but there are only "
            + ("shares of 1.0" if kinds == {True} else f"{count} samples")
        )
    cumulative = [math.fsum(sizes[: i + 1]) for i in range(len(sizes))]
    if kinds == {True}:
        return [min(count, round(c * count)) for c in cumulative]
    return [int(c) for c in cumulative]
