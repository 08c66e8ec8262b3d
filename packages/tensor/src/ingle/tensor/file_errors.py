"""What the system says about writing a file, told with the file's name and what to do."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from .errors import IngleError


class FileWriteError(IngleError, OSError):
    """A file cannot be written; the message says which, why and what to do.

    Attributes:
        errno: the system's number for the reason.

    >>> import errno
    >>> from ingle import nn
    >>> try:
    ...     with nn.writing("/disk/last.safetensors"):
    ...         raise OSError(errno.ENOSPC, "No space left on device")
    ... except nn.FileWriteError as error:
    ...     print(error.errno == errno.ENOSPC, "last.safetensors" in str(error))
    True True
    """


_CURES = {
    errno.ENOSPC: "free some space there, or choose another folder",
    errno.EDQUOT: "free some of your space there, or choose another folder",
    errno.EROFS: "choose a folder on a disk that can be written to",
    errno.EACCES: "change the folder's rights, or choose another one",
    errno.EPERM: "change the folder's rights, or choose another one",
    errno.ENOTDIR: "a part of its path is a file: choose another path",
    errno.EEXIST: "a part of its path is a file: choose another path",
    errno.EISDIR: "there is a folder of this name: choose another one",
    errno.ENAMETOOLONG: "choose a shorter name",
}


@contextlib.contextmanager
def writing(path: str | os.PathLike[str], advice: str = "") -> Iterator[None]:
    """Gives what the system says about writing a file its name, and what to do.

    Args:
        path: of the file that is written in the `with` block.
        advice: what else the message shall say.

    Raises:
        FileWriteError: in place of an `OSError`.

    >>> import pathlib, tempfile
    >>> from ingle import nn
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with nn.writing(path):
    ...     _ = path.write_text("kept")
    """
    try:
        yield
    except FileWriteError:
        raise
    except OSError as error:
        cure = _CURES.get(error.errno or 0)
        known = f"{error.strerror or error}{f'; {cure}' if cure else ''}"
        explained = FileWriteError(f"{path}: cannot be written: {known}{advice}")
        explained.errno = error.errno
        raise explained from error
