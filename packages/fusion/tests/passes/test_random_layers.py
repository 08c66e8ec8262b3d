"""Random programs of layers, of which one may be another: passes make of a few what they make of
all."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad

from .layered_graphs import checked, recorded

WIDTH = 6
ALONE: list[Callable[[it.Tensor], it.Tensor]] = [
    it.tanh, it.exp, it.sin, it.relu, it.gelu, it.abs, lambda x: it.softmax(x, axis=-1),
    lambda x: it.layer_norm(x, (WIDTH,)), lambda x: x * 0.5, lambda x: x / 3.0, lambda x: x * x,
    lambda x: it.cumulative_sum(x, axis=1), lambda x: it.flip(x, axis=1),
    lambda x: it.concat([x[:, 2:], x[:, :2]], axis=1), lambda x: it.where(x > 0, x, 0.1 * x),
    lambda x: x - it.max(x, axis=-1, keepdims=True), lambda x: it.stack([x, -x])[0],
    lambda x: x.astype("float64").astype("float32"), lambda x: it.mean(x, axis=0) + x,
]  # fmt: skip
JOINED: list[Callable[[it.Tensor, it.Tensor], it.Tensor]] = [
    it.add, it.multiply, it.subtract, it.maximum, lambda a, b: it.where(a > b, a, b),
]  # fmt: skip
IRREGULAR = (None, "operation", "number", "tied", "read later", "kept", "shifted", "left out")


class Layers:
    """A function of x, a matrix and a vector for each layer."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.count = self.draw.choice([14, 16, 20, 24])
        kinds = ["alone"] * 6 + ["weight", "before", "vector", "first", "number", "kept"]
        self.parts = ["weight", *self.draw.choices(kinds, k=self.draw.randint(9, 16))]
        self.draw.shuffle(self.parts)
        self.alone = [self.draw.choice(ALONE) for _ in self.parts]
        self.joined = [self.draw.choice(JOINED) for _ in self.parts]
        self.far = [self.draw.choice([1, 1, 2, 3]) for _ in self.parts]
        self.irregular = self.draw.choice(IRREGULAR)
        self.at, self.other = self.draw.sample(range(2, self.count - 2), 2)

    def args(self) -> list[it.Tensor]:
        draw = np.random.default_rng(self.count)
        shapes = [(3, WIDTH), *[(WIDTH, WIDTH)] * self.count, *[(WIDTH,)] * self.count]
        arrays = [draw.normal(size=shape).astype(np.float32) * 0.3 for shape in shapes]
        with it.device("cpu"):
            return [it.asarray(array) for array in arrays]

    def __call__(self, x: it.Tensor, *given: it.Tensor) -> list[it.Tensor]:
        made, kept, held = [x], list[it.Tensor](), None
        for layer in range(self.count):
            here, y = layer == self.at, made[-1]
            for part in range(len(self.parts)):
                if here and not part and self.irregular == "left out":
                    continue
                y = self._part(part, layer, y, made, kept, given)
            if here and self.irregular == "operation":
                y = it.cos(y)
            if here and self.irregular == "number":
                y = y * 1.75
            if here and self.irregular == "kept":
                kept.append(y)
            if self.irregular == "read later" and layer in (self.at, self.other):
                held, y = y, y if held is None else y + held
            made.append(y)
        return [made[-1], *kept]

    def _part(
        self, part: int, layer: int, y: it.Tensor, made: Any, kept: Any, given: Any
    ) -> it.Tensor:
        join, far = self.joined[part], self.far[part]
        if self.irregular == "shifted" and layer >= self.at:
            layer = min(layer + 1, self.count - 1)
        near = min(layer + far - 1, self.count - 1)
        match self.parts[part]:
            case "alone":
                return self.alone[part](y)
            case "weight":
                tied = self.irregular == "tied" and layer == self.at
                return y @ given[self.other if tied else layer] * 0.4
            case "before":
                return join(y, made[-far] if len(made) >= far else made[0])
            case "vector":
                return join(y, given[self.count + near])
            case "first":
                return join(y, made[0])
            case "number":
                return y * (0.5 + (layer if far == 1 else 0.25))
        kept.append(y)
        return y


@pytest.mark.slow
@pytest.mark.sampled(4, slow=0)
@pytest.mark.parametrize("with_gradient", [False, True])
@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed: int, with_gradient: bool) -> None:
    run = Layers(seed)

    def slopes(*args: it.Tensor) -> Any:
        def loss(*args: it.Tensor) -> it.Tensor:
            return sum([it.sum(y) for y in run(*args)], it.asarray(0.0))

        return grad(loss, argnums=tuple(range(len(args))))(*args)

    checked(*recorded(slopes if with_gradient else run, *run.args()))
