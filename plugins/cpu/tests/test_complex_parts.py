"""Complex numbers whose parts kernels for floats take, beside NumPy's of complex numbers."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.testkit.bits import same_bits
from ingle_cpu.backend import MANY_PARTS

SHAPES = [(MANY_PARTS,), (70, 61), (3, MANY_PARTS // 8, 4), (MANY_PARTS - 1,)]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("shape", SHAPES)
def test_running_sums_have_the_bits_of_complex_ones(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    x.flat[5] = complex(-0.0, np.inf)
    for given in (x, x[::-1], x.T):
        for axis in range(x.ndim):
            found = it.cumulative_sum(it.asarray(given, copy=False), axis=axis)
            with it.device("numpy"):
                wanted = it.cumulative_sum(it.asarray(given), axis=axis)
            same_bits(found.numpy(), wanted.numpy())
            planned = compile(lambda x, axis=axis: it.cumulative_sum(x, axis=axis))
            same_bits(planned(it.asarray(given)).numpy(), wanted.numpy())


@pytest.mark.parametrize("size", [0, 1, 8, 9, 17, 100, 1001])
def test_products_of_rows(size: int) -> None:
    rng = np.random.default_rng(size)
    x = np.exp(1j * rng.uniform(0, 6, (3, size)))
    x[1, : size // 2] *= 2
    wanted = np.prod(x, axis=1)
    for device in ("cpu", "numpy"):
        found = it.prod(it.asarray(x, device=device), axis=1).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        turned = it.prod(it.asarray(x, device=device).mT, axis=0).numpy()
        np.testing.assert_allclose(turned, wanted, rtol=1e-12)
