"""Samples that lie in memory as Python objects: rows, paths, texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from .base import IndexedDataset, position

T = TypeVar("T")


class MemoryDataset(IndexedDataset[T], Generic[T]):
    """Samples of any kind in a list, with the methods of a dataset.

    Args:
        samples: a sequence, which is kept as it is, or any other iterable, which is read to its
            end.

    >>> from ingle.dataset import MemoryDataset
    >>> words = MemoryDataset(["one", "three", "five"])
    >>> list(words.filter(lambda word: len(word) > 3).map(str.upper))
    ['THREE', 'FIVE']
    """

    def __init__(self, samples: Iterable[T]) -> None:
        self.samples: Sequence[T] = samples if isinstance(samples, Sequence) else list(samples)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int, /) -> T:
        return self.samples[position(index, len(self), self)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples)"
