"""What a loader is given in place of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .base import Dataset, IterableDataset
from .batching import is_array
from .errors import DataValueError


def check_dataset(given: object, *, loads: bool) -> None:
    """Raises an error that says what to write for what a loader cannot go through.

    Args:
        given: what was given as the dataset.
        loads: whether it is a loader itself.

    Raises:
        DataValueError: a text, a mapping, a tuple of arrays, a loader, an array without axes.
        TypeError: something without samples.
    """
    told = _mistaken(given, loads)
    if told is not None:
        raise DataValueError(f"Loader: the dataset is a {told}")
    if not isinstance(given, (Dataset, IterableDataset)):
        raise TypeError(
            f"Loader: a dataset has __len__ and __getitem__, or __iter__; "
            f"{type(given).__name__} has neither"
        )


def _mistaken(given: Any, loads: bool) -> str | None:
    """What was given and what to write, or None for what may be a dataset."""
    name = type(given).__name__
    if isinstance(given, (str, bytes)):
        return f"text, {given!r:.80}. Datasets of files: ImageFolder(folder), CsvDataset(path)"
    if isinstance(given, Mapping):
        return f"{name}, whose samples would be its keys. Write ArrayDataset(...) of it"
    if loads or hasattr(given, "batch_sampler"):  # as PyTorch's loader has
        return f"{name}, which gives batches already. Go through it as it is"
    if is_array(given) and not given.shape:
        return f"single value, {name}; the first axis of an array counts its samples"
    if isinstance(given, tuple) and given and all(is_array(p) and p.shape for p in given):
        return (
            f"tuple of {len(given)} arrays, which would be {len(given)} samples. Write "
            "ArrayDataset(x, y), whose samples are pairs of their rows; a list of arrays is a "
            "dataset of them"
        )
    return None
