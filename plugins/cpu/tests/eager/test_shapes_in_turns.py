"""A call on operands of other shapes and dtypes is another one, also of the same operations."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it

FUNCTIONS = {
    "exp": (it.exp, np.exp),
    "double": (lambda x: x.astype("float64"), lambda x: x.astype("float64")),
    "relu": (it.relu, lambda x: np.maximum(x, 0)),
    "add": (lambda x: x + x, lambda x: x + x),
    "mean": (lambda x: it.mean(x), lambda x: np.mean(x, dtype=x.dtype)),
    "flat": (lambda x: it.reshape(x, (-1,)), lambda x: x.reshape(-1)),
    "piece": (lambda x: x[..., None], lambda x: x[..., None]),
}
SHAPES = [(), (2, 3), (4,), (1, 2, 3)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_comes_back_has_the_shape_and_dtype_of_what_goes_in(name: str) -> None:
    """Casts of a number that had come a few times gave a number of each tensor that followed."""
    function, reference = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    given = [rng.normal(size=s).astype(d) for s in SHAPES for d in ("float32", "float64")]
    tensors = [it.asarray(x) for x in given]
    for times in (8, 1, 1, 4, 8):
        for x, tensor in zip(given, tensors, strict=True):
            expected = reference(x)
            for _ in range(times):
                result = function(tensor).numpy()
                assert result.shape == expected.shape
                assert result.dtype == expected.dtype
                np.testing.assert_allclose(result, expected, rtol=1e-5)
