"""Downloads that are checked, resumed, tried at several mirrors, and never half there.

Pooch does the checking and the final rename. What it lacks is here: an interrupted transfer stays
beside its target as `NAME.part` and is continued with an HTTP range request.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any

from .errors import DataValueError, DownloadError, MissingDataError, MissingExtraError

_CHUNK = 1 << 16
_WHOLE = 64
"""Hexadecimal digits of a SHA-256."""


def cache_folder() -> Path:
    """Where downloads are kept: `INGLE_DATA`, or the place that the system has for caches.

    Raises:
        DownloadError: this user has no home folder, or `INGLE_DATA` begins with the `~` of nobody.

    >>> from ingle.dataset import cache_folder
    >>> cache_folder().is_absolute()
    True
    """
    name, usual = {
        "darwin": ("", "~/Library/Caches"),
        "win32": ("LOCALAPPDATA", "~/AppData/Local"),
    }.get(sys.platform, ("XDG_CACHE_HOME", "~/.cache"))
    try:
        chosen = os.environ.get("INGLE_DATA", "").strip()
        if chosen:
            return Path(chosen).expanduser()
        base = Path(os.environ.get(name) or usual).expanduser()
        # The XDG specification has relative paths ignored.
        if not base.is_absolute():
            base = Path(usual).expanduser()
    except RuntimeError as error:
        raise DownloadError(
            f"there is no place for downloads ({error}); set INGLE_DATA to a folder of yours, or "
            "pass one"
        ) from None
    return base / "ingle" / "data"


def download(
    urls: Sequence[str],
    path: str | Path,
    *,
    sha256: str | None = None,
    md5: str | None = None,
    git_sha1: str | None = None,
    timeout: float = 20.0,
    progress: bool = True,
) -> Path:
    """Fetches a file unless it is there with the right checksum; the mirrors are tried in turn.

    The file appears under its name only when it is whole and its checksum is right. An interrupted
    transfer is continued by the next mirror or the next call.

    Args:
        urls: the mirrors, the preferred one first.
        path: where the file goes; its folder is made if need be.
        sha256: the checksum, as 64 hexadecimal digits; or the first 8 or more of them, where only
            these are published, as in names of PyTorch's files.
        md5: a checksum of 32 hexadecimal digits, where only that is published; it shows accidents,
            not forgeries.
        git_sha1: the name that git has for the content, 40 hexadecimal digits, where only that is
            published.
        timeout: seconds without an answer after which a mirror is given up.
        progress: whether to show a bar on a terminal.

    Returns:
        The path.

    Raises:
        DownloadError: no mirror delivered the file; the message says what each of them did.
        DataValueError: there is no checksum, more than one, or too short a one.
        MissingExtraError: pooch is not installed.

    >>> import hashlib, pathlib, tempfile
    >>> from ingle.dataset import download
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "words.txt"
    >>> _ = path.write_text("a b")  # is there already, so that nothing is fetched
    >>> checksum = hashlib.sha256(b"a b").hexdigest()
    >>> download(["https://example.org/words.txt"], path, sha256=checksum) == path
    True
    """
    if sum(given is not None for given in (sha256, md5, git_sha1)) != 1:
        raise DataValueError(
            "download: give one checksum, sha256=, md5= or git_sha1=; a file that nobody checked "
            "is no data"
        )
    known, check = _checks(sha256, md5, git_sha1)
    pooch = _pooch()
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(f"{path.parent}: cannot make this folder: {error}") from None
    if check is not None and path.is_file() and not check(path):
        path.unlink()
    failures = []
    for url in urls:
        try:
            pooch.retrieve(
                url,
                known_hash=known,
                fname=path.name,
                path=path.parent,
                downloader=ResumingDownloader(
                    path, timeout=timeout, progress=progress, check=check
                ),
            )
            return path
        except (OSError, HTTPException, ValueError) as error:
            failures.append(f"  {url}: {_reason(error)}")
    part = partial_path(path)
    kept = f" {part.stat().st_size} bytes are kept and will be continued." if part.exists() else ""
    raise DownloadError(
        f"no mirror delivered {path.name}:\n" + "\n".join(failures) + f"\nCheck the connection and "
        f"try again, or put the file into {path.parent} by hand.{kept}"
    )


def _checks(
    sha256: str | None, md5: str | None, git_sha1: str | None
) -> tuple[str | None, Callable[[Path], bool] | None]:
    """What pooch is to check, or what it cannot: beginnings of checksums, and git's."""
    if md5 is not None:
        return f"md5:{md5}", None
    if git_sha1 is not None:
        name = git_sha1.lower()
        return None, lambda path: _digest(path, "sha1", b"blob %d\0") == name
    start = str(sha256).lower()
    if len(start) == _WHOLE:
        return f"sha256:{start}", None
    if len(start) < 8:
        raise DataValueError(
            f"download: sha256={sha256!r} has {len(start)} digits; 64 are a checksum, and 8 the "
            "least that tells files apart"
        )
    return None, lambda path: _digest(path, "sha256").startswith(start)


