"""Trains on folders of one's own pictures, one for each class: `python train.py --data photos`.

`FOLDER/train/CLASS/FILE` and `FOLDER/test/CLASS/FILE`, or `FOLDER/CLASS/FILE`, a quarter of which
is held back. Without `--data` it draws shapes first, dark on light, of any place, size and turn.
Pictures are augmented on the device, as part of the model that trains.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.autodiff import no_grad
from ingle.dashboard import Dashboard
from ingle.dataset import Dataset, ImageFolder, Loader, augment
from ingle.train import Accuracy, CheckpointStore, EarlyStopping, Learner

SIDES = {"circle": 40, "square": 4, "star": 10, "triangle": 3}
"""Corners of each shape; a star has every other of them near its middle."""


def shapes(folder: Path, count: int, seed: int) -> None:
    """Draws `count` pictures of each shape into `FOLDER/SHAPE/NUMBER.png`."""
    rng = np.random.default_rng(seed)
    for name, sides in SIDES.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            ground, paint = rng.integers(150, 256, 3), rng.integers(0, 120, 3)
            picture = Image.new("RGB", (40, 40), tuple(map(int, ground)))
            radius, turn = rng.uniform(9, 15), rng.uniform(0, 2 * math.pi)
            x, y = rng.uniform(radius, 40 - radius, 2)
            corners = []
            for k in range(sides):
                far = radius * (0.45 if name == "star" and k % 2 else 1.0)
                angle = turn + 2 * math.pi * k / sides
                corners.append((x + far * math.cos(angle), y + far * math.sin(angle)))
            ImageDraw.Draw(picture).polygon(corners, fill=tuple(map(int, paint)))
            noise = rng.normal(0, 12, (40, 40, 3))
            noisy = np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8)
            path = folder / name / f"{i}.png"
            with nn.writing(path):
                Image.fromarray(noisy).save(path)


class Net(nn.Module):
    """Pictures to the scores of classes; those that it trains on are changed a little first."""

    def __init__(self, classes: int, width: int) -> None:
        self.change = augment.Compose([
            augment.RandomHorizontalFlip(), augment.RandomVerticalFlip(),
            augment.ColorJitter(0.1, 0.1),
        ])  # fmt: skip
        layers: list[nn.Module] = []
        for inputs, outputs in ((3, width), (width, 2 * width), (2 * width, 4 * width)):
            layers += [
                nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs),
                nn.ReLU(), nn.MaxPool2d(2),
            ]  # fmt: skip
        self.body = nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Dropout(0.2))
        self.head = nn.Linear(4 * width, classes)

    def forward(self, x: it.Tensor) -> it.Tensor:
        x = self.change(x) if self.training else x
        scores: it.Tensor = self.head(self.body((x - 0.5) * 4.0))
        return scores


def load(folder: Path, size: int, seed: int) -> tuple[Dataset[Any], Dataset[Any], tuple[str, ...]]:
    """Pictures to train on and to test with, and the names of the classes."""
    if (folder / "train").is_dir():
        train = ImageFolder(folder / "train", size=(size, size))
        test = ImageFolder(folder / "test", size=(size, size), classes=train.classes)
        return train.cache(), test.cache(), train.classes
    every = ImageFolder(folder, size=(size, size))
    first, second = every.cache().split(0.75, 0.25, seed=seed)
    return first, second, every.classes


def draw(
    path: Path, test: Dataset[Any], told: np.ndarray, classes: Sequence[str], seed: int
) -> None:
    """Some of the test's pictures with what was told of them; mistakes are framed red."""
    rng = np.random.default_rng(seed)
    size, columns = 80, 8
    chosen = rng.permutation(len(test))[: 4 * columns]
    page = Image.new(
        "RGB", (columns * (size + 6) + 6, -(-len(chosen) // columns) * (size + 20) + 6), "white"
    )
    pen = ImageDraw.Draw(page)
    for i, at in enumerate(chosen):
        image, label = test[int(at)]
        pixels = (np.asarray(image).transpose(1, 2, 0) * 255).round().astype(np.uint8)
        left, top = (i % columns) * (size + 6) + 6, i // columns * (size + 20) + 6
        right = told[at] == label
        if not right:
            pen.rectangle((left - 3, top - 3, left + size + 2, top + size + 2), fill="#c0392b")
        page.paste(Image.fromarray(pixels).resize((size, size)), (left, top))
        pen.text((left, top + size + 3), classes[told[at]], fill="#333333" if right else "#c0392b")
    with nn.writing(path):
        page.save(path)


def main(argv: Sequence[str] | None = None) -> float:
    """Trains, tests and draws; returns the share of test pictures that are recognized."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of folders of pictures")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--pictures", type=int, default=250, help="to draw of each shape")
    parser.add_argument("--size", type=int, default=40, help="pixels of a side")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/custom_image_dataset"))
    given = parser.parse_args(argv)

    folder = given.data
    if folder is None:
        folder = given.out / "shapes"
        shapes(folder / "train", given.pictures, given.seed)
        shapes(folder / "test", given.pictures // 4, given.seed + 1)
    train, test, classes = load(folder, given.size, given.seed)
    print(f"{len(train)} pictures to train and {len(test)} to test, of {', '.join(classes)}")
    with it.device(given.device or it.default_device()):
        it.random.seed(given.seed)
        batches = Loader(train, given.batch_size, shuffle=True, seed=given.seed, drop_last=True)
        tested = Loader(test, 128)
        model = Net(len(classes), given.width)
        steps = given.epochs * len(batches)
        rate = optim.schedule.Cosine(given.lr, steps=steps, warmup=min(20, steps // 10))
        store = CheckpointStore(given.out / "checkpoints", monitor="valid/accuracy")
        store.clear()
        learner = Learner(
            model,
            optim.AdamW(model, lr=rate, weight_decay=0.01),
            it.cross_entropy,
            metrics=[Accuracy()],
            checkpoints=store,
            callbacks=[EarlyStopping("valid/accuracy", mode="max", patience=6, restore_best=True)],
            progress=Dashboard(given.out),
        )
        learner.fit(batches, epochs=given.epochs, valid=tested)
        model.eval()
        with no_grad():
            told = np.concatenate([it.argmax(model(x), axis=1).numpy() for x, _ in tested])
    labels = np.array([int(test[i][1]) for i in range(len(test))])
    accuracy = float((told == labels).mean())
    draw(given.out / "told.png", test, told, classes, given.seed)
    print(f"{given.out / 'told.png'}: some of them, with what was told")
    print(f"test accuracy: {accuracy:.4f}")
    return accuracy


if __name__ == "__main__":
    main()
