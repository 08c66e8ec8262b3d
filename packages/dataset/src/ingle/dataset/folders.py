"""Finding files in folders: those of classes, and those that belong together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .errors import DataFileError, DataValueError, MissingDataError


def labelled_files(
    folder: Path, suffixes: Sequence[str], classes: Sequence[str] | None
) -> tuple[list[Path], NDArray[np.int64], tuple[str, ...]]:
    """The files below each class's folder, in the order of their names, with labels and classes.

    Files that stand beside the folders of classes are passed over, and so is what begins with a
    dot. Without `classes`, each folder is a class, in the order of names.
    """
    found = sorted(f.name for f in inside(folder) if f.is_dir())
    if classes is None:
        classes = found
    elif isinstance(classes, str):
        raise DataValueError(f"{folder}: classes must be a list of names, got {classes!r}")
    if not classes:
        raise DataFileError(
            f"{folder}: there are no folders of classes; expected {folder.name}/CLASS/FILE with "
            "one folder for each class"
        )
    paths: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        if name not in found:
            raise MissingDataError(
                f"{folder}: there is no folder for the class {name!r}, only "
                f"{', '.join(map(repr, found)) or 'none'}"
            )
        files = files_below(folder / name, suffixes)
        if not files:
            raise DataFileError(
                f"{folder / name}: the class {name!r} has no files that end in "
                f"{', '.join(suffixes)}; put some there, or leave the class out of classes="
            )
        paths += files
        labels += [label] * len(files)
    return paths, np.array(labels, dtype=np.int64), tuple(classes)


def files_below(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """The files of a folder and those below it that end in one of `suffixes`, sorted."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".")]  # `os.walk` goes into these
        found += [Path(place, name) for name in names if not name.startswith(".")]
    return sorted(path for path in found if path.suffix.lower() in suffixes)


def inside(folder: Path) -> Iterator[Path]:
    """What lies in a folder and does not begin with a dot."""
    if not folder.is_dir():
        what = "it is no folder" if folder.exists() else "there is no such folder"
        raise MissingDataError(f"{folder}: {what}")
    return (f for f in folder.iterdir() if not f.name.startswith("."))
