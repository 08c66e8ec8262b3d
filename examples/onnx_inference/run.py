"""Tells what pictures show by a model in an ONNX file: `python run.py --model net.onnx photo.jpg`.

Any model of pictures will do, as the ones of the ONNX model zoo. Without `--model` a small net
first learns to read scikit-learn's digits and is written as ONNX, so that there is one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle import importer
from ingle.dataset import ArrayDataset, Loader, digits
from ingle.fusion import compile
from ingle.train import Learner


def learned(path: Path, epochs: int, seed: int) -> None:
    """Lets a net read digits, and writes it to an ONNX file that takes any number of pictures."""
    it.random.seed(seed)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 49, 10),
    )  # fmt: skip
    x, y = arrays("train")
    learner = Learner(net, optim.AdamW(net, lr=3e-3), it.cross_entropy)
    learner.fit(Loader(ArrayDataset(x, y), 64, shuffle=True, seed=seed), epochs=epochs)
    path.parent.mkdir(parents=True, exist_ok=True)
    importer.export_onnx(
        net.eval(), it.ones((2, 1, 28, 28)), path, dynamic_axes={"x": {0: "batch"}}
    )


def arrays(split: Literal["train", "test"]) -> tuple[np.ndarray, np.ndarray]:
    """All pictures of digits, (N, 1, 28, 28) from 0 to 1, and what they show."""
    images, labels = zip(*digits(split), strict=True)
    return np.stack(images).reshape(-1, 1, 28, 28), np.array(labels)


def prepared(
    file: Path, channels: int, height: int, width: int, mean: Sequence[float],
    deviation: Sequence[float],
) -> np.ndarray:  # fmt: skip
    """A picture as a model wants it, (channels, height, width): its middle, in its size."""
    with Image.open(file) as opened:
        image = opened.convert("RGB" if channels == 3 else "L")
        scale = max(height / image.height, width / image.width)
        size = max(width, round(image.width * scale)), max(height, round(image.height * scale))
        image = image.resize(size, Image.Resampling.BILINEAR)
        left, top = (size[0] - width) // 2, (size[1] - height) // 2
        pixels = np.asarray(image.crop((left, top, left + width, top + height)), np.float32) / 255.0
    pixels = pixels.reshape(height, width, channels).transpose(2, 0, 1)
    middle, spread = (np.array(a, np.float32)[:channels, None, None] for a in (mean, deviation))
    return (pixels - middle) / spread


def main(argv: Sequence[str] | None = None) -> list[int] | float:
    """Tells pictures, or digits; returns their classes, or the share that is right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pictures", nargs="*", type=Path)
    parser.add_argument("--model", type=Path, help="an ONNX file")
    parser.add_argument("--labels", type=Path, help="a file with the name of a class in each line")
    parser.add_argument("--size", type=int, default=224, help="of a side, if open in the file")
    parser.add_argument("--mean", type=float, nargs=3, default=(0.485, 0.456, 0.406))
    parser.add_argument("--deviation", type=float, nargs=3, default=(0.229, 0.224, 0.225))
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--epochs", type=int, default=12, help="of learning digits")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/onnx_inference"))
    given = parser.parse_args(argv)
    with it.device(given.device or it.default_device()):
        own = given.model is None
        path: Path = given.out / "digits.onnx" if own else given.model
        if own and not path.is_file():
            learned(path, given.epochs, given.seed)
        model = importer.load_onnx(path).eval()
        print(f"{path}: {model}")
        told = compile(lambda x: model(x))

        if own and not given.pictures:
            x, y = arrays("test")
            found = told(it.asarray(x)).numpy().argmax(-1)
            start = time.perf_counter()
            told(it.asarray(x)).numpy()
            print(f"{len(x)} pictures in {(time.perf_counter() - start) * 1e3:.1f} ms")
            accuracy = float((found == y).mean())
            print(f"test accuracy: {accuracy:.4f}")
            return accuracy

        sizes = [n if isinstance(n, int) else 0 for n in model.inputs[0].shape or ()]
        if len(sizes) != 4:
            raise SystemExit(f"error: {path} takes {model.inputs[0]}, and no batch of pictures")
        channels, height, width = sizes[1] or 3, sizes[2] or given.size, sizes[3] or given.size
        # Digits were learned from 0 to 1.
        look = ((0.0,) * 3, (1.0,) * 3) if own else (given.mean, given.deviation)
        labels = None if given.labels is None else given.labels.read_text("utf-8").splitlines()
        best = []
        for picture in given.pictures:
            x = prepared(picture, channels, height, width, *look)[None]
            scores = np.asarray(told(it.asarray(x)).numpy()).reshape(-1)
            best.append(int(scores.argmax()))
            name = f"class {best[-1]}" if labels is None else labels[best[-1]]
            print(f"{picture}: {name}, {scores.max():.3f}")
        return best


if __name__ == "__main__":
    main()
