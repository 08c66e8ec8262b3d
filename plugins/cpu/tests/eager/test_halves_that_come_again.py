"""A small network of half types that is read once and again keeps its bits."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion.runtime.at_once import READ
from ingle.testkit.bits import same_bits

PLANNED = 4
"""Runs after which a log has its plan."""


def asked(x, weight):
    for _ in range(2):
        x = it.tanh(x @ weight + 0.1) * 1.1 - 0.3
    return it.softmax(x, axis=1)


def cast(x, weight):
    return asked(x.astype(it.float16), weight.astype(it.float16)).astype(it.float32)


@pytest.mark.parametrize(
    ("function", "dtype"), [(asked, it.float16), (asked, it.bfloat16), (cast, it.float32)]
)
def test_it_runs_by_its_plan(function, dtype):
    rng = np.random.default_rng(0)
    with it.device("cpu"):
        x, weight = (
            it.asarray(rng.normal(size=(4, 32))),
            it.asarray(rng.normal(size=(32, 32)) * 0.3),
        )
        x, weight = x.astype(dtype), weight.astype(dtype)
    found = [function(x, weight).numpy() for _ in range(PLANNED + 2 * READ)]
    assert all(same_bits(found[PLANNED], one) for one in found[PLANNED:])
