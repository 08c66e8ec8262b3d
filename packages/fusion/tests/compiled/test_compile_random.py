"""Random programs on all that may change between calls: compiled they do what plain code does."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import numpy as np
import pytest

import ingle.nn as nn
import ingle.tensor as it
from ingle.fusion import compile

NUMBERS = (0, 1, 2, -1, 3, 0.0, -0.0, 0.5, 2.5, -1.5, math.nan, math.inf, np.float64(0.5), 7)


@dataclass
class Options:
    factor: float = 1.0
    names: list = field(default_factory=lambda: ["a"])


class Keeper(nn.Module):
    def __init__(self):
        self.scale = nn.Parameter([1.0, 2.0])
        self.lst = [1.0, 2.0]
        self.table = {"k": 2.0}
        self.arr = np.ones(2, np.float32)
        self.t = it.ones(2)


class World:
    """All state that a program reads and writes, and that others change between its calls."""

    def __init__(self):
        self.total = it.Cell(it.asarray([0.5, -0.5]))
        self.count, self.rate, self.flag = it.Cell(0), it.Cell(0.5), it.Cell(True)
        self.module, self.options = Keeper(), Options()
        self.generator = it.random.Generator(1)
        self.x, self.pair = it.asarray([1.0, 2.0]), {"a": it.asarray([3.0, 4.0]), 1: 2}

    def shown(self):
        return [
            self.total.value.tolist(), self.count.value, self.rate.value, self.flag.value,
            self.generator.state, self.x.tolist(), self.pair["a"].tolist(),
        ]  # fmt: skip


def program(seed):
    """A function of a world and of arguments, made of random steps."""
    draw = random.Random(seed)
    steps = [draw.choice(STEPS) for _ in range(draw.randint(2, 6))]

    def make(w):
        def run(x, n, pair, options):
            y = x * 1.0
            for step in steps:
                y = step(w, y, x, n, pair, options)
            return y, n, {"count": w.count.value}

        return run

    return make


def _count(w, y, x, n, pair, options):
    w.count.value = w.count.value + 1
    return y * (w.count.value % 3 + 1)


def _flip(w, y, x, n, pair, options):
    w.flag.value = not w.flag.value
    return y + 1.0 if w.flag.value else y - 1.0


def _in_place(w, y, x, n, pair, options):
    x += 1.0
    pair["a"][0] = 5.0
    return y + x + pair["a"]


def _add(w, y, x, n, pair, options):
    w.total.value = w.total * 0.5 + y
    return w.total.value


def _rate(w, y, x, n, pair, options):
    w.rate.value = abs(w.rate.value) * 0.75 + 0.25
    return y * w.rate.value


def _branch(w, y, x, n, pair, options):
    if n > 1:
        return y * 2.0
    return -y if n != n else y + 0.25


STEPS = [
    _count, _flip, _in_place, _add, _rate, _branch,
    lambda w, y, x, n, pair, options: y * n,
    lambda w, y, x, n, pair, options: it.copysign(y, n),
    lambda w, y, x, n, pair, options: y + it.asarray(n, dtype="float32"),
    lambda w, y, x, n, pair, options: y * options.factor + len(options.names),
    lambda w, y, x, n, pair, options: y * w.module.scale + w.module.lst[0] * w.module.table["k"],
    lambda w, y, x, n, pair, options: y + it.asarray(w.module.arr) * w.module.t,
    lambda w, y, x, n, pair, options: y + it.random.uniform((2,), generator=w.generator),
    lambda w, y, x, n, pair, options: y * float(str(n).replace("np.float64", "").strip("()")),
    lambda w, y, x, n, pair, options: y * (2 if w.flag.value else 3) + pair[1],
    lambda w, y, x, n, pair, options: y * it.on_host(lambda c: math.cos(c))(w.count.value),
    lambda w, y, x, n, pair, options: y * it.numbers.sin(w.rate.value) + np.exp(w.rate.value),
    lambda w, y, x, n, pair, options: y * 2**w.count.value,
]  # fmt: skip
CHANGES = [
    lambda w, v: None, lambda w, v: None, lambda w, v: None,
    lambda w, v: setattr(w.flag, "value", v > 0), lambda w, v: w.rate.rebind(v),
    lambda w, v: setattr(w.count, "value", int(v > 1) - int(v < 0)),
    lambda w, v: setattr(w.options, "factor", v), lambda w, v: w.options.names.append("b"),
    lambda w, v: w.module.lst.__setitem__(0, v), lambda w, v: w.module.table.update(k=v),
    lambda w, v: w.module.arr.__imul__(np.float32(2)), lambda w, v: w.module.t.__setitem__(0, 3.0),
    lambda w, v: setattr(w.generator, "state", (int(v > 0), 4)), lambda w, v: w.generator.seed(5),
    lambda w, v: w.pair.__setitem__(1, 2 if v > 0 else 2.0),
    lambda w, v: setattr(w, "options", Options(v)),
]  # fmt: skip


def outcome(function, *args):
    try:
        return function(*args)
    except (ArithmeticError, ValueError) as error:
        return type(error)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::ingle.fusion.PlanWarning")
def test_random_programs(seed):
    make, draw = program(seed), random.Random(seed + 1000)
    worlds = World(), World()
    run = make(worlds[0]), compile(make(worlds[1]))
    numbers = draw.sample(NUMBERS, 2)
    for _ in range(14):
        change, value, n = draw.choice(CHANGES), draw.choice(NUMBERS), draw.choice(numbers)
        found = []
        for w, f in zip(worlds, run, strict=True):
            change(w, value)
            found.append(outcome(f, w.x, n, w.pair, w.options))
        if found[0] in (ZeroDivisionError, OverflowError, ValueError):
            assert found[1] is found[0]
            return
        (y, m, c), (other, k, d) = found
        np.testing.assert_allclose(other.numpy(), y.numpy(), rtol=2e-5, atol=1e-5)
        assert repr(m) == repr(k)
        assert c == d
        np.testing.assert_equal(_flat(worlds[1].shown()), _flat(worlds[0].shown()))


def _flat(shown):
    return [np.asarray(part, np.float32) for part in shown]
