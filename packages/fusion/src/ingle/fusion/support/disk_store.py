"""What one process has made and the next one wants, on disk: compiled kernels, plans, measurements.

Whoever can write to this folder can run code as its user, so others are kept out: folders are made
with mode 0700, whatever the umask is; the folder is opened once, checked through its descriptor
(owner, mode, no link) and reached by that alone, so that nobody can put another in its place
between check and use; of its entries, only regular files of the same owner are read.

An entry is a digest of its name and its bytes, then the bytes. An entry that was damaged, or that a
backup or a sync tool has put under another name, counts as absent. Entries are written beside their
place and renamed, so that a reader sees all of one or none. When the folder grows over its limit,
the entries that were not used for the longest time go.

`INGLE_CACHE=0` turns it off, `INGLE_CACHE_DIR` moves it. A folder that cannot be used (another
user's, writable by others, read-only, full) costs one warning that says why, and the work goes on
without.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import stat
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

from ingle.tensor.callers import warn
from ingle.tensor.errors import ArgumentError
from ingle.tensor.locks import renewed

from .disk_sweep import TEMPORARY, Entry, bytes_noted, sweep
from .settings import cache_place, is_kept

_MAGIC = b"ingle-entry-2\n"
_HEAD = len(_MAGIC) + hashlib.sha256().digest_size
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)
_SWEEP_EVERY = 256
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ACCESS = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# A pipe that somebody left in the folder must not keep the reader waiting for a writer.
_READ = os.O_RDONLY | _ACCESS | getattr(os, "O_NONBLOCK", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _ACCESS


class CacheWarning(UserWarning):
    """The cache on disk cannot be used; everything is made in this process."""


def cache_folder() -> Path | None:
    """Where compiled code is kept by the environment's wish: None if it shall not be kept.

    Raises:
        ArgumentError: `INGLE_CACHE` is neither 0 nor 1, or `INGLE_CACHE_DIR` begins with the `~` of
            a user that does not exist.
    """
    if not is_kept():
        return None
    chosen = cache_place()
    if chosen is None:
        caches = _users_caches()
        if caches is None:
            warn(
                "compiled code is not kept: this user has no home folder. Set INGLE_CACHE_DIR to "
                "a folder of yours, or INGLE_CACHE=0 to silence this",
                CacheWarning,
            )
            return None
        chosen = caches / "ingle"
    return chosen / "kernels"


def _users_caches() -> Path | None:
    name, usual = {
        "darwin": ("", "~/Library/Caches"),
        "win32": ("LOCALAPPDATA", "~/AppData/Local"),
    }.get(sys.platform, ("XDG_CACHE_HOME", "~/.cache"))
    for said in (os.environ.get(name), usual):
        # The XDG specification has relative paths ignored: each working folder would have a cache.
        if said:
            with contextlib.suppress(RuntimeError):
                found = Path(said).expanduser()
                if found.is_absolute():
                    return found
    return None


class DiskStore:
    """Bytes by name in a folder, for later processes of the same user.

    Threads and processes may share one. Nothing here is certain to stay: an entry may be gone at
    any time, and the caller must be able to make it anew.

    Args:
        folder: made if absent; None for a store that never holds anything.
        limit: the most bytes that the folder may hold. An entry of more than a quarter of it is not
            kept.
    """

    def __init__(self, folder: Path | None, limit: int = 256 << 20) -> None:
        self.limit = limit
        self._path = folder
        self._directory: Directory | None = None
        self._usable = folder is not None
        self._lock = renewed(self, "_lock")
        self._writes = 0
        self._held = 0
        """Bytes in the folder: what the last sweep found, and what was written since."""
        if folder is not None:
            self._use()

    @property
    def usable(self) -> bool:
        """Whether it holds anything, as far as is known."""
        return self._usable

    def get(self, name: str) -> bytes | None:
        """The bytes stored under the name, or None; damaged entries are removed.

        Args:
            name: letters, digits, `.`, `_` and `-`.
        """
        _check(name)
        directory = self._use()
        if directory is None:
            return None
        try:
            number = directory.open(name, _READ)
        except OSError:
            return None
        try:
            entry = _read(number, self.limit)
            payload = None if entry is None else _payload(name, entry)
            if payload is not None and os.utime in os.supports_fd:
                with contextlib.suppress(OSError):
                    os.utime(number)  # eviction goes by the time of last use
        except OSError:
            return None  # the disk does not give it back
        finally:
            os.close(number)
        if entry is not None and payload is None:
            with contextlib.suppress(OSError):
                directory.remove(name)
        return payload

    def put(self, name: str, payload: bytes) -> None:
        """Stores the bytes; warns once if the folder takes none.

        Args:
            name: letters, digits, `.`, `_` and `-`. Names that end in `.json` are never evicted.
            payload: the bytes.
        """
        _check(name)
        directory = self._use()
        if directory is None or 4 * (len(payload) + _HEAD) > self.limit:
            return
        try:
            directory.write(name, _MAGIC + _digest(name, payload) + payload)
        except OSError as error:
            self._give_up(error)
            return
        with self._lock:
            self._writes += 1
            self._held += _HEAD + len(payload)
            with contextlib.suppress(OSError):
                due = self._writes % _SWEEP_EVERY == 0  # other processes write, too
                if self._writes == 1:
                    noted = bytes_noted(directory)
                    self._held += noted or 0
                    due = noted is None
                if due or self._held > self.limit:
                    self._held = sweep(directory, self.limit)

    def _use(self) -> Directory | None:
        """The folder, opened anew where somebody has deleted it, or closed our descriptor."""
        directory = self._directory
        if not self._usable or (directory is not None and directory.is_there()):
            return directory if self._usable else None
        with self._lock:
            if self._usable and self._directory is directory:
                assert self._path is not None
                try:
                    self._directory = Directory(self._path)
                except (OSError, RuntimeError) as error:
                    # RuntimeError: no home folder can be found for this user.
                    self._give_up(error)
            return self._directory if self._usable else None

    def _give_up(self, why: Exception) -> None:
        if self._usable:
            self._usable = False
            warn(
                f"compiled code is not kept in {self._path}: {why}. Every process compiles its "
                "own; set INGLE_CACHE_DIR to a folder of yours, or INGLE_CACHE=0 to silence this",
                CacheWarning,
            )


@functools.cache
def disk() -> DiskStore:
    """The store of this process."""
    return DiskStore(cache_folder())


class Directory:
    """A folder that only its user can write to, held open.

    Systems without access by descriptor (Windows) go by its path: there the folder inherits the
    access list of the user's profile.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number: int | None = None
        _make(path)
        if not hasattr(os, "geteuid"):
            return
        _refuse_open_parents(path)
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise PermissionError("it is no folder but a link or a file")
        number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _ACCESS)
        weakref.finalize(self, _close, number, os.fstat(number)).atexit = False
        status = os.fstat(number)
        if status.st_uid != os.geteuid():
            raise PermissionError(
                f"it belongs to user {status.st_uid}, not to you ({os.geteuid()})"
            )
        if status.st_mode & _OTHERS_WRITE:
            raise PermissionError(f"others may write to it (mode {status.st_mode & 0o777:o})")
        self._number = number
        self._status = status

    def is_there(self) -> bool:
        """Whether the descriptor is still ours (daemons close all they find), and not deleted."""
        if self._number is None:
            return True
        try:
            status = os.fstat(self._number)
        except OSError:
            return False
        return os.path.samestat(status, self._status) and (
            status.st_nlink > 0 or self._status.st_nlink == 0
        )

    def _place(self, name: str) -> str:
        return name if self._number is not None else str(self._path / name)

    def open(self, name: str, flags: int) -> int:
        return os.open(self._place(name), flags | _ACCESS, 0o600, dir_fd=self._number)

    def read(self, number: int, limit: int) -> bytes | None:
        """What an open file holds; None if it is no file that this user alone may write."""
        return _read(number, limit)

    def remove(self, name: str) -> None:
        os.unlink(self._place(name), dir_fd=self._number)

    def write(self, name: str, entry: bytes) -> None:
        temporary = f"{TEMPORARY}{os.urandom(8).hex()}"
        number = self.open(temporary, _CREATE)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(entry)
            os.replace(
                self._place(temporary),
                self._place(name),
                src_dir_fd=self._number,
                dst_dir_fd=self._number,
            )
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise

    def entries(self) -> Iterator[Entry]:
        with os.scandir(self._path if self._number is None else self._number) as found:
            for entry in found:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    yield Entry(status.st_mtime, status.st_size, entry.name)


