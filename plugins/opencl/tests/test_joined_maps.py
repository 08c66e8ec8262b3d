"""Maps that write parts of one value are one kernel, with the bits of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.testkit.bits import same_bits


def turned(x: Any) -> Any:
    """The halves of a rotary embedding."""
    a, b = x[:, :19], x[:, 19:]
    return it.concat([a * 0.5 - b, a + b * 0.5], axis=1)


def by_codes(x: Any) -> Any:
    codes = it.asarray(np.arange(5 * 19, dtype=np.uint8).reshape(5, 19), device="opencl")
    return it.quantized_linear(x, codes, it.ones((5, 1), device="opencl"), dtype="int4")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "kernels"),
    [(turned, 1), (lambda x: it.stack([x * 2, x - 1], axis=-1), 1), (by_codes, 2)],
    ids=["rotary", "stack", "codes"],
)
def test_parts_of_one_value(function: Callable[[Any], Any], kernels: int) -> None:
    rows = np.random.default_rng(0).standard_normal((3, 38)).astype(np.float32)
    x = it.asarray(rows, device="opencl")
    assert len(explain(function, x, runs=0).steps) == kernels
    alone, made = function(x).numpy(), compile(function)
    for _ in range(3):
        assert same_bits(made(x).numpy(), alone)
