"""Rows of CSV files."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from .errors import DataFileError, DataValueError, MissingDataError
from .memory import MemoryDataset
from .rows import Convert, RowMaker


class CsvDataset(MemoryDataset[Any]):
    """The rows of a CSV file, as dicts of text or as objects of a dataclass.

    The whole file is read and checked at once, so that a bad row is found before training. Quoted
    fields may hold delimiters and line breaks (RFC 4180); empty lines are passed over.

    Args:
        path: of the file; one that ends in `.gz` is unpacked on the way.
        row: a dataclass whose fields name the columns to read, of the types `str`, `int`, `float`,
            `bool`, `Literal`, or one of these `| None`, for which an empty field is None. Dicts of
            all columns if not given.
        types: functions that convert the text of a column, by its name; they go before the types
            of the fields.
        columns: the names of the columns, where the file's first line does not hold them.
        delimiter: what stands between fields.
        encoding: of the text. A byte order mark is passed over.

    Raises:
        MissingDataError: there is no such file.
        DataFileError: a row has too few or too many fields or a value of another type, a column is
            missing, quotes are not closed, or the text is of another encoding. It names the file,
            the line, the row and the column.
        DataValueError: `row` is no dataclass, or has a field of a type that is not known here.

    >>> import dataclasses, pathlib, tempfile
    >>> from ingle.dataset import CsvDataset
    >>> @dataclasses.dataclass
    ... class Person:
    ...     name: str
    ...     age: int | None
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("age,name,city\\n41,Ada,London\\n,Bo,Ulm\\n")
    ...     people = CsvDataset(path, Person)
    ...     rows = CsvDataset(path, types={"age": len})
    >>> people[0], people[1].age
    (Person(name='Ada', age=41), None)
    >>> rows[1]
    {'age': 0, 'name': 'Bo', 'city': 'Ulm'}
    """

    def __init__(
        self,
        path: str | Path,
        row: type | None = None,
        *,
        types: Mapping[str, Convert] | None = None,
        columns: Sequence[str] | None = None,
        delimiter: str = ",",
        encoding: str = "utf-8-sig",
    ) -> None:
        if not isinstance(delimiter, str) or len(delimiter) != 1:
            raise DataValueError(f"CsvDataset: delimiter must be one character, got {delimiter!r}")
        self.path = Path(path)
        lines = _lines(self.path, delimiter, encoding)
        if columns is None:
            _, first = next(lines, (0, None))
            if first is None:
                raise DataFileError(
                    f"{self.path}: the file is empty; expected a line with the columns' names"
                )
            columns = first
        make = RowMaker(str(self.path), columns, row, types, text=True)
        self.columns = make.columns
        made: list[Any] = []
        for line, values in lines:
            where = f"line {line}, row {len(made)}"
            if len(values) != len(columns):
                raise DataFileError(
                    f"{self.path}: {where}: {len(values)} fields, expected {len(columns)} "
                    f"({', '.join(columns)}), got {delimiter.join(values)!r:.80}; correct the "
                    "row, or give the delimiter"
                )
            made.append(make(values, where))
        super().__init__(made)

    def __repr__(self) -> str:
        return f"CsvDataset({str(self.path)!r}, {len(self)} rows of {', '.join(self.columns)})"


def _lines(path: Path, delimiter: str, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line that has any, with the number of the line."""
    line = 0
    try:
        with _open(path, encoding) as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            for values in reader:
                line = reader.line_num
                if values:
                    yield line, values
    except FileNotFoundError:
        raise MissingDataError(f"{path}: there is no such file") from None
    except csv.Error as error:
        raise DataFileError(
            f"{path}: behind line {line}: {error}; look for a quote that is not closed or not "
            f"doubled, or a field of more than {csv.field_size_limit()} characters, for which "
            "csv.field_size_limit(n) raises the limit"
        ) from None
    except UnicodeDecodeError as error:
        found = error.object[error.start : error.start + 4].hex(" ")
        raise DataFileError(
            f"{path}: behind line {line}: the bytes {found} are not {error.encoding}; pass the "
            "file's encoding, such as encoding='latin-1'"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataFileError(
            f"{path}: behind line {line}: the gzip data is truncated or corrupt ({error}); copy "
            "or download the file again"
        ) from None
    except OSError as error:
        raise DataFileError(f"{path}: it cannot be read: {error.strerror or error}") from error


def _open(path: Path, encoding: str) -> IO[str]:
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding=encoding, newline="")
        return path.open(encoding=encoding, newline="")
    except LookupError:
        raise DataValueError(f"CsvDataset: Python knows no encoding {encoding!r}") from None
