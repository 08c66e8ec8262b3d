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

BATCH, RATE, VALID = 128, 1e-3, 5_000


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


def test(model: Any, loader: Any) -> tuple[float, np.ndarray]:
    """The share of images that are recognized, and the confusion matrix."""
    confusion = np.zeros((10, 10), np.int64)
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            np.add.at(confusion, (y.numpy(), model(x).argmax(1).numpy()), 1)
    model.train()
    return float(np.trace(confusion) / confusion.sum()), confusion


def draw(out: Path, model: Any, images: Any, confusion: np.ndarray, losses: list[float]) -> None:
    """The three pictures that the example draws."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with torch.no_grad():
        guesses = model(images[:25]).argmax(1).tolist()
    figure, axes = plt.subplots(5, 5, figsize=(7, 7.5))
    for ax, image, guess in zip(axes.flat, images, guesses, strict=False):
        ax.imshow(image[0], cmap="gray")
        ax.set_title(str(guess))
        ax.axis("off")
    figure.savefig(out / "predictions.png")
    figure, ax = plt.subplots()
    ax.imshow(confusion)
    for i in range(10):
        for j in range(10):
            ax.text(j, i, str(confusion[i, j]), ha="center")
    figure.savefig(out / "confusion.png")
    figure, ax = plt.subplots()
    ax.plot(losses)
    figure.savefig(out / "loss.png")


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
    criterion, losses = nn.CrossEntropyLoss(), []
    with open(options.out / "history.jsonl", "w") as history:
        for epoch in range(options.epochs):
            right = 0
            for x, y in loader:
                scores = model(x)
                loss = criterion(scores, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                losses.append(loss.item())
                right += int((scores.argmax(1) == y).sum())
            accuracy, _ = test(model, DataLoader(valid, 256))
            record = {"epoch": epoch, "train": right / len(train), "valid": accuracy}
            history.write(json.dumps(record) + "\n")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, options.out / "checkpoint.pt")
    accuracy, confusion = test(model, DataLoader(tests, 256))
    torch.save(model.state_dict(), options.out / "model.pt")
    draw(options.out, model, tests.tensors[0], confusion, losses)
    print(f"test accuracy: {accuracy:.4f}")


if __name__ == "__main__":
    main()
