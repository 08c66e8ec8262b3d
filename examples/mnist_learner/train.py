"""Trains a convolutional net on handwritten digits, with a dashboard: `python train.py`.

Takes scikit-learn's 1,797 digits, or MNIST with `--data FOLDER` (downloaded there if need be). All
that a run leaves is in `--out`: the run's file for `ingle train show`, checkpoints, the weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.dashboard import Dashboard
from ingle.dataset import ArrayDataset, Loader, digits, mnist
from ingle.train import (
    Accuracy,
    CheckpointStore,
    EarlyStopping,
    Learner,
    Precision,
    TopKAccuracy,
)


class Block(nn.Module):
    """A convolution, its normalization, and pooling to half the size."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: it.Tensor) -> it.Tensor:
        return it.max_pool2d(it.relu(self.norm(self.conv(x))), 2)


class Net(nn.Module):
    """28x28 pixels to the scores of ten digits."""

    def __init__(self, width: int = 16) -> None:
        self.first = Block(1, width)
        self.second = Block(width, 2 * width)
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(2 * width * 49, 10)

    def forward(self, x: it.Tensor) -> it.Tensor:
        scores: it.Tensor = self.head(self.drop(it.flatten(self.second(self.first(x)), 1)))
        return scores


def load(folder: Path | None) -> list[ArrayDataset]:
    """The digits to train on, to validate and to test."""
    if folder is None:
        return [digits("train"), digits("valid"), digits("test")]
    return [mnist(folder, "train"), mnist(folder, "valid"), mnist(folder, "test")]


def main(argv: Sequence[str] | None = None) -> float:
    """Trains and tests; returns the share of test digits that are recognized."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of MNIST's four files")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/mnist_learner"))
    parser.add_argument("--resume", action="store_true", help="go on with what --out holds")
    given = parser.parse_args(argv)

    with it.device(given.device or it.default_device()):
        it.random.seed(given.seed)
        train, valid, test = load(given.data)
        batches = Loader(train, given.batch_size, shuffle=True, seed=given.seed)
        model = Net()
        steps = given.epochs * len(batches)
        rate = optim.schedule.Cosine(given.lr, steps=steps, warmup=min(100, steps // 10))
        store = CheckpointStore(given.out / "checkpoints", monitor="valid/accuracy")
        if not given.resume:
            store.clear()
        learner = Learner(
            model,
            optim.AdamW(model, lr=rate, weight_decay=1e-2),
            it.cross_entropy,
            metrics=[Accuracy(), TopKAccuracy(3), Precision()],
            checkpoints=store,
            callbacks=[EarlyStopping("valid/accuracy", mode="max", patience=6, restore_best=True)],
            progress=Dashboard(given.out),
        )
        learner.fit(batches, epochs=given.epochs, valid=Loader(valid, 256), resume=given.resume)
        accuracy = float(learner.evaluate(Loader(test, 256), [Accuracy()])["accuracy"])
        nn.save(given.out / "model.safetensors", model, metadata={"test accuracy": accuracy})
    print(f"`ingle train show {given.out}` shows the run again")
    print(f"test accuracy: {accuracy:.4f}")
    return accuracy


if __name__ == "__main__":
    main()
