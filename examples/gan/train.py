"""Two nets play against each other until one draws digits: `python train.py`.

A Wasserstein GAN with a penalty on the critic's gradient (Gulrajani et al., 2017), on
scikit-learn's 8x8 digits, or on MNIST's with `--data`. The penalty is a gradient within the loss,
so that the critic's step differentiates twice; both steps are compiled.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.autodiff import grad, no_grad
from ingle.dataset import ArrayDataset, Loader, mnist
from ingle.fusion import compile


class Generator(nn.Module):
    """Pictures from -1 (paper) to 1 (ink), of random numbers."""

    def __init__(self, numbers: int, width: int, size: int) -> None:
        self.small = size // 4
        self.width = width
        self.first = nn.Linear(numbers, 2 * width * self.small**2)
        self.norm1, self.norm2 = nn.BatchNorm2d(2 * width), nn.BatchNorm2d(width)
        self.grow1 = nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1)
        self.grow2 = nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1)

    def forward(self, numbers: it.Tensor) -> it.Tensor:
        x = self.first(numbers)
        x = it.reshape(x, (len(numbers), 2 * self.width, self.small, self.small))
        x = self.grow1(it.relu(self.norm1(x)))
        return it.tanh(self.grow2(it.relu(self.norm2(x))))


class Critic(nn.Module):
    """A number for each picture, higher for true ones.

    It has no batch normalization: the penalty is on the gradient of each picture by itself.
    """

    def __init__(self, width: int, size: int) -> None:
        self.conv1 = nn.Conv2d(1, width, 4, stride=2, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 4, stride=2, padding=1)
        self.head = nn.Linear(2 * width * (size // 4) ** 2, 1)

    def forward(self, x: it.Tensor) -> it.Tensor:
        x = it.leaky_relu(self.conv1(x), 0.2)
        x = it.leaky_relu(self.conv2(x), 0.2)
        scores: it.Tensor = self.head(it.flatten(x, 1))
        return scores


def penalty(critic: nn.Module, true: it.Tensor, drawn: it.Tensor) -> it.Tensor:
    """How far the critic's slopes between true and drawn pictures are from 1."""
    share = it.random.uniform((len(true), 1, 1, 1))
    between = true * share + drawn * (1.0 - share)
    slopes = grad(lambda x: it.sum(critic(x)))(between)
    steepness = it.sqrt(it.sum(it.square(slopes), axis=(1, 2, 3)) + 1e-12)
    return it.mean(it.square(steepness - 1.0))


def distance(first: np.ndarray, second: np.ndarray, directions: int = 256) -> float:
    """The sliced Wasserstein distance of two sets of equally many pictures.

    Seen along one direction, the cheapest way to move one set onto the other goes from the smallest
    to the smallest; the mean of that over random directions (Rabin et al., 2011).
    """
    a, b = first.reshape(len(first), -1), second.reshape(len(second), -1)
    ways = np.random.default_rng(0).normal(size=(a.shape[1], directions))
    ways /= np.linalg.norm(ways, axis=0)
    return float(np.abs(np.sort(a @ ways, axis=0) - np.sort(b @ ways, axis=0)).mean())


def load(folder: Path | None) -> np.ndarray:
    """Pictures of shape (n, 1, size, size) from -1 (paper) to 1 (ink)."""
    if folder is not None:
        return np.asarray(mnist(folder, "train").arrays[0] * 2 - 1, np.float32)
    from sklearn.datasets import load_digits

    return np.asarray(load_digits().images[:, None] / 8 - 1, np.float32)


def draw(generator: nn.Module, numbers: it.Tensor) -> np.ndarray:
    """The pictures that the generator makes of numbers."""
    generator.eval()
    with no_grad():
        pictures: np.ndarray = generator(numbers).numpy()
    generator.train()
    return pictures


