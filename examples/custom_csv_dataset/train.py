"""Trains on a table of one's own: `python train.py`, or with `--data wines.csv`.

A dataclass says what the columns are; rows that do not fit are named by file, line and column
before training begins. `Standardized` is a dataset of one's own over the rows. Without `--data`
the table is that of 178 Italian wines that comes with scikit-learn, written as a CSV file first.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import matplotlib as mpl
import numpy as np

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.dataset import CsvDataset, IndexedDataset, Loader
from ingle.train import Accuracy, ConfusionMatrix, EarlyStopping, Learner

mpl.use("Agg")
import matplotlib.pyplot as plt

GRAPES = "Barolo", "Grignolino", "Barbera"


@dataclasses.dataclass
class Wine:
    """A row: ten measurements in a laboratory, and the grape. Other columns are passed over."""

    grape: Literal["Barolo", "Grignolino", "Barbera"]
    alcohol: float
    malic_acid: float
    ash: float
    magnesium: int
    total_phenols: float
    flavanoids: float | None
    proanthocyanins: float
    color_intensity: float
    hue: float
    proline: int


MEASURED = tuple(field.name for field in dataclasses.fields(Wine))[1:]


class Standardized(IndexedDataset[tuple[np.ndarray, np.int64]]):
    """Rows as numbers with the mean 0 and the deviation 1, and the number of the grape.

    What a row leaves empty is 0, the mean of the others.

    Args:
        rows: the wines.
        like: whose means and deviations are taken; those of `rows` themselves if not given.
    """

    def __init__(self, rows: Sequence[Wine], like: Standardized | None = None) -> None:
        self.rows = rows
        numbers = np.array([[getattr(row, name) for name in MEASURED] for row in rows], np.float32)
        if like is None:
            self.mean = np.nanmean(numbers, 0)
            self.deviation = np.maximum(np.nanstd(numbers, 0), 1e-6)
        else:
            self.mean, self.deviation = like.mean, like.deviation
        self.numbers = np.nan_to_num((numbers - self.mean) / self.deviation)
        self.labels = np.array([GRAPES.index(row.grape) for row in rows], np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int, /) -> tuple[np.ndarray, np.int64]:
        return self.numbers[index], self.labels[index]


def written(path: Path) -> Path:
    """The file with scikit-learn's table."""
    from sklearn.datasets import load_wine

    table = load_wine()
    path.parent.mkdir(parents=True, exist_ok=True)
    with nn.writing(path), path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["grape", *table.feature_names])
        for numbers, label in zip(table.data, table.target, strict=True):
            values = [int(n) if n == int(n) else float(n) for n in numbers]
            writer.writerow([GRAPES[label], *values])
    return path


def draw(path: Path, counts: np.ndarray, accuracy: float) -> None:
    """How often each grape was taken for each."""
    figure, axes = plt.subplots(figsize=(4.4, 4), dpi=110)
    axes.imshow(counts, cmap="GnBu")
    for (true, told), count in np.ndenumerate(counts):
        dark = count > counts.max() / 2
        axes.text(told, true, str(count), ha="center", color="white" if dark else "black")
    axes.set(xlabel="told", ylabel="true", title=f"{accuracy:.1%} of the grapes are told")
    axes.set_xticks(range(len(GRAPES)), GRAPES)
    axes.set_yticks(range(len(GRAPES)), GRAPES, rotation=90, va="center")
    figure.tight_layout()
    with nn.writing(path):
        figure.savefig(path)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> float:
    """Trains, tests and draws; returns the share of grapes that are told."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="CSV file with the columns of `Wine`")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/custom_csv_dataset"))
    given = parser.parse_args(argv)

    file = written(given.out / "wines.csv") if given.data is None else given.data
    wines = CsvDataset(file, Wine)
    fit, check, test = wines.split(0.6, 0.15, 0.25, seed=given.seed)
    train = Standardized(list(fit))
    valid, tested = (Standardized(list(part), train) for part in (check, test))
    with it.device(given.device or it.default_device()):
        it.random.seed(given.seed)
        model = nn.Sequential(
            nn.Linear(len(MEASURED), 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, len(GRAPES))
        )
        learner = Learner(
            model,
            optim.AdamW(model, lr=given.lr, weight_decay=0.05),
            it.cross_entropy,
            metrics=[Accuracy()],
            callbacks=[EarlyStopping("valid/loss", patience=12, restore_best=True)],
        )
        batches = Loader(train, given.batch_size, shuffle=True, seed=given.seed)
        learner.fit(batches, epochs=given.epochs, valid=Loader(valid, 64))
        found = learner.evaluate(Loader(tested, 64), [Accuracy(), ConfusionMatrix(len(GRAPES))])
    accuracy = float(found["accuracy"])
    given.out.mkdir(parents=True, exist_ok=True)
    draw(given.out / "told.png", np.asarray(found["confusion"]), accuracy)
    print(f"test accuracy: {accuracy:.4f}")
    return accuracy


if __name__ == "__main__":
    main()
