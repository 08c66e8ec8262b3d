"""Loops over the steps of a sequence, written out in Python, of which tests make long programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import ingle.tensor as it

BATCH, STEPS, WIDTH = 3, 24, 4

Cell: TypeAlias = Callable[..., Any]
"""Makes a state of an input, a state and the parameters."""


def rnn(x: it.Tensor, state: Any, p: Any) -> tuple[it.Tensor, ...]:
    (h,) = state
    return (it.tanh(x @ p[0][:, :WIDTH] + h @ p[1][:, :WIDTH] + p[2][:WIDTH]),)


def gru(x: it.Tensor, state: Any, p: Any) -> tuple[it.Tensor, ...]:
    (h,) = state
    own, before = x @ p[0] + p[2], h @ p[1]
    r, z = (it.sigmoid(own[:, k : k + WIDTH] + before[:, k : k + WIDTH]) for k in (0, WIDTH))
    new = it.tanh(own[:, 2 * WIDTH : 3 * WIDTH] + r * before[:, 2 * WIDTH : 3 * WIDTH])
    return ((1 - z) * new + z * h,)


def lstm(x: it.Tensor, state: Any, p: Any) -> tuple[it.Tensor, ...]:
    h, c = state
    i, f, g, o = it.split(x @ p[0] + h @ p[1] + p[2], WIDTH, axis=-1)
    c = it.sigmoid(f) * c + it.sigmoid(i) * it.tanh(g)
    return it.sigmoid(o) * it.tanh(c), c


CELLS: dict[str, tuple[Cell, int]] = {"rnn": (rnn, 1), "gru": (gru, 1), "lstm": (lstm, 2)}


def parameters(seed: int = 0) -> list[np.ndarray]:
    """Of a cell: what an input, and what a state, is multiplied by; what is added."""
    draw = np.random.default_rng(seed)
    shapes = [(WIDTH, 4 * WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH,)]
    return [draw.normal(size=shape).astype(np.float32) * 0.4 for shape in shapes]


def sequence(steps: int = STEPS, seed: int = 1) -> np.ndarray:
    shape = BATCH, steps, WIDTH
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def unrolled(
    cell: str, x: it.Tensor, p: Any, piece: Callable[[it.Tensor, int], it.Tensor] | None = None
) -> list[it.Tensor]:
    """What a cell makes at each step; `piece` says of a step what it takes."""
    make, states = CELLS[cell]
    state = (it.zeros((x.shape[0], WIDTH)),) * states
    found = []
    for t in range(x.shape[1]):
        state = make(x[:, t] if piece is None else piece(x, t), state, p)
        found.append(state[0])
    return found
