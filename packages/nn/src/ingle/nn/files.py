"""Files that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import glob
import os
import platform
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Opens a binary file that takes the place of `path` when the block ends without an exception.

    It is written beside `path`, flushed to the disk and renamed over it, so that at any moment, and
    after a crash at any moment, `path` holds the old bytes or the new ones. Folders are made. What
    killed processes of this machine have left beside it is removed.

    >>> import pathlib, tempfile
    >>> from ingle.nn import atomic_write
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "new" / "notes.txt"
    >>> with atomic_write(target) as file:
    ...     _ = file.write(b"whole")
    >>> target.read_text()
    'whole'
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    _clear(target)
    part = target.with_name(f"{_lead(target)}{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
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
