"""From samples to batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from .base import Dataset, Indices, IterableDataset
from .errors import DataValueError, SampleError

Join = Callable[[list[Any], str], Any]
"""Makes one array of those of a part of the samples, which stands in the samples at the text."""


def collate(samples: Sequence[Any]) -> Any:
    """Samples as one batch: arrays and numbers are stacked, tuples and dicts go part by part.

    Objects of a dataclass go part by part as well, and make a dict by the names of their fields.

    Args:
        samples: at least one; all of one structure, and arrays of one shape.

    Raises:
        DataValueError: the samples do not fit each other.

    >>> from ingle.dataset import collate
    >>> images, labels = collate([([1.0, 2.0], 0), ([3.0, 4.0], 1)])
    >>> images.shape, labels.tolist()
    ((2, 2), [0, 1])
    """
    return collate_with(samples, stack)


def collate_with(samples: Sequence[Any], join: Join, where: str = "the sample") -> Any:
    """Goes through the parts of samples and joins the arrays of each part."""
    first = samples[0]
    if is_dataclass(first) and not isinstance(first, type):
        _same_parts(samples, [type(s) for s in samples], where)
        return {
            f.name: collate_with([getattr(s, f.name) for s in samples], join, f"{where}.{f.name}")
            for f in fields(first)
        }
    if isinstance(first, Mapping):
        _same_parts(samples, [set(s) if isinstance(s, Mapping) else None for s in samples], where)
        return {k: collate_with([s[k] for s in samples], join, f"{where}[{k!r}]") for k in first}
    if isinstance(first, tuple):
        _same_parts(samples, [len(s) if isinstance(s, tuple) else None for s in samples], where)
        parts = zip(*samples, strict=True)
        return tuple(collate_with(part, join, f"{where}[{i}]") for i, part in enumerate(parts))
    if isinstance(first, str | bytes):
        _same_parts(samples, [isinstance(s, str | bytes) for s in samples], where)
        return list(samples)
    return join([_array(s, i, where) for i, s in enumerate(samples)], where)


def _array(sample: Any, number: int, where: str) -> Any:
    """A sample, or a part of one, as an array of numbers."""
    try:
        array = np.asarray(sample)
    except ValueError:
        raise DataValueError(
            f"collate: {where} number {number} of the batch is {sample!r:.80}, a list whose parts "
            "differ in length; pad them to one, or give the loader a collate function"
        ) from None
    if array.dtype.kind == "O":
        raise DataValueError(
            f"collate: {where} number {number} of the batch is {_named(sample)}, which no array "
            "holds; return arrays, numbers, tuples or dicts, or give the loader a collate function"
        )
    return array


def _named(sample: Any) -> str:
    if sample is None:
        return "None"
    return f"{sample!r:.80}, of type {type(sample).__name__}"


def _same_parts(samples: Sequence[Any], parts: list[Any], where: str) -> None:
    for i, part in enumerate(parts):
        if part != parts[0]:
            raise DataValueError(
                f"collate: {where} number {i} of the batch is {samples[i]!r:.80}, and number 0 is "
                f"{samples[0]!r:.80}; samples of a batch must have the same parts"
            )


def stack(arrays: list[Any], where: str) -> Any:
    """Arrays of one shape as one; errors say `where` in the samples they were."""
    for i, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise DataValueError(
                f"collate: {where} number {i} of the batch has shape {array.shape}, and number 0 "
                f"has {arrays[0].shape}; resize or pad samples to one shape, or give the loader a "
                "collate function of your own"
            )
    dtypes = {array.dtype for array in arrays}
    try:
        common = np.result_type(*dtypes)
        # NumPy makes texts of numbers that stand beside one.
        if common.kind not in "US" or all(dtype.kind in "US" for dtype in dtypes):
            return np.stack(arrays)
    except TypeError:  # such as dates beside numbers
        pass
    raise DataValueError(
        f"collate: {where} has the dtypes {', '.join(sorted(map(str, dtypes)))} in one batch, "
        "which no array holds together; convert them to one"
    )


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


def take(dataset: Any, indices: Indices) -> Any:
    """A batch of the samples at `indices`: in one go where the dataset can, else one by one."""
    if isinstance(dataset, np.ndarray):
        return dataset[indices]
    if hasattr(dataset, "__getitems__"):  # PyTorch's way to ask for many, as `datasets` has it
        return collate(dataset.__getitems__(indices.tolist()))
    if _takes(dataset):
        return dataset.take(indices)
    return collate([sample_at(dataset, int(i)) for i in indices])


def takes_copies(dataset: object) -> bool:
    """Whether nobody else holds the arrays of batches that the dataset makes."""
    return not _takes(dataset) or getattr(dataset, "takes_copies", False) is True


def is_array(given: object) -> bool:
    """Whether something is an array of whatever library: its samples are its rows.

    Its `take`, if it has one, is not that of a dataset: NumPy's lays the array flat.
    """
    return hasattr(given, "__array__") and hasattr(given, "shape")


def _takes(dataset: Any) -> bool:
    """Whether a dataset makes whole batches; what arrays call so is something else."""
    many = hasattr(dataset, "__getitems__")
    return hasattr(dataset, "take") and not many and not is_array(dataset)


def numbered(dataset: IterableDataset[Any]) -> Iterator[Any]:
    """The samples of a stream; an error becomes a `SampleError` that says which it was."""
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
