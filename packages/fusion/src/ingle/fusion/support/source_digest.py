"""A digest of the sources in a folder, which changes whenever one of them does.

Reading some hundred files takes longer than most plans take to be found, so that what came of it is
kept on disk by the files' names, sizes, times and numbers. The time at which a file's entry changed
(`ctime`) is set by the system alone: what has the same one was not touched. A folder that changed
just now is read, since a later change might have the same time; so is one on Windows, where there
is no such time.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

from .disk_store import DiskStore, disk

_DIGEST = 20
_WRITTEN = re.compile(rb"[0-9a-f]{%d}" % (2 * _DIGEST))
_SETTLED = 2_000_000_000
"""Nanoseconds after which a change has another time than the one before it, on any file system."""


def folder_digest(folder: str | Path, store: DiskStore | None = None) -> str:
    """A digest of the Python sources in a folder.

    Args:
        folder: looked through with its subfolders.
        store: where digests are kept; that of this process by default.

    Raises:
        OSError: there are none, or they cannot be read.
    """
    top = os.fspath(folder)
    places, stamps, newest = _files(top)
    if not places:
        raise OSError(f"there are no sources in {folder}")
    if os.name == "nt" or time.time_ns() - newest < _SETTLED:
        return _digest_of(top, places)
    store = disk() if store is None else store
    text = "\n".join([os.path.realpath(top), *stamps])
    name = f"sources-{hashlib.blake2b(text.encode(), digest_size=_DIGEST).hexdigest()}"
    known = store.get(name)
    if known is not None and _WRITTEN.fullmatch(known):
        return known.decode()
    found = _digest_of(top, places)
    store.put(name, found.encode())
    return found


def _digest_of(top: str, places: Sequence[str]) -> str:
    found = hashlib.blake2b(digest_size=_DIGEST)
    for place in places:
        with open(place, "rb") as file:
            content = file.read()
        found.update(f"{place[len(top) :].lstrip(os.sep)}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()


def _files(top: str) -> tuple[list[str], list[str], int]:
    """The sources in order, what tells whether each was touched, and when the last one was."""
    found: list[tuple[str, str]] = []
    newest = 0
    folders = [top]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    newest = max(newest, status.st_ctime_ns, status.st_mtime_ns)
                    stamp = status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
                    found.append((entry.path, f"{entry.path}\0{stamp}"))
                elif entry.name != "__pycache__" and entry.is_dir():
                    folders.append(entry.path)
    found.sort()
    return [place for place, _ in found], [stamp for _, stamp in found], newest
