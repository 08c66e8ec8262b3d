"""DBpedia: 630,000 abstracts of 14 classes (Zhang, Zhao, LeCun, 2015)."""

from __future__ import annotations

from pathlib import Path

from .csv_source import CsvDataset
from .errors import MissingDataError
from .memory import MemoryDataset
from .mnist_source import Split, check_split
from .rows import choice
from .views import split as split_dataset

DBPEDIA_CLASSES = (
    "Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder",
    "MeanOfTransportation", "Building", "NaturalPlace", "Village", "Animal", "Plant", "Album",
    "Film", "WrittenWork",
)  # fmt: skip
"""What the labels 0 to 13 of DBpedia mean."""

_SHARE_OF_VALIDATION = 0.05


def dbpedia(folder: str | Path, split: Split = "train") -> MemoryDataset[tuple[str, int]]:
    """DBpedia, as pairs of a text and a label; `DBPEDIA_CLASSES` names the labels.

    A text is the title and the abstract with a space between them. The training file is split at
    random but always the same: 95 % are for training, 5 % for validation, of each class the same
    share. There is no download, since no checksum of the archive was published: unpack
    `dbpedia_csv` yourself.

    Args:
        folder: where `train.csv` and `test.csv` are.
        split: "train", "valid" or "test".

    Raises:
        MissingDataError: the file is not there.
        DataFileError: a row is not as expected; the error names the file, line and row.

    >>> from ingle.dataset import DBPEDIA_CLASSES, dbpedia
    >>> text, label = dbpedia("dbpedia_csv", "test")[0]  # doctest: +SKIP
    >>> DBPEDIA_CLASSES[13]
    'WrittenWork'
    """
    check_split("dbpedia", split)
    path = Path(folder).expanduser() / ("test.csv" if split == "test" else "train.csv")
    if not path.is_file():
        raise MissingDataError(
            f"dbpedia: {path.parent} has no {path.name}; unpack the archive dbpedia_csv there"
        )
    rows = CsvDataset(
        path,
        columns=["label", "title", "abstract"],
        types={"label": choice({str(i + 1): i for i in range(len(DBPEDIA_CLASSES))})},
    )
    items = [(f"{row['title']} {row['abstract'].strip()}", row["label"]) for row in rows]
    if split == "test":
        return MemoryDataset(items)
    shares = (1 - _SHARE_OF_VALIDATION, _SHARE_OF_VALIDATION)
    train, valid = split_dataset(items, *shares, seed=2015, labels=[label for _, label in items])
    return MemoryDataset(list(train if split == "train" else valid))
