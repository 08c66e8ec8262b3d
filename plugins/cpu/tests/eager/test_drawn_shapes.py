"""Random numbers of many shapes: the same as those of one, without a plan for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion.device import GraphPlans
from ingle_cpu.eager import single_operation

DRAWN = {
    "bits": it.random_bits,
    "uniform float32": it.random_uniform,
    "uniform float64": lambda shape, place, **k: it.random_uniform(
        shape, place, dtype="float64", **k
    ),
    "uniform bfloat16": lambda shape, place, **k: it.random_uniform(
        shape, place, dtype="bfloat16", **k
    ),
    "normal": it.random_normal,
}
SHAPES = [(), (0, 3), (1,), (17,), (5, 7), (3, 2, 9), (33, 3), (260,), (257,), (16, 16)]


@pytest.mark.parametrize("name", DRAWN)
def test_each_shape_has_its_numbers(name: str) -> None:
    draw: Any = DRAWN[name]
    for n, shape in enumerate((*SHAPES, *SHAPES[::-1])):
        place = 0x0123456789ABCDEF, (1 << 32) - n  # a carry among the first ones
        mine, reference = (draw(shape, place, device=name).numpy() for name in ("cpu", "numpy"))
        assert mine.shape == shape
        assert mine.dtype == reference.dtype
        np.testing.assert_array_equal(mine, reference)


def test_orders_of_many_lengths() -> None:
    for n in (0, 1, 2, *range(500, 530)):
        it.random.seed(n)
        mine = it.random.permutation(n, device="cpu").numpy()
        it.random.seed(n)
        np.testing.assert_array_equal(mine, it.random.permutation(n, device="numpy").numpy())


def test_lengths_that_grow_share_a_few_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Noted(GraphPlans):
        def __init__(self, *args: Any, **options: Any) -> None:
            made.append(args)
            super().__init__(*args, **options)

    monkeypatch.setattr(single_operation, "GraphPlans", Noted)
    for n in range(3001, 3061):
        it.random_uniform((n,), (5, n), dtype="float64", device="cpu").numpy()
    assert len(made) <= single_operation.SHAPES + 2


def test_what_is_drawn_is_its_own_memory() -> None:
    """It is the first part of a longer row, which nobody else writes to."""
    kept = []
    for n in range(40, 60):
        x = it.random_uniform((n,), (9, 9), device="cpu")
        kept.append((x.numpy().copy(), x))
        y = x + 0.0
        y[0] = 7.0
        y += 1.0
    for values, x in kept:
        np.testing.assert_array_equal(x.numpy(), values)
    with pytest.raises(ValueError, match="read-only"):
        kept[-1][1].numpy()[0] = 1.0
