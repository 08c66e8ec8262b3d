"""Rows of tables in SQLite files."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .base import IndexedDataset, Indices, position, positions
from .batching import collate
from .errors import DataFileError, DataValueError, MissingDataError
from .rows import Convert, RowMaker

_AT_ONCE = 500
"""Rows asked for in one query; SQLite allows 999 variables at least."""


class SqliteDataset(IndexedDataset[Any]):
    """The rows of a table in an SQLite file, in the order of their row ids, read when asked for.

    Memory holds one number a row. Each access opens the file for reading, so that threads and
    forked processes may share the dataset.

    Args:
        path: of the file.
        table: its name.
        row: a dataclass whose fields name the columns to read, of the types `str`, `bytes`, `int`,
            `float`, `bool`, `Literal`, or one of these `| None`. Dicts of all columns if not given.
        types: functions that convert the values of a column, by its name, such as
            `{"image": np.frombuffer}`; they go before the types of the fields.

    Raises:
        MissingDataError: there is no such file.
        DataFileError: the file is no database, has no such table or column, or a row has a value
            of another type. It names the file, the table, the row and the column.
        DataValueError: `row` is no dataclass, or has a field of a type that is not known here.

    >>> import pathlib, tempfile
    >>> from ingle.dataset import SqliteDataset, write_sqlite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data.db")
    ...     write_sqlite(path, "points", [{"x": 1.5, "name": "a"}, {"x": 2.5, "name": "b"}])
    ...     points = SqliteDataset(path, "points")
    ...     points[1], points.take([1, 0])["x"].tolist()
    ({'x': 2.5, 'name': 'b'}, [2.5, 1.5])
    """

    def __init__(
        self,
        path: str | Path,
        table: str,
        row: type | None = None,
        *,
        types: Mapping[str, Convert] | None = None,
    ) -> None:
        self.path = Path(path)
        self.table = table
        with self._opened() as connection:
            kinds = dict(connection.execute("SELECT name, type FROM sqlite_master"))
            tables = sorted(name for name, kind in kinds.items() if kind in ("table", "view"))
            if table not in tables:
                have = ", ".join(map(repr, tables)) or "no table at all"
                raise DataFileError(f"{self.path}: there is no table {table!r}, only {have}")
            try:
                ids = connection.execute(f"SELECT rowid FROM {_quoted(table)} ORDER BY rowid")
                self._ids = np.array([i for (i,) in ids], dtype=np.int64)
            except (sqlite3.OperationalError, TypeError):
                copy = f"CREATE TABLE rows AS SELECT * FROM {_quoted(table)}"
                raise DataFileError(
                    f"{self.path}: {table!r} is a view or a table without row ids, whose rows have "
                    f"no place; make a table of it: {copy}"
                ) from None
            cursor = connection.execute(f"SELECT * FROM {_quoted(table)} LIMIT 0")
            columns = [c[0] for c in cursor.description]
        self._make = RowMaker(f"{self.path}, table {table!r}", columns, row, types, text=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the table's columns."""
        return self._make.columns

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int, /) -> Any:
        return self._rows(np.array([position(index, len(self), self)]))[0]

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self._rows(np.arange(start, min(start + _AT_ONCE, len(self))))

    def take(self, indices: Indices | Sequence[int]) -> Any:
        """A batch of the rows at `indices`, with one query for some hundreds of them."""
        return collate(self._rows(positions(indices, len(self), self)))

    def _rows(self, indices: Indices) -> list[Any]:
        ids = self._ids[indices]
        found: dict[int, tuple[Any, ...]] = {}
        with self._opened() as connection:
            for start in range(0, len(ids), _AT_ONCE):
                part = ids[start : start + _AT_ONCE].tolist()
                marks = ",".join("?" * len(part))
                table = _quoted(self.table)
                query = f"SELECT rowid, * FROM {table} WHERE rowid IN ({marks})"
                found.update((values[0], values[1:]) for values in connection.execute(query, part))
        made = []
        for index, identity in zip(indices.tolist(), ids.tolist(), strict=True):
            where = f"row {index} (row id {identity})"
            if identity not in found:
                raise DataFileError(
                    f"{self.path}, table {self.table!r}: {where} is gone since the dataset was "
                    "made; make it anew"
                )
            made.append(self._make(found[identity], where))
        return made

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if not self.path.exists():
            raise MissingDataError(f"{self.path}: there is no such file")
        try:
            address = f"{self.path.resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True)) as connection:
                yield connection
        except sqlite3.Error as error:
            raise DataFileError(f"{self.path}: SQLite cannot read it: {error}") from error

    def __repr__(self) -> str:
        return (
            f"SqliteDataset({str(self.path)!r}, {self.table!r}, {len(self)} rows of "
            f"{', '.join(self.columns)})"
        )


def write_sqlite(path: str | Path, table: str, rows: Iterable[Any]) -> None:
    """Writes rows into a new table of an SQLite file: all of them, or on an error none.

    Args:
        path: of the file, which is made if there is none.
        table: its name; there must be none of it yet.
        rows: dicts, or objects of a dataclass, all with the same columns. Values are numbers,
            texts, bytes or None. Any iterable will do, so a stream may be longer than memory.

    Raises:
        DataFileError: the file is no database, or has the table already.
        DataValueError: there are no rows, they differ in their columns, or SQLite cannot hold a
            value. It names the row.

    >>> import pathlib, tempfile
    >>> from ingle.dataset import SqliteDataset, write_sqlite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data.db")
    ...     write_sqlite(path, "squares", ({"x": i, "y": i * i} for i in range(4)))
    ...     len(SqliteDataset(path, "squares"))
    4
    """
    columns: tuple[str, ...] | None = None
    number = -1
    try:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("BEGIN")
            for number, given in enumerate(rows):
                row = _as_dict(given, number)
                if columns is None:
                    columns = tuple(row)
                    names = ", ".join(map(_quoted, columns))
                    connection.execute(f"CREATE TABLE {_quoted(table)} ({names})")
                    marks = ", ".join("?" * len(columns))
                    insert = f"INSERT INTO {_quoted(table)} VALUES ({marks})"
                if row.keys() != set(columns):
                    raise DataValueError(
                        f"write_sqlite: row {number} has the columns {', '.join(row)}, and row 0 "
                        f"has {', '.join(columns)}; all rows of a table have the same"
                    )
                connection.execute(insert, [_held(row[c]) for c in columns])
            if columns is None:
                raise DataValueError(f"write_sqlite: there are no rows for the table {table!r}")
    except (sqlite3.ProgrammingError, sqlite3.InterfaceError, OverflowError) as error:
        raise DataValueError(
            f"write_sqlite: row {number} has a value that SQLite cannot hold ({error}); write "
            "numbers, texts, bytes or None, arrays as array.tobytes()"
        ) from error
    except sqlite3.Error as error:
        raise DataFileError(f"{path}: SQLite cannot write the table {table!r}: {error}") from error


def _as_dict(row: Any, number: int) -> dict[str, Any]:
    if isinstance(row, Mapping) and row:
        return dict(row)
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {f.name: getattr(row, f.name) for f in dataclasses.fields(row)}
    raise DataValueError(
        f"write_sqlite: row {number} must be a dict with columns or an object of a dataclass, got "
        f"{row!r:.80}"
    )


def _held(value: Any) -> Any:
    """NumPy's numbers as Python's, which are what SQLite knows."""
    return value.item() if isinstance(value, np.generic) else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
