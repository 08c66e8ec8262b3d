"""The main job as people write it for PyTorch; `bench/main_job.py` times it."""

from __future__ import annotations

import argparse
import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH, RATE, VALID = 128, 1e-3, 10_000


class ConvNet(nn.Module):  # type: ignore[misc]
    """The net of `examples/mnist/model.py`."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.pool = nn.MaxPool2d(2)
        self.hidden = nn.Linear(64 * 7 * 7, 1024)
        self.dropout = nn.Dropout(0.5)
        self.out = nn.Linear(1024, 10)

    def forward(self, x: Any) -> Any:
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        x = self.dropout(torch.relu(self.hidden(x.flatten(1))))
        return self.out(x)


def read(folder: Path, images: str, labels: str) -> TensorDataset:
    """The images from 0 to 1 with their labels."""
    with gzip.open(folder / images) as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(folder / labels) as file:
        of = np.frombuffer(file.read(), np.uint8, offset=8)
    return TensorDataset(
        torch.from_numpy(pixels.astype(np.float32) / 255), torch.from_numpy(of.astype(np.int64))
    )


def test(model: Any, loader: Any) -> tuple[float, float, np.ndarray]:
    """The share of images that are recognized, the mean loss, and the confusion matrix."""
    confusion, losses = np.zeros((10, 10), np.int64), 0.0
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            scores = model(x)
            losses += nn.functional.cross_entropy(scores, y, reduction="sum").item()
            np.add.at(confusion, (y.numpy(), scores.argmax(1).numpy()), 1)
    model.train()
    count = confusion.sum()
    return float(np.trace(confusion) / count), losses / float(count), confusion


def classify(model: Any, images: Any) -> np.ndarray:
    """The probabilities of the classes."""
    model.eval()
    with torch.no_grad():
        parts = [torch.softmax(model(part), 1).numpy() for part in images.split(256)]
    return np.concatenate(parts)


def draw(out: Path, model: Any, tests: Any, confusion: np.ndarray, history: list[Any]) -> None:
    """The three pictures that the example draws, of the same parts."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with plt.rc_context({"figure.dpi": 120, "axes.spines.top": False, "axes.spines.right": False}):
        predictions(plt, out, model, tests)
        figure, ax = plt.subplots(figsize=(6.4, 6))
        shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
        ax.imshow(np.sqrt(shares), cmap="Blues", vmin=0, vmax=1.15)
        for (i, j), count in np.ndenumerate(confusion):
            if count:
                ax.text(j, i, str(count), ha="center", va="center", fontsize=9)
        ax.set(xticks=range(10), yticks=range(10), xlabel="taken for", ylabel="is")
        ax.set_title(f"Test digits: {np.trace(confusion) / confusion.sum():.2%} right")
        save(plt, figure, out / "confusion.png")
        figure, (above, below) = plt.subplots(2, 1, figsize=(7.5, 6.4), sharex=True)
        losses = [record["loss"] for record in history if "loss" in record]
        epochs = [record for record in history if "valid" in record]
        above.plot(losses, alpha=0.25, linewidth=0.8)
        above.plot(smooth(losses), label="training")
        ends = [record["step"] for record in epochs]
        above.plot(ends, [r["valid loss"] for r in epochs], "o-", ms=3, label="validation")
        above.set(yscale="log", ylabel="loss", title="Loss and accuracy by step")
        below.plot(ends, [100 * r["train"] for r in epochs], "o-", ms=3, label="training")
        below.plot(ends, [100 * r["valid"] for r in epochs], "o-", ms=3, label="validation")
        below.set(xlabel="step", ylabel="accuracy, %")
        for ax in (above, below):
            ax.grid(linewidth=0.6)
            ax.legend(frameon=False)
        save(plt, figure, out / "loss.png")


def predictions(plt: Any, out: Path, model: Any, tests: Any) -> None:
    """Test digits with what the model takes them for, its mistakes first."""
    images, labels = tests.tensors[0], tests.tensors[1].numpy()
    probabilities = classify(model, images)
    guesses = probabilities.argmax(1)
    wrong = np.flatnonzero(guesses != labels)
    shown = [*wrong[:10], *np.flatnonzero(guesses == labels)][:40]
    figure, axes = plt.subplots(5, 8, figsize=(9, 6.6))
    for ax in axes.flat:
        ax.axis("off")
    for ax, i in zip(axes.flat, shown, strict=False):
        ax.imshow(images[i, 0], cmap="gray_r", interpolation="nearest", vmin=0, vmax=1)
        ax.set_title(f"{guesses[i]}  {probabilities[i, guesses[i]]:.0%}", fontsize=9, pad=3)
    figure.suptitle(f"{len(wrong)} mistakes in {len(labels)} test digits")
    save(plt, figure, out / "predictions.png")


def smooth(values: list[float], keep: float = 0.9) -> list[float]:
    """The exponential moving average, corrected for its start."""
    found, mean, weight = [], 0.0, 0.0
    for value in values:
        mean, weight = keep * mean + (1 - keep) * value, keep * weight + 1 - keep
        found.append(mean / weight)
    return found


def save(plt: Any, figure: Any, path: Path) -> None:
    """Writes a picture."""
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def main() -> None:
    """Trains, validates, tests, saves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    whole = read(options.data, "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")
    train = TensorDataset(*(t[:-VALID] for t in whole.tensors))
    valid = TensorDataset(*(t[-VALID:] for t in whole.tensors))
    tests = read(options.data, "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
    model = ConvNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    loader = DataLoader(train, BATCH, shuffle=True)
    steps = options.epochs * len(loader)
    warmup = min(50, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda n: (
            (n + 1) / warmup
            if n < warmup
            else (1 + math.cos(math.pi * (n - warmup) / (steps - warmup))) / 2
        ),
    )
    criterion = nn.CrossEntropyLoss()
    history: list[dict[str, float]] = []
    done = 0
    with open(options.out / "history.jsonl", "w") as file:
        for epoch in range(options.epochs):
            right = 0
            for x, y in loader:
                scores = model(x)
                loss = criterion(scores, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                done += 1
                history.append({"step": done, "loss": loss.item()})
                file.write(json.dumps(history[-1]) + "\n")
                right += int((scores.argmax(1) == y).sum())
            accuracy, mean, _ = test(model, DataLoader(valid, 256))
            record = {"epoch": epoch, "step": done, "train": right / len(train)}
            history.append({**record, "valid": accuracy, "valid loss": mean})
            file.write(json.dumps(history[-1]) + "\n")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, options.out / "checkpoint.pt")
    accuracy, _, confusion = test(model, DataLoader(tests, 256))
    torch.save(model.state_dict(), options.out / "model.pt")
    draw(options.out, model, tests, confusion, history)
    print(f"test accuracy: {accuracy:.4f}")


if __name__ == "__main__":
    main()
