"""CIFAR-10 and CIFAR-100: 60,000 colour images of 32x32 pixels each (Krizhevsky, 2009).

Read from the binary archives: a record is one label (for CIFAR-100 a coarse and a fine one), then
1,024 red, green and blue values each, row by row.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from .arrays import Array, ArrayDataset, check_labels
from .downloads import obtained
from .errors import DataFileError, DataValueError
from .images import as_floats
from .mnist_source import Split, check_split

MIRRORS = ("https://www.cs.toronto.edu/~kriz/",)
ARCHIVES = {
    "cifar10": "cifar-10-binary.tar.gz",
    "cifar100": "cifar-100-binary.tar.gz",
}
CHECKSUMS = {
    "cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    "cifar-100-binary.tar.gz": "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
}
"""SHA-256 of the archives as their author published them."""

_PIXELS = 3 * 32 * 32
_MOST = 1 << 28
"""Bytes that one file of an archive may have; the largest of CIFAR has 154 million."""


def cifar10(
    folder: str | Path | None = None,
    split: Split = "train",
    *,
    dtype: str = "float32",
    download: bool = True,
    mirrors: Sequence[str] = MIRRORS,
    timeout: float = 20.0,
    progress: bool = True,
) -> ArrayDataset:
    """CIFAR-10, as pairs of an image and a label from 0 to 9.

    The images are of shape (3, 32, 32), the labels int64. The first nine tenths (45,000) of the
    training images are for training, the last tenth (5,000) for validation.

    Args:
        folder: where `cifar-10-binary.tar.gz` is, or is downloaded to; the user's cache folder if
            not given (see `cache_folder`). It is read as it is, without being unpacked to disk.
        split: "train", "valid" or "test".
        dtype: "float32" for values from 0 to 1, "uint8" for 0 to 255, a quarter of the memory.
        download: whether to fetch a missing archive.
        mirrors: the addresses to fetch from, each ending in a slash.
        timeout: seconds without an answer after which a mirror is given up.
        progress: whether to show a bar while downloading.

    Raises:
        MissingDataError: the archive is missing and `download` is False.
        DownloadError: the archive is missing and no mirror delivered it.
        DataFileError: the archive is truncated, corrupt, or of another format.

    >>> from ingle.dataset import cifar10
    >>> images, labels = cifar10("data", "test").arrays  # doctest: +SKIP
    >>> cifar10(".", "test", download=False)
    Traceback (most recent call last):
    ...
    ingle.dataset.errors.MissingDataError: cifar10: . has no cifar-10-binary.tar.gz; ...
    """
    path = _archive("cifar10", folder, split, dtype, download, mirrors, timeout, progress)
    names = ["test_batch.bin"] if split == "test" else [f"data_batch_{i}.bin" for i in range(1, 6)]
    return _dataset(path, names, split, dtype, kinds=(10,), chosen=0)


def cifar100(
    folder: str | Path | None = None,
    split: Split = "train",
    *,
    labels: Literal["fine", "coarse"] = "fine",
    dtype: str = "float32",
    download: bool = True,
    mirrors: Sequence[str] = MIRRORS,
    timeout: float = 20.0,
    progress: bool = True,
) -> ArrayDataset:
    """CIFAR-100, as pairs of an image and a label, from 0 to 99 or of the 20 coarse classes.

    All else is as with `cifar10`; the archive is `cifar-100-binary.tar.gz`.

    Args:
        folder: where the archive is, or is downloaded to.
        split: "train", "valid" or "test".
        labels: "fine" for 100 classes, "coarse" for 20.
        dtype: "float32" or "uint8".
        download: whether to fetch a missing archive.
        mirrors: the addresses to fetch from, each ending in a slash.
        timeout: seconds without an answer after which a mirror is given up.
        progress: whether to show a bar while downloading.

    Raises:
        MissingDataError: the archive is missing and `download` is False.
        DownloadError: the archive is missing and no mirror delivered it.
        DataFileError: the archive is truncated, corrupt, or of another format.

    >>> from ingle.dataset import cifar100
    >>> images, labels = cifar100("data", labels="coarse").arrays  # doctest: +SKIP
    >>> cifar100(".", download=False)
    Traceback (most recent call last):
    ...
    ingle.dataset.errors.MissingDataError: cifar100: . has no cifar-100-binary.tar.gz; ...
    """
    if labels not in ("fine", "coarse"):
        raise DataValueError(f"cifar100: labels must be 'fine' or 'coarse', got {labels!r}")
    path = _archive("cifar100", folder, split, dtype, download, mirrors, timeout, progress)
    names = ["test.bin" if split == "test" else "train.bin"]
    chosen = 1 if labels == "fine" else 0
    return _dataset(path, names, split, dtype, kinds=(20, 100), chosen=chosen)


def _archive(
    who: str,
    folder: str | Path | None,
    split: Split,
    dtype: str,
    download: bool,
    mirrors: Sequence[str],
    timeout: float,
    progress: bool,
) -> Path:
    check_split(who, split)
    if dtype not in ("float32", "uint8"):
        raise DataValueError(f"{who}: dtype must be 'float32' or 'uint8', got {dtype!r}")
    name = ARCHIVES[who]
    urls = [mirror + name for mirror in mirrors] if download else None
    return obtained(
        who, name, folder, urls, sha256=CHECKSUMS[name], timeout=timeout, progress=progress
    )


def _dataset(
    path: Path, names: Sequence[str], split: Split, dtype: str, kinds: Sequence[int], chosen: int
) -> ArrayDataset:
    """The images with the labels number `chosen`, of which a record begins with `len(kinds)`."""
    parts = _members(path, names, len(kinds) + _PIXELS)
    for name, records in zip(names, parts, strict=True):
        for number, classes in enumerate(kinds):
            try:
                check_labels(records[:, number], classes)
            except DataValueError as error:
                raise DataFileError(f"{path}: {name}: {error}") from None
    records = np.concatenate(parts)
    if split != "test":
        border = len(records) - len(records) // 10
        records = records[:border] if split == "train" else records[border:]
    images = records[:, len(kinds) :].reshape(-1, 3, 32, 32)
    values = images.copy() if dtype == "uint8" else as_floats(images)
    return ArrayDataset(values, records[:, chosen].astype(np.int64))


def _members(path: Path, names: Sequence[str], record: int) -> list[Array]:
    """The files `names` of an archive, wherever in it, as rows of `record` bytes."""
    found: dict[str, Array] = {}
    try:
        # As a stream: an archive that is read in leaps is unpacked from its start each time.
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                name = Path(member.name).name
                if name not in names or not member.isfile():
                    continue
                if member.size % record or not member.size or member.size > _MOST:
                    raise DataFileError(
                        f"{path}: {name} has {member.size} bytes, expected records of {record}; is "
                        "this another data set's archive?"
                    )
                file = archive.extractfile(member)
                assert file is not None
                found[name] = np.frombuffer(file.read(), np.uint8).reshape(-1, record)
    except (tarfile.TarError, zlib.error, EOFError, ValueError, OSError) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(
            f"{path}: the archive is truncated or corrupt after {path.stat().st_size} bytes on "
            f"disk ({error}). Delete the file and download it again"
        ) from None
    lost = [name for name in names if name not in found]
    if lost:
        raise DataFileError(
            f"{path}: the archive has no {lost[0]}; is it the binary version of the data set?"
        )
    return [found[name] for name in names]