def grid(rows: Sequence[np.ndarray], scale: int) -> Image.Image:
    """Pictures side by side, with a little room between them."""
    size = rows[0].shape[-1]
    page = np.full((len(rows) * (size + 1) + 1, len(rows[0]) * (size + 1) + 1), 0.85)
    for i, row in enumerate(rows):
        for j, picture in enumerate(row):
            top, left = i * (size + 1) + 1, j * (size + 1) + 1
            page[top : top + size, left : left + size] = (1 - picture[0]) / 2
    image = Image.fromarray((np.clip(page, 0, 1) * 255).astype(np.uint8))
    return image.resize((image.width * scale, image.height * scale), Image.Resampling.NEAREST)


def steps(
    generator: nn.Module, critic: nn.Module, lr: float, numbers: int
) -> tuple[Callable[[it.Tensor], it.Tensor], Callable[[int], it.Tensor]]:
    """A step of the critic, which returns how far it tells the two apart, and of the generator."""
    critics = optim.Adam(critic, lr=lr, betas=(0.5, 0.9))
    generators = optim.Adam(generator, lr=lr, betas=(0.5, 0.9))

    @compile
    def judge(true: it.Tensor) -> it.Tensor:
        with no_grad():
            drawn = generator(it.random.normal((len(true), numbers)))
        apart = it.mean(critic(true)) - it.mean(critic(drawn))
        critics.step((10.0 * penalty(critic, true, drawn) - apart).backward())
        return apart

    @compile
    def improve(count: int) -> it.Tensor:
        loss = -it.mean(critic(generator(it.random.normal((count, numbers)))))
        generators.step(loss.backward())
        return loss

    return judge, improve


def main(argv: Sequence[str] | None = None) -> float:
    """Trains and draws; returns the distance of drawn digits over that of random ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of MNIST's files")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--epochs", type=int, default=120)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--numbers", type=int, default=32, help="random numbers of a picture")
    parser.add_argument("--judged", type=int, default=4, help="steps of the critic for one")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/gan"))
    given = parser.parse_args(argv)

    given.out.mkdir(parents=True, exist_ok=True)
    with it.device(given.device or it.default_device()):
        it.random.seed(given.seed)
        pictures = load(given.data)
        size = pictures.shape[-1]
        batches = Loader(
            ArrayDataset(pictures), given.batch_size, shuffle=True, seed=given.seed, drop_last=True
        )
        generator = Generator(given.numbers, given.width, size)
        critic = Critic(given.width, size)
        judge, improve = steps(generator, critic, given.lr, given.numbers)
        shown = it.random.normal((8, given.numbers))
        seen, done = [draw(generator, shown)], 0
        moments = {round(i) for i in np.linspace(0, given.epochs, 7)}
        for epoch in range(1, given.epochs + 1):
            total = 0.0
            for true in batches:
                total += float(judge(true))
                done += 1
                if done % given.judged == 0:
                    improve(given.batch_size)
            if epoch in moments:
                seen.append(draw(generator, shown))
                print(
                    f"epoch {epoch:3}  the critic tells them apart by {total / len(batches):.3f}",
                    flush=True,
                )
        count = min(len(pictures), 1000)
        drawn = draw(generator, it.random.normal((count, given.numbers)))
        nn.save(given.out / "generator.safetensors", generator)
    rng = np.random.default_rng(given.seed)
    true = pictures[rng.permutation(len(pictures))]
    blind = rng.choice(true[count:].ravel() if len(true) > count else true.ravel(), drawn.shape)
    far, random = distance(drawn, true[:count]), distance(blind, true[:count])
    scale = max(1, 480 // (8 * size))
    rows = [drawn[i : i + 8] for i in range(0, 64, 8)]
    for name, shots in (("samples.png", rows), ("learning.png", seen)):
        with nn.writing(given.out / name):
            grid(shots, scale).save(given.out / name)
    print(f"{given.out / 'samples.png'}: 64 digits; {given.out / 'learning.png'}: eight over time")
    print(
        f"distance to true digits: {far:.3f}; of random pixels {random:.3f}; "
        f"of other true digits {distance(true[-count:], true[:count]):.3f}"
    )
    print(f"share of the distance that is left: {far / random:.4f}")
    return far / random


if __name__ == "__main__":
    main()
