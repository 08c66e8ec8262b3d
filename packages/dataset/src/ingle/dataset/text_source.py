"""Texts in files: one folder for each class, or one sample a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .base import IndexedDataset, position
from .errors import DataFileError, DataValueError, MissingDataError
from .folders import labelled_files
from .memory import MemoryDataset


class TextFolder(IndexedDataset[tuple[str, np.int64]]):
    """Text files in one folder for each class, as pairs of a text and a label.

    `FOLDER/sport/1.txt` is of the class "sport". Files are found at once and read when asked for.
    Labels count the classes in the order of their names.

    Args:
        folder: with a folder for each class.
        classes: the names of the classes in the order of their labels; all that are there if not
            given.
        suffixes: endings of the files that are taken, in small letters.
        encoding: of the files.

    Raises:
        MissingDataError: the folder, or that of a class, is not there.
        DataFileError: there are no classes, or one has no texts; for a sample, that its file is
            of another encoding.

    >>> import pathlib, tempfile
    >>> from ingle.dataset import TextFolder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("sad", "happy"):
    ...         pathlib.Path(folder, name).mkdir()
    ...         _ = pathlib.Path(folder, name, "1.txt").write_text(f"I am {name}.")
    ...     texts = TextFolder(folder)
    ...     text, label = texts[1]
    >>> texts.classes, text, int(label)
    (('happy', 'sad'), 'I am sad.', 1)
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        classes: Sequence[str] | None = None,
        suffixes: Sequence[str] = (".txt",),
        encoding: str = "utf-8",
    ) -> None:
        self.folder = Path(folder)
        self.paths, self.labels, self.classes = labelled_files(self.folder, suffixes, classes)
        self.encoding = encoding

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int, /) -> tuple[str, np.int64]:
        at = position(index, len(self), self)
        return read_text(self.paths[at], self.encoding), self.labels[at]

    def __repr__(self) -> str:
        return f"TextFolder({str(self.folder)!r}, {len(self)} texts, {len(self.classes)} classes)"


class TextLines(MemoryDataset[str]):
    """The lines of a text file, without their ends and without empty ones.

    Args:
        path: of the file.
        encoding: of the file.

    Raises:
        MissingDataError: there is no such file.
        DataFileError: the file is of another encoding.

    >>> import pathlib, tempfile
    >>> from ingle.dataset import TextLines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "names.txt")
    ...     _ = path.write_text("Ada\\n\\nBo\\n")
    ...     list(TextLines(path))
    ['Ada', 'Bo']
    """

    def __init__(self, path: str | Path, *, encoding: str = "utf-8") -> None:
        # Not splitlines, for which a line also ends at a form feed and the like.
        lines = read_text(Path(path), encoding).split("\n")
        super().__init__([line for line in lines if line.strip()])


def read_text(path: Path, encoding: str) -> str:
    """A whole text file; ends of lines become `\\n`."""
    try:
        return path.read_text(encoding)
    except FileNotFoundError:
        raise MissingDataError(f"{path}: there is no such file") from None
    except UnicodeDecodeError as error:
        found = error.object[error.start : error.start + 4].hex(" ")
        raise DataFileError(
            f"{path}: the bytes {found} at {error.start} are not {error.encoding}; pass the file's "
            "encoding, such as encoding='latin-1'"
        ) from None
    except LookupError:
        raise DataValueError(f"{path}: Python knows no encoding {encoding!r}") from None
    except OSError as error:
        raise DataFileError(f"{path}: it cannot be read: {error.strerror or error}") from error
