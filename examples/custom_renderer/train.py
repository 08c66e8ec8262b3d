"""Shows a training in a page of one's own: `python train.py`, then open `progress.svg`.

`Page` is a `Renderer`, as the dashboard and the plain lines are: it is told of steps, evaluations
and epochs, and draws them into a file that a browser shows. It can also stop the training: a file
`stop` beside the page ends it after the step.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.dataset import Loader, digits, mnist
from ingle.train import Accuracy, Control, Learner, Renderer, RunFacts, StepFacts

WIDTH, HEIGHT, EDGE = 640, 360, 48
COLOURS = {"each step": "#c5d3da", "train/loss": "#1f6f8b", "valid/loss": "#c0392b"}


class Page(Renderer):
    """Draws the loss of steps and epochs, and how far training is, into an SVG file.

    Args:
        path: of the file; it is replaced as a whole, so that a browser never reads half of one.
        interval: seconds between two drawings while steps are done.
    """

    def __init__(self, path: Path, interval: float = 1.0) -> None:
        self.path = path
        self.interval = interval
        self.losses: list[tuple[float, float]] = []
        self.curves: dict[str, list[tuple[float, float]]] = {}
        self.title, self.share, self.drawn = "", 0.0, 0.0
        self.control = Control()
        self.epochs = 1

    def begin(self, run: RunFacts, control: Control) -> None:
        self.control = control
        self.epochs = run.epochs
        count = sum(sum(module.parameters.values()) for module in run.modules)
        self.title = f"{count:,} parameters on {', '.join(run.devices)}"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.draw()

    def step(self, step: StepFacts) -> None:
        self.losses.append((step.step, step.loss))
        done = step.epoch + (step.batch / step.batches if step.batches else 0.0)
        self.share = done / self.epochs
        if time.monotonic() - self.drawn >= self.interval:
            self.draw()

    def epoch(self, record: dict[str, float], epochs: int) -> None:
        for name in COLOURS:
            if name in record:
                self.curves.setdefault(name, []).append((record["step"], record[name]))
        told = [f"epoch {record['epoch']} of {epochs}"]
        told += [f"{name} {record[name]:.4f}" for name in record if name.startswith("valid/")]
        self.title = "   ".join(told)
        self.draw()

    def poll(self) -> None:
        stop = self.path.with_name("stop")
        if stop.exists():
            stop.unlink()
            self.control.stop("a file asked for it")

    def end(self, reason: str | None) -> None:
        self.title += f"   {reason or 'finished'}"
        self.draw()

    def draw(self) -> None:
        """Writes the page."""
        self.drawn = time.monotonic()
        curves = {"each step": thinned(self.losses, WIDTH)} | self.curves
        points = [point for curve in curves.values() for point in curve]
        last = max((at for at, _ in points), default=1.0)
        top = max((loss for _, loss in points), default=1.0) * 1.05
        parts = [
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            f'<rect x="{EDGE}" y="8" width="{WIDTH - 2 * EDGE}" height="6" fill="#e8eef0"/>',
            f'<rect x="{EDGE}" y="8" width="{(WIDTH - 2 * EDGE) * min(self.share, 1.0):.1f}" '
            'height="6" fill="#1f6f8b"/>',
            text(EDGE, 34, self.title),
        ]
        for i in range(5):
            at = HEIGHT - EDGE - i * (HEIGHT - 2 * EDGE) / 4
            parts.append(f'<path d="M{EDGE} {at:.1f}H{WIDTH - EDGE}" stroke="#eeeeee"/>')
            parts.append(text(4, at + 4, f"{top * i / 4:.2f}"))
        for i, (name, curve) in enumerate(curves.items()):
            spots = " ".join(
                f"{EDGE + x / last * (WIDTH - 2 * EDGE):.1f},"
                f"{HEIGHT - EDGE - y / top * (HEIGHT - 2 * EDGE):.1f}"
                for x, y in curve
            )
            line = f'fill="none" stroke="{COLOURS[name]}" stroke-width="1.5"'
            parts.append(f'<polyline points="{spots}" {line}/>')
            parts.append(text(EDGE + 110 * i, HEIGHT - 12, name, COLOURS[name]))
        parts.append(text(WIDTH - EDGE - 60, HEIGHT - 12, f"step {last:.0f}"))
        with nn.atomic_write(self.path) as file:
            file.write(page(parts).encode())


def text(x: float, y: float, words: str, colour: str = "#333333") -> str:
    """Words at a place."""
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}">{escape(words)}</text>'


def page(parts: Sequence[str]) -> str:
    """An SVG document of these elements."""
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    style = 'font-family="sans-serif" font-size="12"'
    inside = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{inside}\n</svg>\n'


def thinned(points: list[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most so many points, each the mean of its neighbours."""
    if len(points) <= most:
        return points
    parts = np.array_split(np.array(points), most)
    return [(float(part[-1, 0]), float(part[:, 1].mean())) for part in parts]


def main(argv: Sequence[str] | None = None) -> float:
    """Trains and tests; returns the share of test digits that are recognized."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of MNIST's files")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/custom_renderer"))
    given = parser.parse_args(argv)

    with it.device(given.device or it.default_device()):
        it.random.seed(given.seed)
        parts = [
            digits(name) if given.data is None else mnist(given.data, name)
            for name in ("train", "valid", "test")
        ]
        model = nn.Sequential(
            nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10)
        )
        learner = Learner(
            model,
            optim.SGD(model, lr=given.lr, momentum=0.9),
            it.cross_entropy,
            metrics=[Accuracy()],
            progress=Page(given.out / "progress.svg"),
        )
        batches = Loader(parts[0], given.batch_size, shuffle=True, seed=given.seed)
        learner.fit(batches, epochs=given.epochs, valid=Loader(parts[1], 256))
        accuracy = float(learner.evaluate(Loader(parts[2], 256), [Accuracy()])["accuracy"])
    print(f"open {given.out / 'progress.svg'} in a browser")
    print(f"test accuracy: {accuracy:.4f}")
    return accuracy


if __name__ == "__main__":
    main()
