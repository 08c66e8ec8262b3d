"""One tensor on each of two members, then a model whose halves are on different devices.

python examples/router/split.py cpu numpy
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile
from ingle.router import Report, Router, data_parallel


class Split(nn.Module):
    """A small network: its first layer is on one device, its last on another."""

    def __init__(self, first: str, second: str) -> None:
        self.second = second
        self.lower = nn.Sequential(nn.Linear(2, 16), nn.Tanh()).to(first)
        self.upper = nn.Linear(16, 2).to(second)

    def forward(self, x: it.Tensor) -> it.Tensor:
        hidden: it.Tensor = self.lower(x)
        found: it.Tensor = self.upper(hidden.to_device(self.second))
        return found


def spirals(count: int) -> tuple[it.Tensor, it.Tensor]:
    """Points of two spirals, and which one each is of."""
    turn = it.linspace(0.5, 5.0, count)
    label = it.arange(count) % 2
    angle = turn + 3.14159 * label
    points = it.stack([turn * it.cos(angle), turn * it.sin(angle)], axis=1) / 5.0
    return points, label


def run(members: Sequence[str], steps: int) -> tuple[list[float], Report]:
    """Trains the split model; the losses, and what the router did."""
    with Router(*members, mixed="largest") as router:
        first, second = str(router[0]), str(router[1])
        x = it.asarray([1.0, 2.0], device=first)
        y = it.asarray([10.0, 20.0], device=second)
        print(f"{x.device} + {y.device} = {(x + y).tolist()} on {(x + y).device}")

        it.random.seed(0)
        points, labels = spirals(200)
        points, labels = points.to_device(first), labels.to_device(second)
        model = Split(first, second)
        optimizer = optim.Adam(model, lr=0.02)

        @compile
        def step(points: it.Tensor, labels: it.Tensor) -> it.Tensor:
            loss = it.cross_entropy(model(points), labels)
            optimizer.step(loss.backward())
            return loss

        losses = [step(points, labels).item() for _ in range(steps)]
        whole, _ = data_parallel(
            lambda x, y: it.cross_entropy(model(x.to_device(first)), y.to_device(second)),
            points, labels, devices=router.devices,
        )  # fmt: skip
        print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, in two parts {whole.item():.3f}")
        return losses, router.report()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("members", nargs="*", default=["cpu", "numpy"])
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    _, report = run(given.members, given.steps)
    print(report)


if __name__ == "__main__":
    main()
