"""Datasets of the package `datasets`, and others whose samples are dicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .base import IndexedDataset, Indices, position, positions
from .batching import collate, sample_at
from .errors import DataValueError

Form = Callable[[Any, str], Any]
"""What becomes of the value of a column with a name."""


def _itself(value: Any, name: str) -> Any:
    return value


class HuggingFaceDataset(IndexedDataset[Any]):
    """A table of Hugging Face's `datasets`, with the methods of a dataset.

    The package is not needed: anything with a length, whose samples are dicts, will do. What also
    has `column_names` is asked for a whole batch at once, as `dataset[[3, 1, 2]]`, which gives
    the values by column.

    Args:
        dataset: one split, such as `datasets.load_dataset("ag_news", split="train")`.
        columns: names of columns; samples are then tuples of their values in that order. Dicts of
            all columns if not given.

    Raises:
        DataValueError: the dataset is a stream or a dict of splits, or lacks a column.

    >>> from ingle.dataset import HuggingFaceDataset, Loader
    >>> table = [{"text": "good", "label": 1, "id": 7}, {"text": "bad", "label": 0, "id": 8}]
    >>> data = HuggingFaceDataset(table, ["text", "label"])
    >>> data[0]
    ('good', 1)
    >>> next(iter(Loader(data, 2, tensors=False)))
    (['good', 'bad'], array([1, 0]))
    """

    def __init__(self, dataset: Any, columns: Sequence[str] | None = None) -> None:
        kind = type(dataset).__name__
        if isinstance(dataset, Mapping):
            raise DataValueError(
                f"HuggingFaceDataset: {kind} holds the splits {', '.join(map(repr, dataset))}; "
                f"give one of them, as dataset[{next(iter(dataset), 'train')!r}]"
            )
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise DataValueError(
                f"HuggingFaceDataset: {kind} has no length, or no samples by index; give a stream "
                "to the Loader as it is"
            )
        self.dataset = dataset
        self.columns = None if columns is None else tuple(columns)
        names = getattr(dataset, "column_names", None)
        self._batches = names is not None
        if names is None and len(dataset):
            names = self._row(0)
        if names is not None:
            self._require_columns(names)

    def _require_columns(self, names: Sequence[str] | Mapping[str, Any]) -> None:
        for name in self.columns or ():
            if name not in names:
                raise DataValueError(
                    f"HuggingFaceDataset: there is no column {name!r}, only "
                    f"{', '.join(map(repr, names))}"
                )

    def _row(self, index: int) -> Mapping[str, Any]:
        row = self.dataset[index]
        if not isinstance(row, Mapping):
            raise DataValueError(
                f"HuggingFaceDataset: sample {index} of {type(self.dataset).__name__} is "
                f"{row!r:.80}, and should be a dict of columns; a Loader takes other samples as "
                "they are"
            )
        return row

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int, /) -> Any:
        return self._chosen(self._row(position(index, len(self), self)))

    def take(self, indices: Indices | Sequence[int]) -> Any:
        """A batch of the samples at `indices`, as one access where the dataset has columns."""
        found = positions(indices, len(self), self)
        if not self._batches:
            return collate([sample_at(self, int(i)) for i in found])
        return self._chosen(self.dataset[found.tolist()], _joined)

    def _chosen(self, row: Mapping[str, Any], form: Form = _itself) -> Any:
        if self.columns is None:
            return {name: form(value, name) for name, value in row.items()}
        self._require_columns(row)
        return tuple(form(row[name], name) for name in self.columns)

    def __repr__(self) -> str:
        what = "" if self.columns is None else f", columns {', '.join(self.columns)}"
        return f"HuggingFaceDataset({len(self)} samples{what})"


def _joined(values: Any, name: str) -> Any:
    """The values of a column as an array, a list of texts, or dicts and tuples of these."""
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return values
    return collate([{name: value} for value in values])[name]
