"""Elementwise operations by themselves, on more shapes than have plans of their own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor.device import backend_of
from ingle_cpu.eager.any_shape import AnyShapeCall
from ingle_cpu.eager.single_operation import SHAPES

FUNCTIONS = {
    "exp": lambda x, n: it.exp(x),
    "pow": lambda x, n: it.abs(x) ** n,
    "remainder": lambda x, n: it.remainder(x, n),
    "atan2": lambda x, n: it.atan2(x, x),
    "gelu": lambda x, n: it.gelu(x),
    "sinh": lambda x, n: it.sinh(x),
}
SIZES = [(3,), (4, 5), (), (2, 3, 4), (31,), (7, 11), (1, 1), (300, 401), (16,), (5, 5, 5), (64,)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_are_those_of_plans(name, dtype):
    function, rng = FUNCTIONS[name], np.random.default_rng(0)
    for turn, shape in enumerate(SIZES):
        x = it.asarray(rng.normal(size=shape).astype(dtype))
        n = [2.0, 0.5, 3.7][turn % 3]
        expected = compile(function)(x, n).numpy()
        np.testing.assert_array_equal(function(x, n).numpy(), expected)
        if shape:
            view = it.flip(x, axis=0)
            np.testing.assert_array_equal(
                function(view, n).numpy(), compile(function)(view, n).numpy()
            )


def test_it_is_used_and_serves_threads():
    rng = np.random.default_rng(1)
    for n in range(2, 3 + 2 * SHAPES):
        it.cosh(it.asarray(rng.normal(size=n))).numpy()
    backend = backend_of("cpu")
    calls = [flat for _, flat in backend.inner._single_operations._any_shape.values()]
    assert any(isinstance(c, AnyShapeCall) for c in calls)
    arrays = [rng.normal(size=(n, 301)) for n in range(100, 140)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda a: it.cosh(it.asarray(a)).numpy(), arrays))
    for a, b in zip(arrays, found, strict=True):
        np.testing.assert_allclose(b, np.cosh(a), rtol=1e-14)
