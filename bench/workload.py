"""What a workload is: its inputs, how it runs and how results are compared.

A workload says which function runs (`function`, a name that a system's table knows), on which
arrays, and in which way (`kind`):

- `forward`: the function of the arrays.
- `backward`: the function and the gradients of its result by all arrays, for a given cotangent.
- `train`: a whole step of a model: loss, gradients, AdamW. The result is the loss.
- `decode`: greedy decoding of a small GPT, token by token. The result is the tokens.
- `generate`: the same in plain code without a cache: each token reads all before it.
- `infer`: a published model on one input.
- `write`: a published model that writes, token by token with a cache; each time the likeliest token
  is read, and a given one goes in, so that rounded weights can be compared. The result is the last
  scores.
- `overhead`: the function many times on small arrays, for the time of one call.
- `import`: a fresh process imports the library and says how long it took.
- `first-call`: a fresh process, ready to train, says how long its first steps took.
- `act`: an action of a small actor and critic, read as a number, and a step that learns from it, in
  plain code: what counts is the time of a call. The result is the loss.
- `stall`: the same process says how much longer the slowest of them took than a later step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]
Kind = Literal[
    "forward", "backward", "train", "decode", "generate", "overhead", "import", "first-call",
    "stall", "act", "infer", "write",
]  # fmt: skip
SELF_TIMED = ("import", "first-call", "stall")
"""Kinds whose runs answer with seconds instead of results."""
DRAWN = (1 << 23) - 15
"""Random numbers of an array at most; a prime, so that rows are not alike where they repeat."""

LEARNING_RATE = 1e-3
"""Of each step of training."""
EPSILON = 1e-5
"""Of each norm."""


@dataclass(frozen=True)
class Workload:
    """One row of the benchmark.

    Attributes:
        name: `family/size[/variant]`.
        kind: how `function` is run.
        function: its name in the systems' tables.
        inputs: makes the arrays, always the same ones.
        options: sizes that the function needs besides.
        parameters: makes the weights of a model.
        repeat: calls in one run; times are divided by it.
        tolerance: of results, relative to the largest magnitude.
        flops: multiplications and additions that one call cannot do without.
        nbytes: bytes that one call must read and write, each once; 0 where neither bounds it.
        dtype: that the floats of the inputs have, and so the result.
        precision: in which a step of training computes while its weights stay float32; empty: in
            theirs.
    """

    name: str
    kind: Kind
    function: str
    inputs: Callable[[], tuple[Array, ...]] = tuple
    options: Mapping[str, Any] = field(default_factory=dict)
    parameters: Callable[[], dict[str, Array]] = dict
    repeat: int = 1
    tolerance: float = 1e-3
    flops: float = 0.0
    nbytes: float = 0.0
    dtype: str = "float32"
    precision: str = ""

    def cotangent(self, shape: tuple[int, ...]) -> Array:
        """What gradients are asked for, the same on every system; many repeat a part of them."""
        count = math.prod(shape)
        drawn = np.random.default_rng(1).standard_normal(min(count, DRAWN))
        return np.resize(drawn.astype(np.float32), count).reshape(shape)


def normal(*shapes: tuple[int, ...], scale: float = 1.0) -> Callable[[], tuple[Array, ...]]:
    """Arrays of normal numbers, made when they are asked for."""

    def make() -> tuple[Array, ...]:
        rng = np.random.default_rng(0)
        return tuple((rng.standard_normal(s) * scale).astype(np.float32) for s in shapes)

    return make


def labelled(batch: int, shape: tuple[int, ...], classes: int) -> Callable[[], tuple[Array, ...]]:
    """A batch of normal numbers with labels."""

    def make() -> tuple[Array, ...]:
        rng = np.random.default_rng(3)
        x = rng.standard_normal((batch, *shape)).astype(np.float32)
        return x, rng.integers(0, classes, batch)

    return make


def tokens(batch: int, length: int, vocabulary: int) -> Callable[[], tuple[Array, ...]]:
    """Token ids and the ids to predict."""

    def make() -> tuple[Array, ...]:
        rng = np.random.default_rng(5)
        x, y = rng.integers(0, vocabulary, (2, batch, length))
        return x, y

    return make


def weights(shapes: Mapping[str, tuple[int, ...]]) -> Callable[[], dict[str, Array]]:
    """Weights by name: zeros for `.bias`, ones for `.scale`, else normal by fan-in."""

    def make() -> dict[str, Array]:
        rng = np.random.default_rng(7)
        made = {}
        for name, shape in shapes.items():
            if name.endswith(".bias"):
                made[name] = np.zeros(shape, np.float32)
            elif name.endswith(".scale"):
                made[name] = np.ones(shape, np.float32)
            else:
                spread = 0.02 if name.endswith("embedding") else 1 / math.sqrt(np.prod(shape[1:]))
                made[name] = (rng.standard_normal(shape) * spread).astype(np.float32)
        return made

    return make


def sizes_of(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """How many numbers a model has."""
    return sum(math.prod(s) for s in shapes.values())


def with_gradient(forward: Workload, *, flops: float = 3, nbytes: float = 2) -> list[Workload]:
    """A workload and the same with gradients, which take some times as much."""
    backward = replace(
        forward, name=f"{forward.name}/backward", kind="backward",
        flops=flops * forward.flops, nbytes=nbytes * forward.nbytes,
    )  # fmt: skip
    return [forward, backward]


def chosen(rows: Sequence[Workload], patterns: str) -> list[Workload]:
    """Workloads whose names contain one of the comma-separated patterns; all if there are none."""
    wanted = [p for p in patterns.split(",") if p]
    return [w for w in rows if not wanted or any(p in w.name for p in wanted)]