def _close(number: int, status: os.stat_result) -> None:
    # Somebody who closed all descriptors may have got this number for a file of his own.
    with contextlib.suppress(OSError):
        if os.path.samestat(os.fstat(number), status):
            os.close(number)


def _make(folder: Path) -> None:
    """Makes a folder and those above it for its user alone, where `mkdir` goes by the umask."""
    for place in (*reversed(folder.parents), folder):
        try:
            os.mkdir(place, 0o700)
        except OSError:
            # It is there, which a system that is read-only or asks for rights need not say.
            if not place.is_dir():
                raise


def _refuse_open_parents(folder: Path) -> None:
    """Where anybody may rename what is in a parent, another folder can stand there tomorrow."""
    for parent in Path(os.path.realpath(folder.parent), "_").parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise PermissionError(
                f"anybody may exchange what is in {parent} (mode {mode & 0o777:o})"
            )


def _check(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ArgumentError(
            f"DiskStore: the name {name[:80]!r} must be 1 to 200 letters, digits, '.', '_' and "
            "'-', the first a letter or digit"
        )


def _digest(name: str, payload: bytes) -> bytes:
    return hashlib.sha256(b"\0".join((_MAGIC, name.encode(), payload))).digest()


def _payload(name: str, entry: bytes) -> bytes | None:
    payload = entry[_HEAD:]
    return payload if entry[:_HEAD] == _MAGIC + _digest(name, payload) else None


def _read(number: int, limit: int) -> bytes | None:
    """A file's bytes; None if it is no file that this user alone may write."""
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        return None
    if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE):
        return None
    if status.st_size > limit:
        return b""
    with os.fdopen(number, "rb", closefd=False) as file:
        return file.read(status.st_size)
