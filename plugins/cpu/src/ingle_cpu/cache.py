"""Compiled code kept on disk between processes.

The folder belongs to one user (mode 0700, owner checked) since whoever can write to it can run
code as that user. An entry is a checksum and the bytes of an object file, nothing that Python
would execute. Entries are written beside their place and renamed, so that a reader never sees half
of one; a damaged entry counts as absent. When the folder grows over its limit, the entries that
were not used for the longest time go.

`INGLE_CACHE=0` turns it off, `INGLE_CACHE_DIR` moves it. A folder that cannot be used (foreign,
writable by others, read-only, full) costs one warning that says why, and the work goes on without.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import sys
import tempfile
import threading
import warnings
from pathlib import Path

_MAGIC = b"ingle-object-1\n"
_DIGEST = hashlib.sha256().digest_size
_SWEEP_EVERY = 64


class CacheWarning(UserWarning):
    """The cache on disk cannot be used; everything is compiled in this process."""


def cache_folder() -> Path | None:
    """Where compiled code is kept by the environment's wish: None if it shall not be kept."""
    if os.environ.get("INGLE_CACHE", "1") == "0":
        return None
    chosen = os.environ.get("INGLE_CACHE_DIR")
    if chosen:
        return Path(chosen) / "kernels"
    if sys.platform == "darwin":
        base = Path("~/Library/Caches").expanduser()
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path("~/AppData/Local").expanduser())
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return base / "ingle" / "kernels"


class DiskCache:
    """Bytes under keys in a folder.

    Args:
        folder: made if absent; None for a cache that never holds anything.
        limit: the most bytes that the folder may hold.
    """

    def __init__(self, folder: Path | None, limit: int = 256 << 20) -> None:
        self.limit = limit
        self._folder = folder
        self._writes = 0
        self._writable = True
        self._lock = threading.Lock()
        if folder is not None:
            try:
                _claim(folder)
            except (OSError, RuntimeError) as error:
                # RuntimeError: no home folder can be found for this user.
                self._folder = None
                _warn(folder, f"{error}")

    def get(self, key: str) -> bytes | None:
        """The bytes stored under the key, or None; damaged entries are removed."""
        if self._folder is None:
            return None
        path = self._folder / key
        try:
            entry = path.read_bytes()
        except OSError:
            return None
        head = len(_MAGIC) + _DIGEST
        payload = entry[head:]
        if entry[:head] != _MAGIC + hashlib.sha256(payload).digest():
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # eviction goes by the time of last use
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Stores the bytes; warns once if the folder takes none."""
        if self._folder is None or not self._writable:
            return
        try:
            self._write(self._folder, key, payload)
        except OSError as error:
            self._writable = False
            _warn(self._folder, f"{error}")
            return
        with self._lock:
            self._writes += 1
            due = self._writes % _SWEEP_EVERY == 1
        if due:
            _evict(self._folder, self.limit)

    def _write(self, folder: Path, key: str, payload: bytes) -> None:
        number, temporary = tempfile.mkstemp(dir=folder, prefix=".new-")
        try:
            with os.fdopen(number, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
            os.replace(temporary, folder / key)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


@functools.cache
def disk() -> DiskCache:
    """The cache of this process."""
    return DiskCache(cache_folder())


def _warn(folder: Path, why: str) -> None:
    warnings.warn(
        f"compiled kernels are not kept in {folder}: {why}. Every process compiles its own; set "
        "INGLE_CACHE_DIR to a folder of yours, or INGLE_CACHE=0 to silence this",
        CacheWarning,
        stacklevel=4,
    )


def _claim(folder: Path) -> None:
    """Makes the folder if needed; refuses one in which others could place code."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not hasattr(os, "geteuid"):
        return  # Windows: the folder inherits the access list of the user's profile
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise PermissionError("it is no folder but a link or a file")
    if status.st_uid != os.geteuid():
        raise PermissionError(f"it belongs to user {status.st_uid}, not to you ({os.geteuid()})")
    if status.st_mode & 0o022:
        raise PermissionError(f"others may write to it (mode {status.st_mode & 0o777:o})")


def _evict(folder: Path, limit: int) -> None:
    """Removes the entries used longest ago until three quarters of the limit remain."""
    entries = []
    try:
        with os.scandir(folder) as found:
            for entry in found:
                if entry.name.endswith(".json"):
                    continue  # measurements are small and took longer to make
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    entries.append((status.st_mtime, status.st_size, entry.path))
    except OSError:
        return
    total = sum(size for _, size, _ in entries)
    if total <= limit:
        return
    for _, size, path in sorted(entries):
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
        if total <= limit * 3 // 4:
            return
