"""From samples to batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .base import Dataset, Indices
from .errors import DataValueError, SampleError


def collate(samples: Sequence[Any]) -> Any:
    """Samples as one batch: arrays and numbers are stacked, tuples and dicts go part by part.

    Args:
        samples: at least one; all of one structure, and arrays of one shape.

    Raises:
        DataValueError: the samples do not fit each other.

    >>> from ingle.dataset import collate
    >>> images, labels = collate([([1.0, 2.0], 0), ([3.0, 4.0], 1)])
    >>> images.shape, labels.tolist()
    ((2, 2), [0, 1])
    """
    return _collate(samples, "the sample")


def _collate(samples: Sequence[Any], where: str) -> Any:
    first = samples[0]
    if isinstance(first, Mapping):
        _same_parts(samples, [set(s) if isinstance(s, Mapping) else None for s in samples], where)
        return {k: _collate([s[k] for s in samples], f"{where}[{k!r}]") for k in first}
    if isinstance(first, tuple):
        _same_parts(samples, [len(s) if isinstance(s, tuple) else None for s in samples], where)
        parts = zip(*samples, strict=True)
        return tuple(_collate(part, f"{where}[{i}]") for i, part in enumerate(parts))
    if isinstance(first, str | bytes):
        return list(samples)
    return _stack([np.asarray(s) for s in samples], where)


def _same_parts(samples: Sequence[Any], parts: list[Any], where: str) -> None:
    for i, part in enumerate(parts):
        if part != parts[0]:
            raise DataValueError(
                f"collate: {where} number {i} of the batch is {samples[i]!r:.80}, and number 0 is "
                f"{samples[0]!r:.80}; samples of a batch must have the same parts"
            )


def _stack(arrays: list[Any], where: str) -> Any:
    for i, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise DataValueError(
                f"collate: {where} number {i} of the batch has shape {array.shape}, and number 0 "
                f"has {arrays[0].shape}; resize or pad samples to one shape, or give the loader a "
                "collate function of your own"
            )
    stacked = np.stack(arrays)
    if stacked.dtype.kind == "O":
        raise DataValueError(
            f"collate: {where} is a {type(arrays[0].item()).__name__}, which no array holds; "
            "return arrays, numbers, tuples or dicts, or give the loader a collate function"
        )
    return stacked


def sample_at(dataset: Dataset[Any], index: int) -> Any:
    """`dataset[index]`; what it raises becomes a `SampleError` that says which sample it was."""
    try:
        return dataset[index]
    except SampleError:
        raise
    except Exception as error:
        raise SampleError(
            f"sample {index} of {type(dataset).__name__} could not be made: "
            f"{type(error).__name__}: {error}",
            index,
        ) from error


def take(dataset: Dataset[Any], indices: Indices) -> Any:
    """A batch of the samples at `indices`: in one go where the dataset can, else one by one."""
    whole = getattr(dataset, "take", None)
    if whole is not None:
        return whole(indices)
    return collate([sample_at(dataset, int(i)) for i in indices])
