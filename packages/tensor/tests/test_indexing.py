"""Reading, replacing and adding by index, against NumPy and PyTorch."""

from __future__ import annotations

import builtins
from typing import Any

import ingle.tensor as it
import numpy as np
import pytest
from ingle.tensor.errors import (
    AxisError,
    DTypeError,
    OperandError,
    OutOfRangeError,
    ShapeError,
)


def random_slice(rng: np.random.Generator, size: int) -> builtins.slice:
    def bound() -> int | None:
        return None if rng.random() < 0.3 else int(rng.integers(-size - 2, size + 3))

    step = int(rng.choice([-3, -2, -1, 1, 2, 3]))
    return builtins.slice(bound(), bound(), None if rng.random() < 0.4 else step)


def random_key(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A key that NumPy accepts most of the time, with every kind of item."""
    common = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3))))
    key: list[Any] = []
    axis, dots = 0, False
    while axis < len(shape) and rng.random() < 0.9:
        kind = rng.choice(
            ["int", "slice", "none", "dots", "array", "list", "mask", "scalar", "bool"],
            p=[0.17, 0.25, 0.08, 0.07, 0.22, 0.07, 0.08, 0.03, 0.03],
        )
        size = shape[axis]
        if kind == "none":
            key.append(None)
            continue
        if kind == "bool":
            key.append(bool(rng.integers(0, 2)))
            continue
        if kind == "dots":
            if not dots:
                key.append(...)
                dots = True
                axis += int(rng.integers(0, 2))
            continue
        if kind == "mask":
            span = int(rng.integers(1, min(2, len(shape) - axis) + 1))
            key.append(rng.random(shape[axis : axis + span]) < 0.5)
            axis += span
            continue
        if kind == "slice":
            key.append(random_slice(rng, size))
        elif not size:
            key.append(np.zeros((0,), np.int64))
        elif kind == "int":
            key.append(int(rng.integers(-size, size)))
        elif kind == "scalar":
            key.append(np.array(rng.integers(-size, size)))
        else:
            drop = tuple(1 if rng.random() < 0.2 else n for n in common)
            values = rng.integers(-size, size, drop[int(rng.integers(0, len(drop) + 1)) :])
            key.append(values.tolist() if kind == "list" else values)
        axis += 1
    return tuple(key)


def as_ours(key: tuple[Any, ...], rng: np.random.Generator) -> tuple[Any, ...]:
    """The key with some of its arrays as tensors."""
    return tuple(
        it.asarray(k) if isinstance(k, np.ndarray) and rng.random() < 0.7 else k for k in key
    )


SHAPES = [(), (5,), (3, 4), (2, 3, 4), (2, 1, 3, 2), (3, 0, 2)]


@pytest.mark.parametrize("seed", range(40))
def test_getitem_equals_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(25):
        shape = SHAPES[int(rng.integers(0, len(SHAPES)))]
        values = rng.normal(size=shape)
        key = random_key(rng, shape)
        try:
            expected = values[key]
        except IndexError:
            with pytest.raises((IndexError, ValueError)):
                it.asarray(values)[as_ours(key, rng)]
            continue
        try:
            got = it.asarray(values)[as_ours(key, rng)]
        except OutOfRangeError:
            # NumPy does not look at indices of which nothing is read.
            assert not expected.size
            continue
        np.testing.assert_array_equal(got.numpy(), expected, err_msg=f"{shape} {key}")
        assert got.shape == expected.shape, (shape, key)


@pytest.mark.parametrize("seed", range(40))
def test_setitem_equals_numpy(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    for _ in range(25):
        shape = SHAPES[int(rng.integers(0, len(SHAPES)))]
        values = rng.normal(size=shape)
        key = random_key(rng, shape)
        try:
            piece = values[key].shape
        except IndexError:
            continue
        cut = piece[int(rng.integers(0, len(piece) + 1)) :]
        new = rng.normal(size=tuple(1 if rng.random() < 0.2 else n for n in cut))
        x = it.asarray(values)
        try:
            x[as_ours(key, rng)] = it.asarray(new)
        except OutOfRangeError:
            assert not values[key].size
            continue
        expected = values.copy()
        expected[key] = new
        np.testing.assert_array_equal(x.numpy(), expected, err_msg=f"{shape} {key}")
        added = values.copy()
        np.add.at(added, key, new)
        got = it.asarray(values).at[as_ours(key, rng)].add(new)
        np.testing.assert_allclose(got.numpy(), added, rtol=1e-12, err_msg=f"{shape} {key}")
