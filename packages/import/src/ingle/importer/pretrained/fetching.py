"""Published models fetched into a folder: each file checked, continued after an interruption."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

from ingle.nn import atomic_write

from ..errors import WeightsError
from .server import Server, parts_of

WEIGHTS = ("model.safetensors", "diffusion_pytorch_model.safetensors", "pytorch_model.bin")
"""Names of weights, the preferred one first; safetensors may be sharded, with an index."""
BESIDE = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "preprocessor_config.json",
)  # fmt: skip
"""What is fetched with the weights where the server has it."""
KINDS = (".safetensors", ".pth", ".pt", ".bin", ".gguf", ".npz")
RECORD = "fetched.json"
"""Written when all is there: the URL, and the checksum of each file."""


def fetch_pretrained(
    source: str | os.PathLike[str],
    *,
    folder: str | os.PathLike[str] | None = None,
    checksums: Mapping[str, str] | None = None,
    files: Sequence[str] = BESIDE,
    weights: bool = True,
    progress: bool = True,
    timeout: float = 20.0,
) -> Path:
    """The folder or file of a published model on this machine, downloaded if `source` is a URL.

    Each file gets its name when it is whole and its checksum is right; an interrupted download
    goes on where it broke off. The checksum is the one given, or what the server's `SHA256SUMS`
    says, or the hash in its answer (as of git hosts and model hubs), or in the file's name (as of
    PyTorch's). Those that the server gives show accidents, not forgeries. What was fetched once is
    taken without asking again.

    Args:
        source: a folder or a file of weights; or the URL of either. A folder has `config.json` and
            `model.safetensors`, alone or sharded with an index.
        folder: where downloads go; a folder in `ingle.dataset.cache_folder()` if not given.
        checksums: SHA-256 by file name, for files that must be the ones you know.
        files: what else of the folder is wanted, where the server has it.
        weights: False fetches `files` alone, of which one at least must be there.
        progress: whether to show bars on a terminal.
        timeout: seconds without an answer after which it is given up.

    Returns:
        The path of the folder, or of the file.

    Raises:
        WeightsError: the source is not there, has no weights, or no checksum for them.
        ingle.dataset.DownloadError: a download failed; what is there of it is kept.

    >>> import pathlib, tempfile
    >>> from ingle import importer
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> importer.fetch_pretrained(folder) == folder
    True
    """
    if not is_url(source):
        place = Path(source).expanduser()
        if not place.exists():
            raise WeightsError(
                f"{place}: there is no such folder or file; give the path of one, or a URL with "
                "https://"
            )
        return place
    url, given = str(source), dict(checksums or {})
    single = Path(unquote(urlsplit(url).path)).name
    if not single.endswith(KINDS):
        single = ""
    place = _cached(url) if folder is None else Path(folder).expanduser()
    place = place.parent if single and folder is None else place
    if not _is_complete(place, url, given):
        base = url.split("?")[0].removesuffix(single) if single else url
        server = Server(base, given, timeout)
        fetched = _Fetched(server, place, progress, timeout)
        if single:
            fetched.need(single)
        else:
            fetched.all_of(files, weights)
        fetched.keep(url)
    return place / single if single else place


def is_url(source: str | os.PathLike[str]) -> bool:
    """Whether a source is downloaded."""
    return isinstance(source, str) and source.startswith(("http://", "https://"))


def _downloads() -> ModuleType:
    try:
        import ingle.dataset as dataset
    except ImportError:
        raise WeightsError(
            'downloading needs ingle-dataset: pip install "ingle-import[download]", or download '
            "the folder by hand and pass its path"
        ) from None
    return dataset


def _cached(url: str) -> Path:
    """The folder of a URL: readable, and another one for each."""
    split = urlsplit(url)
    parts = [re.sub(r"[^\w.-]", "_", part) for part in split.path.split("/") if part]
    host = re.sub(r"[^\w.-]", "_", split.netloc)
    found: Path = _downloads().cache_folder()
    return found.joinpath("models", host, *(p if p.strip(".") else "_" for p in parts))


def _record(place: Path) -> dict[str, dict[str, str]]:
    """What was fetched whole into a folder: checksums of files by URL."""
    try:
        found: dict[str, dict[str, str]] = json.loads((place / RECORD).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise WeightsError(f"{place / RECORD}: it is no JSON ({error}); remove it") from None
    return found


def _is_complete(place: Path, url: str, given: Mapping[str, str]) -> bool:
    known = _record(place).get(url)
    return (
        known is not None
        and all((place / name).is_file() for name in known)
        and all(
            known[name] == f"sha256:{digits.lower()}"
            for name, digits in given.items()
            if name in known
        )
    )


class _Fetched:
    """The files of a folder, as they arrive."""

    def __init__(self, server: Server, place: Path, progress: bool, timeout: float) -> None:
        self.server, self.place = server, place
        self.progress, self.timeout = progress, timeout
        self.known: dict[str, str] = {}

    def wanted(self, name: str) -> bool:
        """Fetches a file if the server has it; says whether."""
        checksum = self.server.checksum(name)
        if checksum is None:
            return False
        kind, digits = checksum
        _downloads().download(
            [self.server.url + name], self.place / name, **{kind: digits},
            progress=self.progress, timeout=self.timeout,
        )  # fmt: skip
        self.known[name] = f"{kind}:{digits.lower()}"
        return True

    def need(self, name: str) -> None:
        if not self.wanted(name):
            raise WeightsError(f"{self.server.url}{name}: the server does not have it")

    def all_of(self, files: Sequence[str], weights: bool) -> None:
        found = [self.wanted(name) for name in files]
        if not weights:
            if not any(found):
                raise WeightsError(f"{self.server.url}: there is none of {', '.join(files)}")
            return
        for name in WEIGHTS:
            index = f"{name}.index.json"
            if name.endswith(".safetensors") and self.wanted(index):
                path = self.place / index
                try:
                    parts = json.loads(path.read_text("utf-8"))
                except ValueError as error:
                    raise WeightsError(f"{path}: it is no JSON: {error}") from None
                for part in parts_of(parts, path):
                    self.need(part)
                return
            if self.wanted(name):
                return
        raise WeightsError(
            f"{self.server.url}: there is none of {', '.join(WEIGHTS)}, alone or sharded; give the "
            "URL of the weights themselves if they have another name"
        )

    def keep(self, url: str) -> None:
        found = _record(self.place) | {url: self.known}
        with atomic_write(self.place / RECORD) as file:
            file.write(json.dumps(found, indent=1).encode())
