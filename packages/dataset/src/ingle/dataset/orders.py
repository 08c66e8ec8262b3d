"""Which samples make which batch of an epoch: shuffled, drawn, by length, shared out."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .base import Indices
from .errors import DataValueError
from .ordering import shuffled, uniforms
from .sampling import drawn

_SORTED_TOGETHER = 100
"""Batches among which samples are sorted by length when they are shuffled: enough that a batch has
nearly one length, and few enough that a batch is another one in each epoch."""


@dataclass(frozen=True)
class BatchOrder:
    """The batches of each epoch of one rank, as positions in the dataset.

    Every rank of one `world_size` has the same number of batches, since ranks wait for each other.
    What does not share out evenly is filled up from the start of the epoch's order, or left out
    with `drop_last`.

    Attributes:
        samples: how many the dataset has.
        lengths: of the samples, where batches shall have samples of like length.
        weights: of the samples, where an epoch is drawn with replacement.
    """

    samples: int
    batch_size: int
    shuffle: bool
    seed: int
    drop_last: bool
    rank: int = 0
    world_size: int = 1
    lengths: NDArray[np.int64] | None = None
    weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if self.rank >= self.world_size:
            raise DataValueError(
                f"Loader: rank {self.rank} is out of range: {self.world_size} processes have ranks "
                f"0 to {self.world_size - 1}"
            )
        if self.weights is not None and self.shuffle:
            raise DataValueError(
                "Loader: samples are drawn at random by their weights already; leave shuffle out"
            )

    def __len__(self) -> int:
        if self.lengths is not None:
            return self._share(self._parts(self.samples, self.batch_size, self.drop_last))
        return self._parts(self._share(self.samples), self.batch_size, self.drop_last)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Indices]:
        """The batches of an epoch in their order, from number `start` on."""
        order = self._samples_of(epoch)
        if self.lengths is not None:
            every = self._of_like_length(order, epoch)
            for i in self._shared(np.arange(len(every)))[start:].tolist():
                yield every[i]
        else:
            order = self._shared(order)
            for i in range(start, len(self)):
                yield order[i * self.batch_size : (i + 1) * self.batch_size]

    def _samples_of(self, epoch: int) -> Indices:
        if self.weights is not None:
            return drawn(self.weights, self.samples, self.samples, self.seed, epoch)
        if self.shuffle:
            return shuffled(self.samples, self.seed, epoch)
        return np.arange(self.samples)

    def _of_like_length(self, order: Indices, epoch: int) -> list[Indices]:
        assert self.lengths is not None
        mixed = self.shuffle or self.weights is not None
        together = self.batch_size * _SORTED_TOGETHER if mixed else max(1, len(order))
        made: list[Indices] = []
        for start in range(0, len(order), together):
            part = order[start : start + together]
            part = part[np.argsort(self.lengths[part], kind="stable")]
            made += [part[i : i + self.batch_size] for i in range(0, len(part), self.batch_size)]
        if self.drop_last and made and len(made[-1]) < self.batch_size:
            made.pop()
        if not mixed:
            return made
        mixture = np.argsort(uniforms(len(made), self.seed, epoch, 1), kind="stable")
        return [made[i] for i in mixture.tolist()]

    def _share(self, count: int) -> int:
        """How many of `count` things each rank has."""
        return self._parts(count, self.world_size, self.drop_last)

    def _shared(self, things: Indices) -> Indices:
        """The things of this rank."""
        whole: Indices = np.resize(things, self._share(len(things)) * self.world_size)
        return whole[self.rank :: self.world_size]

    @staticmethod
    def _parts(count: int, size: int, whole: bool) -> int:
        return count // size if whole else -(-count // size)

    def settings(self) -> dict[str, Any]:
        """What the order depends on, as plain values; what is not used is left out."""
        found: dict[str, Any] = {
            "seed": self.seed,
            "shuffle": self.shuffle,
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "samples": self.samples,
        }
        if self.world_size > 1:
            found |= {"rank": self.rank, "world_size": self.world_size}
        if self.lengths is not None:
            found["lengths"] = zlib.crc32(self.lengths.astype("<i8").tobytes())
        if self.weights is not None:
            found["weights"] = zlib.crc32(self.weights.astype("<f8").tobytes())
        return found


SOMETIMES = ("rank", "world_size", "lengths", "weights")
"""Settings that a state has only where they are used."""


def checked_lengths(lengths: ArrayLike, samples: int) -> NDArray[np.int64]:
    """Lengths as int64 of shape (samples,), none negative."""
    found: NDArray[Any] = np.asarray(lengths)
    if found.shape != (samples,) or (found.size and found.dtype.kind not in "iu"):
        raise DataValueError(
            f"Loader: lengths must be one integer for each of the {samples} samples, got "
            f"{found.dtype} of shape {found.shape}; such as [len(text) for text in dataset]"
        )
    wrong = np.flatnonzero(found < 0)
    if wrong.size:
        raise DataValueError(
            f"Loader: lengths must not be negative, got {found[wrong[0]]} for sample {wrong[0]}"
        )
    return found.astype(np.int64)
