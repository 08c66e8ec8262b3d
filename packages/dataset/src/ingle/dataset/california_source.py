"""California Housing: prices of 20,640 blocks of houses in 1990 (Pace and Barry, 1997)."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .arrays import Array, ArrayDataset
from .downloads import obtained
from .errors import DataFileError
from .mnist_source import Split, check_split
from .views import split as split_dataset

URLS = ("https://ndownloader.figshare.com/files/5976036",)
ARCHIVE = "cal_housing.tgz"
CHECKSUM = "aaa5c9a6afe2225cc2aed2723682ae403280c4a3695a2ddda4ffb5d8215ea681"
"""SHA-256 of the archive."""

CALIFORNIA_FEATURES = (
    "median income", "house age", "rooms", "bedrooms",
    "population", "occupants", "latitude", "longitude",
)  # fmt: skip
"""What the eight numbers of a block of houses are; rooms to occupants but for the population are
averages a household, incomes are in units of $10,000."""

_SHARES = {"train": 0.7, "valid": 0.1, "test": 0.2}
_MEMBER = "cal_housing.data"
_MOST = 1 << 26


def california_housing(
    folder: str | Path | None = None,
    split: Split = "train",
    *,
    download: bool = True,
    urls: Sequence[str] = URLS,
    timeout: float = 20.0,
    progress: bool = True,
) -> ArrayDataset:
    """California Housing, as pairs of eight numbers and a price in units of $100,000.

    The features are those of `CALIFORNIA_FEATURES`, float32 of shape (8,), as they are: subtract
    the mean of the training data and divide by its standard deviation. The price is float32 of
    shape (1,). The split is random but fixed: 70 % are for training, 10 % for validation, 20 % for
    testing.

    Args:
        folder: where `cal_housing.tgz` is, or is downloaded to; the user's cache folder if not
            given (see `cache_folder`).
        split: "train", "valid" or "test".
        download: whether to fetch a missing archive.
        urls: the addresses of the archive, the preferred one first.
        timeout: seconds without an answer after which an address is given up.
        progress: whether to show a bar while downloading.

    Raises:
        MissingDataError: the archive is missing and `download` is False.
        DownloadError: the archive is missing and no address delivered it.
        DataFileError: the archive is truncated, corrupt, or of another format.

    >>> from ingle.dataset import CALIFORNIA_FEATURES, california_housing
    >>> features, prices = california_housing("data").arrays  # doctest: +SKIP
    >>> len(CALIFORNIA_FEATURES)
    8
    """
    check_split("california_housing", split)
    path = obtained(
        "california_housing", ARCHIVE, folder, urls if download else None,
        sha256=CHECKSUM, timeout=timeout, progress=progress,
    )  # fmt: skip
    features, prices = _columns(_table(path), path)
    parts = split_dataset(range(len(prices)), *_SHARES.values(), seed=1990)
    chosen = np.sort(parts[list(_SHARES).index(split)].indices)
    return ArrayDataset(features[chosen], prices[chosen])


def _columns(table: Array, path: Path) -> tuple[Array, Array]:
    """Features and prices, of the file's nine columns."""
    longitude, latitude, age, rooms, bedrooms, population, households, income, price = table.T
    empty = np.flatnonzero(households <= 0)
    if empty.size:
        raise DataFileError(
            f"{path}: {_MEMBER}: row {empty[0]} has {households[empty[0]]:g} households; expected "
            "at least one"
        )
    features = np.stack(
        [
            income, age, rooms / households, bedrooms / households,
            population, population / households, latitude, longitude,
        ],
        axis=1,
    )  # fmt: skip
    return features.astype(np.float32), (price[:, None] / 100_000).astype(np.float32)


def _table(path: Path) -> Array:
    """The numbers of the file in the archive, shape (n, 9)."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if Path(member.name).name == _MEMBER and member.isfile():
                    file = archive.extractfile(member)
                    assert file is not None
                    text = file.read(_MOST).decode("ascii")
                    break
            else:
                raise DataFileError(f"{path}: the archive has no {_MEMBER}")
    except (tarfile.TarError, zlib.error, EOFError, UnicodeDecodeError, OSError) as error:
        raise DataFileError(
            f"{path}: the archive is truncated or corrupt ({error}). Delete the file and download "
            "it again"
        ) from None
    rows = []
    for number, line in enumerate(text.splitlines()):
        try:
            row = [float(value) for value in line.split(",")]
        except ValueError as error:
            raise DataFileError(f"{path}: {_MEMBER}: row {number}: {error}") from None
        if len(row) != 9 or not np.isfinite(row).all():
            raise DataFileError(
                f"{path}: {_MEMBER}: row {number}: expected 9 finite numbers, got {line!r:.80}"
            )
        rows.append(row)
    if not rows:
        raise DataFileError(f"{path}: {_MEMBER} is empty; expected rows of 9 numbers")
    return np.array(rows)
