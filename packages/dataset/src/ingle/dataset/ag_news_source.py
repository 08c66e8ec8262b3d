"""AG News: 127,600 news items of four classes (Zhang, Zhao, LeCun, 2015, after A. Gulli)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .csv_source import CsvDataset
from .downloads import obtained
from .memory import MemoryDataset
from .mnist_source import Split, check_split
from .rows import choice
from .views import split as split_dataset

MIRRORS = ("https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/",)
CHECKSUMS = {
    "train.csv": "b1a00f826fdfbd249f79597b59e1dc12",
    "test.csv": "d52ea96a97a2d943681189a97654912d",
}
"""MD5 of the files; no stronger checksum was published."""

AG_NEWS_CLASSES = ("World", "Sports", "Business", "Sci/Tech")
"""What the labels 0 to 3 of AG News mean."""

_SHARE_OF_VALIDATION = 0.05


def ag_news(
    folder: str | Path | None = None,
    split: Split = "train",
    *,
    download: bool = True,
    mirrors: Sequence[str] = MIRRORS,
    timeout: float = 20.0,
    progress: bool = True,
) -> MemoryDataset[tuple[str, int]]:
    """AG News, as pairs of a text and a label; `AG_NEWS_CLASSES` names the labels.

    A text is the title and the description of a news item with a space between them. The training
    file is split at random but always the same: 95 % (114,000) are for training, 5 % (6,000) for
    validation, of each class the same share.

    Args:
        folder: where `train.csv` and `test.csv` are, or are downloaded to; the user's cache folder
            if not given (see `cache_folder`).
        split: "train", "valid" or "test".
        download: whether to fetch a missing file.
        mirrors: the addresses to fetch from, each ending in a slash.
        timeout: seconds without an answer after which a mirror is given up.
        progress: whether to show a bar while downloading.

    Raises:
        MissingDataError: the file is missing and `download` is False.
        DownloadError: the file is missing and no mirror delivered it.
        DataFileError: a row is not as expected; the error names the file, line and row.

    >>> from ingle.dataset import AG_NEWS_CLASSES, ag_news
    >>> text, label = ag_news("data", "test")[0]  # doctest: +SKIP
    >>> AG_NEWS_CLASSES[1]
    'Sports'
    """
    check_split("ag_news", split)
    name = "test.csv" if split == "test" else "train.csv"
    path = obtained(
        "ag_news", name, folder, [m + name for m in mirrors] if download else None,
        md5=CHECKSUMS[name], timeout=timeout, progress=progress,
    )  # fmt: skip
    rows = CsvDataset(
        path,
        columns=["label", "title", "description"],
        types={"label": choice({str(i + 1): i for i in range(4)})},
    )
    items = [(f"{row['title']} {row['description']}", row["label"]) for row in rows]
    if split == "test":
        return MemoryDataset(items)
    shares = (1 - _SHARE_OF_VALIDATION, _SHARE_OF_VALIDATION)
    train, valid = split_dataset(items, *shares, seed=2015, labels=[label for _, label in items])
    return MemoryDataset(list(train if split == "train" else valid))
