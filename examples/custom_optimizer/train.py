"""An optimizer that the library does not have, beside two that it has: `python train.py`.

AdaBelief (Zhuang et al., NeurIPS 2020) takes long steps where gradients are as expected, and short
ones where they surprise. An optimizer says how one parameter moves; groups, schedules, clipping,
saved states and compiled steps are the base's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.autodiff import no_grad
from ingle.dataset import Loader, digits, mnist
from ingle.fusion import compile

mpl.use("Agg")
import matplotlib.pyplot as plt


class AdaBelief(optim.Optimizer):
    """Adam with the variance of gradients around their mean in place of their mean square.

    Args:
        params: a module, parameters or groups, as every optimizer takes them.
        lr: the learning rate or a schedule.
        betas: how much of the mean and the variance each step keeps.
        eps: added to the variance at each step, and to its root.
        weight_decay: by how much of itself, times `lr`, a parameter shrinks each step.
    """

    moments = ("mean", "variance")

    def __init__(
        self,
        params: Any,
        lr: float | Callable[[int], float] = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-12,
        weight_decay: float = 0.0,
        **clipping: Any,
    ) -> None:
        super().__init__(params, lr, betas=betas, eps=eps, weight_decay=weight_decay, **clipping)

    def check_options(self, options: Mapping[str, Any]) -> None:
        if not all(0 <= beta < 1 for beta in options["betas"]):
            raise ValueError(f"AdaBelief: betas must be in [0, 1), got {options['betas']}")

    def update(
        self, slot: optim.Slot, grad: it.Tensor, lr: float, options: Mapping[str, Any]
    ) -> None:
        first, second = options["betas"]
        steps, eps = slot.steps.raw, options["eps"]
        mean, variance = slot.moment("mean"), slot.moment("variance")
        expected = mean.raw + (grad - mean.raw) * (1 - first)
        surprise = variance.raw * second + it.square(grad - expected) * (1 - second) + eps
        mean.value, variance.value = expected, surprise
        # Both began at zero, which counts less and less.
        sure = it.sqrt(surprise / (1 - second**steps)) + eps
        kept = slot.value * (1 - lr * options["weight_decay"])
        slot.value = kept - expected / (1 - first**steps) / sure * lr


def train(
    make: Callable[[nn.Module], optim.Optimizer], given: argparse.Namespace, parts: Sequence[Any]
) -> tuple[list[float], float]:
    """The mean loss of each epoch, and the share of test digits that are recognized."""
    it.random.seed(given.seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = make(model)

    @compile
    def step(images: it.Tensor, labels: it.Tensor) -> it.Tensor:
        loss = it.cross_entropy(model(images), labels)
        optimizer.step(loss.backward())
        return loss

    losses = []
    batches = Loader(parts[0], given.batch_size, shuffle=True, seed=given.seed, drop_last=True)
    for _ in range(given.epochs):
        total = sum(float(step(images, labels)) for images, labels in batches)
        losses.append(total / len(batches))
    with no_grad():
        hits = sum(int(it.sum(it.argmax(model(x), axis=1) == y)) for x, y in Loader(parts[1], 256))
    return losses, hits / len(parts[1])


def draw(path: Path, curves: Mapping[str, Sequence[float]]) -> None:
    """The loss of each optimizer by epoch."""
    figure, axes = plt.subplots(figsize=(6, 3.5), dpi=110)
    for (name, losses), colour in zip(
        curves.items(), ("#c0392b", "#1f6f8b", "#9aa5a9"), strict=True
    ):
        axes.plot(range(1, len(losses) + 1), losses, color=colour, label=name)
    axes.set(xlabel="epoch", ylabel="training loss", yscale="log")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    with nn.writing(path):
        figure.savefig(path)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> float:
    """Trains with each optimizer and draws; returns the accuracy that AdaBelief comes to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of MNIST's files")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/custom_optimizer"))
    given = parser.parse_args(argv)

    given.out.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[nn.Module], optim.Optimizer]] = {
        "AdaBelief": lambda model: AdaBelief(model, lr=given.lr),
        "Adam": lambda model: optim.Adam(model, lr=given.lr),
        "SGD": lambda model: optim.SGD(model, lr=10 * given.lr, momentum=0.9),
    }
    curves, accuracies = {}, {}
    with it.device(given.device or it.default_device()):
        parts = [
            digits(name) if given.data is None else mnist(given.data, name)
            for name in ("train", "test")
        ]
        for name, make in makers.items():
            curves[name], accuracies[name] = train(make, given, parts)
            print(f"{name:9}  loss {curves[name][-1]:.4f}  test accuracy {accuracies[name]:.4f}")
    draw(given.out / "losses.png", curves)
    print(f"test accuracy: {accuracies['AdaBelief']:.4f}")
    return accuracies["AdaBelief"]


if __name__ == "__main__":
    main()
