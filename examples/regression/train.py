"""Prices of houses from eight numbers about the neighbourhood: `python train.py --housing`.

With `--housing` it takes California Housing, downloaded once (`--data FOLDER` for where); without,
scikit-learn's 442 patients, whose disease a year later is to be told from ten measurements. Both
are set against a linear model, which a net should beat where there is enough to learn from.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.dashboard import Dashboard
from ingle.dataset import ArrayDataset, Loader, california_housing
from ingle.train import MAE, R2, EarlyStopping, Learner

mpl.use("Agg")
import matplotlib.pyplot as plt


def load(given: argparse.Namespace) -> tuple[np.ndarray, np.ndarray, str]:
    """Rows of numbers, what is to be told from them, and its name."""
    if given.housing or given.data is not None:
        found = california_housing(given.data)
        x, y = (np.asarray(a, np.float32) for a in found.arrays)
        return x, y.reshape(-1), "price of a house, in 100,000 $"
    from sklearn.datasets import load_diabetes

    table = load_diabetes()
    return table.data.astype(np.float32), table.target.astype(np.float32), "progress of a disease"


def standardized(x: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Columns with the mean 0 and the deviation 1 that those of `like` have."""
    mean, deviation = like.mean(0), like.std(0)
    return np.asarray((x - mean) / np.maximum(deviation, 1e-6), np.float32)


def draw(path: Path, told: np.ndarray, true: np.ndarray, name: str, r2: float) -> None:
    """What was told beside what was true."""
    figure, axes = plt.subplots(figsize=(5, 5), dpi=110)
    axes.plot(true, told, ".", color="#1f6f8b", alpha=0.5, markersize=4)
    ends = [min(true.min(), told.min()), max(true.max(), told.max())]
    axes.plot(ends, ends, color="#c0392b", linewidth=1)
    axes.set(xlabel=f"{name}, true", ylabel="told", title=f"R² {r2:.3f}", aspect="equal")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    with nn.writing(path):
        figure.savefig(path)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> float:
    """Trains, tests and draws; returns the share of the variance that is explained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--housing", action="store_true", help="California Housing, downloaded")
    parser.add_argument("--data", type=Path, help="folder for California Housing")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/regression"))
    given = parser.parse_args(argv)

    x, y, name = load(given)
    order = np.random.default_rng(given.seed).permutation(len(x))
    fit, check, test = np.split(order, [len(x) * 7 // 10, len(x) * 85 // 100])
    inputs = standardized(x, x[fit])
    mean, deviation = float(y[fit].mean()), float(y[fit].std())
    targets = ((y - mean) / deviation).astype(np.float32)[:, None]
    parts = [ArrayDataset(inputs[part], targets[part]) for part in (fit, check, test)]
    with it.device(given.device or it.default_device()):
        it.random.seed(given.seed)
        model = nn.Sequential(
            nn.Linear(inputs.shape[1], given.width), nn.GELU(), nn.Dropout(0.1),
            nn.Linear(given.width, given.width), nn.GELU(), nn.Linear(given.width, 1),
        )  # fmt: skip
        learner = Learner(
            model,
            optim.AdamW(model, lr=given.lr, weight_decay=0.1),
            it.mse_loss,
            metrics=[R2(), MAE()],
            callbacks=[EarlyStopping("valid/loss", patience=12, restore_best=True)],
            progress=Dashboard(given.out),
        )
        batches = Loader(parts[0], given.batch_size, shuffle=True, seed=given.seed)
        learner.fit(batches, epochs=given.epochs, valid=Loader(parts[1], 256))
        model.eval()
        told = model(it.asarray(inputs[test])).numpy()[:, 0] * deviation + mean
    r2 = float(1 - ((told - y[test]) ** 2).sum() / ((y[test] - y[test].mean()) ** 2).sum())
    ones = np.concatenate([inputs, np.ones((len(x), 1), np.float32)], 1)
    line = ones[test] @ np.linalg.lstsq(ones[fit], y[fit], rcond=None)[0]
    linear = 1 - ((line - y[test]) ** 2).sum() / ((y[test] - y[test].mean()) ** 2).sum()
    draw(given.out / "told.png", told, y[test], name, r2)
    print(
        f"mean error {np.abs(told - y[test]).mean():.3f} of {name}; a linear model: R² {linear:.4f}"
    )
    print(f"test R²: {r2:.4f}")
    return r2


if __name__ == "__main__":
    main()
