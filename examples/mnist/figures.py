"""The pictures: predictions, the confusion matrix, the loss curve."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

import ingle.tensor as it
from ingle import nn
from ingle.dataset import ArrayDataset
from ingle.train import read_jsonl

mpl.use("Agg")
import matplotlib.pyplot as plt

INK, ACCENT, WRONG, GRID = "#1f2933", "#1f6f8b", "#c0392b", "#d9dee3"
STYLE = {
    "font.size": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": GRID,
    "xtick.color": INK, "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.titlelocation": "left", "axes.titlesize": 12, "axes.titlepad": 12, "figure.dpi": 120,
}  # fmt: skip


def draw(folder: Path, model: nn.Module, test: ArrayDataset, confusion: np.ndarray) -> None:
    """Writes `predictions.png`, `confusion.png` and `loss.png`."""
    with plt.rc_context(STYLE):
        predictions(folder / "predictions.png", model, test)
        confusion_matrix(folder / "confusion.png", confusion)
        loss_curve(folder / "loss.png", folder / "history.jsonl")


def predictions(path: Path, model: nn.Module, test: ArrayDataset, count: int = 40) -> None:
    """Test digits with what the model takes them for: its mistakes first, in red."""
    images, labels = test.arrays
    probabilities = classify(model, images)
    guesses = probabilities.argmax(axis=1)
    mistakes = np.flatnonzero(guesses != labels)
    right = np.flatnonzero(guesses == labels)
    shown = [*mistakes[:10], *right][:count]
    figure, axes = plt.subplots(5, 8, figsize=(9, 6.6))
    for axis in axes.flat:
        axis.axis("off")
    for axis, i in zip(axes.flat, shown, strict=False):
        axis.imshow(images[i, 0], cmap="gray_r", interpolation="nearest", vmin=0, vmax=1)
        good = guesses[i] == labels[i]
        text = f"{guesses[i]}" if good else f"{guesses[i]}, is {labels[i]}"
        share = f"  {probabilities[i, guesses[i]]:.0%}"
        axis.set_title(text + share, color=INK if good else WRONG, fontsize=9, pad=3, loc="center")
    figure.suptitle(
        f"{len(mistakes)} mistakes in {len(labels)} test digits", x=0.02, ha="left", fontsize=12
    )
    _save(figure, path)


def classify(model: nn.Module, images: np.ndarray) -> np.ndarray:
    """The probabilities of the classes, in batches that fit into memory."""
    model.eval()
    device = next(model.parameters()).device
    parts = []
    for start in range(0, len(images), 256):
        scores = model(it.asarray(images[start : start + 256], device=device)).detach()
        parts.append(it.softmax(scores, axis=-1).numpy())
    return np.concatenate(parts)


def confusion_matrix(path: Path, counts: np.ndarray) -> None:
    """Counts, coloured by their share of the row so that rare mistakes are seen."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure, axis = plt.subplots(figsize=(6.4, 6))
    axis.imshow(np.sqrt(shares), cmap="Blues", vmin=0, vmax=1.15)
    for (row, column), count in np.ndenumerate(counts):
        if count:
            colour = "white" if row == column else WRONG
            axis.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=9)
    axis.set(xticks=range(len(counts)), yticks=range(len(counts)), xlabel="taken for", ylabel="is")
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    accuracy = np.trace(counts) / counts.sum()
    axis.set_title(f"Test digits: {accuracy:.2%} right")
    _save(figure, path)


def loss_curve(path: Path, history: Path) -> None:
    """The loss of each step, smoothed, and of each validation; below, the accuracies."""
    lines = read_jsonl(history)
    epochs = [line for line in lines if "epoch" in line]
    steps = [line for line in lines if "epoch" not in line]
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(7.5, 6.4), sharex=True, height_ratios=[3, 2]
    )
    x, losses = [s["step"] for s in steps], np.array([s["loss"] for s in steps])
    above.plot(x, losses, color=ACCENT, alpha=0.25, linewidth=0.8)
    above.plot(x, smooth(losses), color=ACCENT, label="training")
    ends = [e["step"] for e in epochs]
    above.plot(ends, [e["valid/loss"] for e in epochs], "o-", color=WRONG, ms=3, label="validation")
    above.set(yscale="log", ylabel="loss", title="Loss and accuracy by step")
    for part, colour, name in (("train", ACCENT, "training"), ("valid", WRONG, "validation")):
        values = [100 * e[f"{part}/accuracy"] for e in epochs]
        below.plot(ends, values, "o-", color=colour, ms=3, label=name)
    below.set(xlabel="step", ylabel="accuracy, %")
    for axis in (above, below):
        axis.grid(color=GRID, linewidth=0.6)
        axis.legend(frameon=False)
    _save(figure, path)


def smooth(values: np.ndarray, keep: float = 0.9) -> np.ndarray:
    """The exponential moving average, corrected for its start."""
    smoothed, mean, weight = np.empty(len(values)), 0.0, 0.0
    for i, value in enumerate(values):
        mean, weight = keep * mean + (1 - keep) * value, keep * weight + 1 - keep
        smoothed[i] = mean / weight
    return smoothed


def _save(figure: plt.Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    with nn.writing(path):
        figure.savefig(path)
    plt.close(figure)
