"""Rows of Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .base import IndexedDataset, Indices, position, positions
from .batching import collate
from .errors import DataFileError, MissingDataError, MissingExtraError
from .rows import Convert, RowMaker


class ParquetDataset(IndexedDataset[Any]):
    """The rows of a Parquet file, as dicts or as objects of a dataclass.

    Only the columns that are asked for are read, when the first row is. They are kept as Arrow
    keeps them, which is little more than the file; a batch is one access to each column.

    Args:
        path: of the file.
        row: a dataclass whose fields name the columns to read; dicts of all columns if not given.
        types: functions that convert the values of a column, by its name.

    Raises:
        MissingDataError: there is no such file.
        DataFileError: it is no Parquet file, it lacks a column, or a value is of another type than
            the field; the error names file, row and column.
        MissingExtraError: pyarrow is not installed.

    >>> from ingle.dataset import ParquetDataset
    >>> rows = ParquetDataset("train.parquet")  # doctest: +SKIP
    >>> rows[0]  # doctest: +SKIP
    {'text': 'a', 'label': 0}
    """

    def __init__(
        self, path: str | Path, row: type | None = None, *,
        types: Mapping[str, Convert] | None = None,
    ) -> None:  # fmt: skip
        self.path, self._row, self._types = Path(path), row, types
        self._table: Any = None
        arrow = _pyarrow()
        if not self.path.exists():
            raise MissingDataError(f"{self.path}: there is no such file")
        try:
            meta = arrow.parquet.read_metadata(self.path)
            names = meta.schema.to_arrow_schema().names
        except (arrow.ArrowException, OSError, ValueError) as error:
            raise DataFileError(
                f"{self.path}: it is not a Parquet file, or truncated: {error}"
            ) from None
        self._length = int(meta.num_rows)
        self._make = RowMaker(str(self.path), names, row, types, text=False)
        self._wanted = [n for n in names if row is None or n in self._make_fields(row)]
        # Values come in the order in which they are read.
        self._make = RowMaker(str(self.path), self._wanted, row, types, text=False)

    @staticmethod
    def _make_fields(row: type) -> set[str]:
        return set(getattr(row, "__dataclass_fields__", {}))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that are read."""
        return tuple(self._wanted)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int, /) -> Any:
        return self._rows(np.asarray([position(index, len(self), self)]))[0]

    def take(self, indices: Indices) -> Any:
        """A batch of rows."""
        return collate(self._rows(positions(indices, len(self), self)))

    def _rows(self, indices: Indices) -> list[Any]:
        arrow = _pyarrow()
        if self._table is None:
            try:
                self._table = arrow.parquet.read_table(self.path, columns=self._wanted)
            except (arrow.ArrowException, OSError) as error:
                raise DataFileError(f"{self.path}: it cannot be read: {error}") from None
        try:
            parts = self._table.take(indices).to_pydict()
        except (arrow.ArrowException, ValueError, OverflowError) as error:
            # Texts that are none and days of no calendar show when Python's objects are made.
            raise DataFileError(
                f"{self.path}: rows {indices.tolist()!s:.60}: a value cannot be read: {error}; the "
                "file is damaged, or holds what Python has no object for: leave the column out of "
                "the dataclass"
            ) from None
        values = zip(*(parts[name] for name in self._wanted), strict=True)
        return [
            self._make(found, f"row {index}")
            for index, found in zip(indices.tolist(), values, strict=True)
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_table": None}

    def __repr__(self) -> str:
        return f"ParquetDataset({str(self.path)!r}, {len(self)} rows of {', '.join(self.columns)})"


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(
            "ParquetDataset needs pyarrow: pip install 'ingle-dataset[parquet]'"
        ) from error
    return pyarrow
