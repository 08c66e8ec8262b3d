"""Files that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ingle.tensor.errors import OperandError
from ingle.tensor.file_errors import FileWriteError as FileWriteError
from ingle.tensor.file_errors import writing as writing

_OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG}
"""Reasons that are about the file being written, whoever writes to it."""


def require_writable(folder: str | os.PathLike[str]) -> None:
    """Refuses a folder in which no file could be written, before hours are spent on its content.

    Raises:
        FileWriteError: it is on a read-only disk, another user's, or below a file.

    >>> import tempfile
    >>> from ingle import nn
    >>> nn.require_writable(tempfile.mkdtemp())
    """
    place = Path(folder).absolute()
    with writing(place):
        while not place.exists():
            place = place.parent
        if not place.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if hasattr(os, "statvfs") and os.statvfs(place).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def as_path(name: str, path: object, what: str) -> Path:
    """A path from what the user of a function gave, who may have exchanged its arguments.

    Raises:
        OperandError: it is neither text nor a path.
    """
    if not isinstance(path, str | os.PathLike):
        raise OperandError(f"{name}: {what} must be text or a path, got {type(path).__name__}")
    return Path(path)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Opens a binary file that takes the place of `path` when the block ends without an exception.

    It is written beside `path`, flushed to the disk and renamed over it, so that at any moment, and
    after a crash at any moment, `path` holds the old bytes or the new ones. Folders are made. What
    killed processes of this machine have left beside it is removed.

    Raises:
        OperandError: `path` is neither text nor a path.
        FileWriteError: the disk is full or read-only, or the folder cannot be written to.

    >>> import pathlib, tempfile
    >>> from ingle.nn import atomic_write
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "new" / "notes.txt"
    >>> with atomic_write(target) as file:
    ...     _ = file.write(b"whole")
    >>> target.read_text()
    'whole'
    """
    target = as_path("atomic_write", path, "the path of the file to write")
    part = target.with_name(f"{_lead(target)}{os.getpid()}.{os.urandom(4).hex()}.part")
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear(target)
        file = open(part, "xb")  # noqa: SIM115 (what goes wrong later is not all about this file)
    try:
        with file:
            yield file
            with writing(target):
                file.flush()
                os.fsync(file.fileno())
        with writing(target):
            os.replace(part, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(part)
        if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
            with writing(target):
                raise
        raise
    with writing(target):
        _sync_folder(target.parent)


def _lead(target: Path) -> str:
    """How names of parts begin on this machine: another's processes cannot be asked for."""
    machine = re.sub(r"\W", "_", platform.node())
    return f".{target.name}.{machine}."


def _clear(target: Path) -> None:
    """Removes what processes that were killed while they wrote this file have left."""
    lead = _lead(target)
    for part in target.parent.glob(f"{glob.escape(lead)}*.part"):
        process = part.name.removeprefix(lead).partition(".")[0]
        if process.isdigit() and not _alive(int(process)):
            with contextlib.suppress(FileNotFoundError):
                part.unlink()


def _alive(process: int) -> bool:
    if os.name == "nt":
        return True  # there, signal 0 would end the process
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is another user's
    return True


def _sync_folder(folder: Path) -> None:
    # Without it a power cut can undo the rename. Windows does not let folders be opened.
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
