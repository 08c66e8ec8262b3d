"""Teaches a net to take noise away, and draws digits out of noise with it: `python train.py`.

Denoising diffusion (Ho et al., 2020) on scikit-learn's 8x8 digits, or on MNIST's with `--data`.
Writes a picture of digits that nobody wrote, and of how they come about.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.autodiff import no_grad
from ingle.dashboard import Dashboard
from ingle.dataset import ArrayDataset, Loader, mnist
from ingle.train import Learner, WeightAverage


class Noise:
    """How a picture turns into noise: x_t = sqrt(kept_t) * x + sqrt(1 - kept_t) * noise.

    Args:
        count: how many times a little noise is added. What is kept falls as a squared cosine
            (Nichol and Dhariwal, 2021).
    """

    def __init__(self, count: int) -> None:
        self.count = count
        at = np.linspace(0, 1, count + 1)
        curve = np.cos((at + 0.008) / 1.008 * math.pi / 2) ** 2
        self.betas = np.clip(1 - curve[1:] / curve[:-1], 0, 0.999).astype(np.float32)
        self.kept = np.cumprod(1 - self.betas, dtype=np.float64).astype(np.float32)

    def augment(self, batch: Any, rng: np.random.Generator) -> Any:
        """Of pictures, ((noisy pictures, their times), the noise in them)."""
        (pictures,) = batch if isinstance(batch, tuple) else (batch,)
        times = rng.integers(0, self.count, len(pictures))
        noise = rng.normal(size=pictures.shape).astype(np.float32)
        kept = self.kept[times][:, None, None, None]
        return (np.sqrt(kept) * pictures + np.sqrt(1 - kept) * noise, times), noise


class Block(nn.Module):
    """Two convolutions beside a short cut, told what time it is."""

    def __init__(self, inputs: int, outputs: int, told: int) -> None:
        self.norm1, self.norm2 = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(told, outputs)
        self.short: nn.Module = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: it.Tensor, time: it.Tensor) -> it.Tensor:
        y = self.conv1(it.silu(self.norm1(x)))
        y = y + self.time(time)[:, :, None, None]
        result: it.Tensor = self.conv2(it.silu(self.norm2(y))) + self.short(x)
        return result


class Denoiser(nn.Module):
    """The noise in pictures, guessed at two sizes (a small U-net)."""

    def __init__(self, width: int, count: int) -> None:
        self.width = width
        self.told = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(),
                                  nn.Linear(2 * width, 2 * width))  # fmt: skip
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.down = Block(width, width, 2 * width)
        self.shrink = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.middle = Block(2 * width, 2 * width, 2 * width)
        self.grow = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.up = Block(2 * width, width, 2 * width)
        self.last = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, inputs: tuple[it.Tensor, it.Tensor]) -> it.Tensor:
        x, times = inputs
        waves = it.exp(it.arange(self.width // 2, dtype="float32") * (-8.0 / (self.width // 2)))
        angles = it.expand_dims(it.astype(times, "float32"), 1) * waves
        time = self.told(it.concat([it.sin(angles), it.cos(angles)], axis=1))
        fine = self.down(self.first(x), time)
        coarse = self.middle(self.shrink(fine), time)
        noise: it.Tensor = self.last(self.up(it.concat([fine, self.grow(coarse)], axis=1), time))
        return noise


def draw(model: nn.Module, noise: Noise, count: int, size: int, seed: int) -> list[np.ndarray]:
    """Pictures at eight moments, from pure noise to the end."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 1, size, size)).astype(np.float32)
    moments = {round(i) for i in np.linspace(0, noise.count - 1, 8)}
    seen = []
    with no_grad():
        for t in reversed(range(noise.count)):
            guess = model((it.asarray(x), it.full((count,), t))).numpy()
            kept, beta = noise.kept[t], noise.betas[t]
            before = noise.kept[t - 1] if t else np.float32(1)
            # The picture as it looks from here, not beyond black and white.
            clean = np.clip((x - np.sqrt(1 - kept) * guess) / np.sqrt(kept), -1, 1)
            mean = np.sqrt(before) * beta * clean + np.sqrt(1 - beta) * (1 - before) * x
            x = np.asarray(mean / (1 - kept), np.float32)
            if t:
                spread = np.sqrt(beta * (1 - before) / (1 - kept))
                x = x + spread * rng.normal(size=x.shape).astype(np.float32)
            if t in moments:
                seen.append(x[:, 0])
    return seen


def grid(pictures: np.ndarray, columns: int, scale: int) -> Image.Image:
    """Pictures side by side, with a little room between them."""
    count, size, _ = pictures.shape
    rows = -(-count // columns)
    page = np.full((rows * (size + 1) + 1, columns * (size + 1) + 1), 0.85)
    for i, picture in enumerate(pictures):
        top, left = (i // columns) * (size + 1) + 1, (i % columns) * (size + 1) + 1
        page[top : top + size, left : left + size] = (1 - picture) / 2
    image = Image.fromarray((np.clip(page, 0, 1) * 255).astype(np.uint8))
    return image.resize((image.width * scale, image.height * scale), Image.Resampling.NEAREST)


def load(folder: Path | None) -> np.ndarray:
    """Pictures of shape (n, 1, size, size) from -1 (paper) to 1 (ink)."""
    if folder is not None:
        return np.asarray(mnist(folder, "train").arrays[0] * 2 - 1, np.float32)
    from sklearn.datasets import load_digits

    return np.asarray(load_digits().images[:, None] / 8 - 1, np.float32)


def main(argv: Sequence[str] | None = None) -> float:
    """Trains and draws; returns the mean square error of the noise that is guessed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of MNIST's files")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--times", type=int, default=100, help="steps from picture to noise")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/diffusion"))
    given = parser.parse_args(argv)

    with it.device(given.device or it.default_device()):
        it.random.seed(given.seed)
        pictures, noise = load(given.data), Noise(given.times)
        batches = Loader(
            ArrayDataset(pictures), given.batch_size, shuffle=True, seed=given.seed,
            drop_last=True, augment=noise.augment,
        )  # fmt: skip
        model = Denoiser(given.width, given.times)
        steps = given.epochs * len(batches)
        average = WeightAverage(model, decay=0.99)
        learner = Learner(
            model,
            optim.Adam(model, lr=optim.schedule.Cosine(given.lr, steps=steps, warmup=20)),
            it.mse_loss,
            max_grad_norm=1.0,
            callbacks=[average],
            progress=Dashboard(given.out),
        )
        history = learner.fit(batches, epochs=given.epochs)
        seen = draw(average.average.module, noise, 64, pictures.shape[-1], given.seed)
    scale = max(1, 480 // (8 * pictures.shape[-1]))
    steps_of_some = np.concatenate([moment[:8] for moment in zip(*seen, strict=True)][:4])
    for name, shots in (("samples.png", seen[-1]), ("steps.png", steps_of_some)):
        with nn.writing(given.out / name):
            grid(shots, 8, scale).save(given.out / name)
    print(f"{given.out / 'samples.png'}: 64 digits; {given.out / 'steps.png'}: how they come about")
    print(f"mean square error of the noise: {history[-1]['train/loss']:.4f}")
    return history[-1]["train/loss"]


if __name__ == "__main__":
    main()