def _digest(path: Path, kind: str, head: bytes = b"") -> str:
    """A hash of a file, behind `head`, in which its size is written."""
    found = hashlib.new(kind, head % path.stat().st_size if head else b"")
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            found.update(chunk)
    return found.hexdigest()


def obtained(
    who: str,
    name: str,
    folder: str | Path | None,
    urls: Sequence[str] | None,
    **options: Any,
) -> Path:
    """The file `name` in `folder` (the cache's part for `who` if None), downloaded if it lacks.

    Without `urls` nothing is downloaded. `options` are those of `download`.
    """
    base = cache_folder() / who if folder is None else Path(folder).expanduser()
    path = base / name
    if path.is_file():
        return path
    if urls is None:
        raise MissingDataError(f"{who}: {base} has no {name}; put it there, or pass download=True")
    return download(urls, path, **options)


def partial_path(path: Path) -> Path:
    """Where an unfinished download of `path` is kept."""
    return path.with_name(path.name + ".part")


class ResumingDownloader:
    """A downloader for pooch that continues what an earlier one left in `TARGET.part`.

    Args:
        target: the file that the download will become.
        timeout: seconds without an answer after which it gives up.
        progress: whether to show a bar on a terminal.
        check: whether the content is right, where pooch cannot tell.
    """

    def __init__(
        self,
        target: Path,
        *,
        timeout: float = 20.0,
        progress: bool = True,
        check: Callable[[Path], bool] | None = None,
    ) -> None:
        self.part = partial_path(target)
        self.check = check
        self.timeout = timeout
        self.progress = progress

    def __call__(self, url: str, output_file: Any, pooch: Any = None) -> None:
        """Downloads `url` into `output_file`, as pooch asks for."""
        have = self.part.stat().st_size if self.part.exists() else 0
        request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                self._receive(url, response, have)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 416 or not have:
                raise
            # The range begins at or after the end: the part is whole, or not of this file. Pooch's
            # checksum tells which; a wrong one is deleted with its temporary file.
        if self.check is not None and not self.check(self.part):
            self.part.unlink()
            raise ValueError("the hash is another one")
        shutil.move(self.part, output_file)

    def _receive(self, url: str, response: HTTPResponse, have: int) -> None:
        if response.status != 206 or _range_start(response) != have:
            have = 0
        length = response.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        name = self.part.name.removesuffix(".part")
        with (
            self.part.open("ab" if have else "wb") as file,
            _bar(name, have, total, self.progress) as bar,
        ):
            have += _copy(response, file, bar)
            file.flush()
            os.fsync(file.fileno())
        if total is not None and have != total:
            raise ConnectionError(f"the connection broke off at {have} of {total} bytes")


def _copy(response: HTTPResponse, file: IO[bytes], bar: Any) -> int:
    count = 0
    while chunk := response.read1(_CHUNK):
        file.write(chunk)
        bar.update(len(chunk))
        count += len(chunk)
    return count


def _range_start(response: HTTPResponse) -> int | None:
    """The first byte of a partial answer: `Content-Range: bytes 100-199/200`."""
    unit, _, rest = response.headers.get("Content-Range", "").partition(" ")
    start = rest.partition("-")[0]
    return int(start) if unit == "bytes" and start.isdigit() else None


@contextlib.contextmanager
def _bar(name: str, have: int, total: int | None, wanted: bool) -> Iterator[Any]:
    from tqdm import tqdm

    # disable=None shows the bar on a terminal only; a log gets pooch's one line a file.
    with tqdm(
        desc=name, initial=have, total=total, unit="B", unit_scale=True, leave=True,
        disable=None if wanted else True,
    ) as bar:  # fmt: skip
        yield bar


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    text = str(error) or type(error).__name__
    return "the checksum is wrong" if "hash" in text else text


def _pooch() -> Any:
    try:
        import pooch
        import tqdm  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f'downloading needs pooch and tqdm ({error}): pip install "ingle-dataset[download]", '
            "or put the files into a folder and pass it"
        ) from None
    return pooch
