"""Accuracy, size and speed of quantized models, trained on the digits of scikit-learn.

    python bench/quantization.py [--model convolutional|transformer] [--quick]

Each row is a way to quantize the same trained model: the share of right answers among images that
it never saw, bytes of parameters and buffers, and milliseconds of a compiled call on 128 images and
on one, the least of several. Rows that are `trained` went on for a few epochs with rounded weights.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ingle.tensor as it
from ingle import nn, optim
from ingle.autodiff import no_grad
from ingle.dataset import digits
from ingle.fusion import compile
from ingle.tensor import Tensor

Config = nn.QuantizationConfig
Data = tuple[np.ndarray, np.ndarray]

WAYS: dict[str, Config] = {
    "int8": Config(),
    "int8, dynamic": Config(activations="dynamic"),
    "int8, static": Config(activations="static"),
    "int8, static by mse": Config(activations="static", activation_method="mse"),
    "int4": Config("int4"),
    "int4, blocks of 32": Config("int4", per=32),
    "int4, blocks of 32, mse": Config("int4", per=32, weight_method="mse"),
    "nf4, blocks of 32": Config("nf4", per=32),
    "int2, mse": Config("int2", weight_method="mse"),
}
TRAINED = {
    "int4, static, trained": Config("int4", activations="static"),
    "int2, static, trained": Config("int2", activations="static"),
}


class Transformer(nn.Module):
    """Reads an image row by row."""

    def __init__(self) -> None:
        self.embed = nn.Linear(28, 64)
        self.places = nn.Parameter(it.random.normal((28, 64)) * 0.1)
        layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        rows = it.reshape(x, (x.shape[0], 28, 28))
        found: Tensor = self.head(it.mean(self.encoder(self.embed(rows) + self.places), axis=1))
        return found


def convolutional() -> nn.Module:
    """Two convolutions and two dense layers."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 49, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "convolutional": (convolutional, 6),
    "transformer": (Transformer, 20),
}


def arrays(split: Any) -> Data:
    """All images of a split with their labels."""
    images, labels = zip(*digits(split), strict=True)
    return np.stack(images), np.asarray(labels)


def batches(data: Data, epochs: int, size: int = 128) -> Iterator[tuple[Tensor, Tensor]]:
    """Shuffled batches of one size."""
    rng = np.random.default_rng(0)
    for _ in range(epochs):
        order = rng.permutation(len(data[0]))
        for start in range(0, len(order) - size + 1, size):
            chosen = order[start : start + size]
            yield it.asarray(data[0][chosen]), it.asarray(data[1][chosen])


def train(model: nn.Module, data: Data, epochs: int, lr: float) -> None:
    """Trains a model and leaves it in evaluation mode."""
    optimizer = optim.AdamW(model.train(), lr=lr)

    @compile
    def step(x: Tensor, y: Tensor) -> None:
        optimizer.step(it.cross_entropy(model(x), y).backward())

    for x, y in batches(data, epochs):
        step(x, y)
    model.eval()


def measured(model: nn.Module, data: Data, rounds: int) -> tuple[float, int, float, float]:
    """The share of right answers, bytes, and milliseconds for 128 images and for one."""
    call, x = compile(model), it.asarray(data[0])
    with no_grad():
        right = float(np.mean(np.argmax(call(x).numpy(), axis=1) == data[1]))
        times = [_least(call, x[:count], rounds) for count in (128, 1)]
    return right, nn.footprint(model), times[0], times[1]


def _least(call: Callable[[Tensor], Tensor], x: Tensor, rounds: int) -> float:
    for _ in range(3):
        call(x).numpy()
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        call(x).numpy()
        found.append(time.perf_counter() - start)
    return min(found) * 1e3


def main(arguments: list[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--quick", action="store_true", help="one epoch and few ways")
    options = parser.parse_args(arguments)
    data, unseen = arrays("train"), arrays("test")
    rounds = 3 if options.quick else 20
    for name in options.model or MODELS:
        make, epochs = MODELS[name]
        it.random.seed(0)
        model = make()
        train(model, data, 1 if options.quick else epochs, 2e-3)
        print(f"\n{name:26s} {'right':>7s} {'KiB':>8s} {'ms, 128':>8s} {'ms, 1':>8s}")
        _print("float32", measured(model, unseen, rounds))
        ways = dict(list(WAYS.items())[1:2]) if options.quick else WAYS
        for way, config in ways.items():
            seen = [it.asarray(data[0][:256])]
            quantized = nn.quantize(copy.deepcopy(model), config, calibrate=seen)
            _print(way, measured(quantized, unseen, rounds))
        for way, config in {} if options.quick else TRAINED.items():
            prepared = nn.prepare(copy.deepcopy(model), config, train=True)
            train(prepared, data, 5, 5e-4)
            _print(way, measured(nn.convert(prepared), unseen, rounds))


def _print(way: str, found: tuple[float, int, float, float]) -> None:
    right, size, many, one = found
    print(f"{way:26s} {right:7.1%} {size / 1024:8.1f} {many:8.2f} {one:8.2f}", flush=True)


if __name__ == "__main__":
    main()
