"""Kernels of indexing beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it

SHAPES = [(0,), (9,), (5, 3), (3, 0, 2), (1, 7, 1), (2, 3, 4, 5)]


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float64", "complex64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_places_of_what_is_not_zero(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2, shape).astype(dtype)
    if dtype.startswith("float"):
        x[rng.random(shape) < 0.2] = np.nan
        x[rng.random(shape) < 0.2] = -0.0
    for array in (x, x.T, x[::-1]):
        with it.device("numpy"):
            found = it.nonzero(it.asarray(array))
        for axis, places in enumerate(np.nonzero(array)):
            assert found[axis].dtype == it.int64
            np.testing.assert_array_equal(found[axis].numpy(), places)
