"""Long running sums and products in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile

pytest.importorskip("ingle_cpu")

RULE = "split_scan"
CASES = [((1 << 13,), 0), ((20_011,), 0), ((3, 8_193), 1), ((9_000, 5), 0), ((2, 8_200, 3), 1)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_values(splitting: list[Any], shape: Any, axis: int, name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    if name == "cumulative_sum":
        x = (rng.standard_normal(shape) * 3).astype(dtype)
    else:
        x = rng.choice([1, -1], shape) * (
            1 if "int" in dtype else 2.0 ** rng.choice([-1, 1], shape)
        )
        x = x.astype(dtype)
    found = compile(lambda x: getattr(it, name)(x, axis=axis))(it.asarray(x, device="cpu")).numpy()
    with np.errstate(over="ignore"):
        expected = getattr(np, name)(x.astype(np.float64), axis=axis).astype(dtype)
    assert found.dtype == x.dtype
    scale = np.abs(x.astype(np.float64)).sum(axis) if name == "cumulative_sum" else np.asarray(1.0)
    tolerance = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-14}.get(dtype, 0)
    if name == "cumulative_prod":
        np.testing.assert_array_equal(found, expected)
    else:
        spread = np.abs(expected.astype(np.float64)) + np.expand_dims(scale, axis) * 1e-2
        assert (np.abs(found - expected.astype(np.float64)) <= tolerance * spread).all()
    assert any(splitting)


def test_infinities_and_signs_of_zero_are_those_of_one_go(splitting: list[Any]) -> None:
    x = np.full(1 << 13, -0.0, np.float32)
    signs = np.signbit(compile(it.cumulative_sum)(it.asarray(x, device="cpu")).numpy())
    assert signs.all()
    x[3_000], x[6_000] = np.inf, -np.inf
    found = compile(it.cumulative_sum)(it.asarray(x, device="cpu")).numpy()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, np.cumsum(x))
    assert any(splitting)
