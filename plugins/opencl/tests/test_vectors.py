"""Maps whose work items take vectors, or short rows alone, give the bits of NumPy's exact
operations wherever operands begin, and kernels of vectors are what runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import explain
from ingle.tensor import Tensor

DTYPES = ["float32", "float64", "int8", "int32", "uint8", "bool"]
WIDE = "opencl_wide"


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(0, 9, shape).astype(dtype)


def mapped(x: Any, y: Any) -> Any:
    """Exact in all dtypes."""
    return x ^ y if x.dtype in (np.bool_, it.bool) else x * y + x


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 7, 1023, 4100])
def test_flat_maps(wide_backend: Any, dtype: str, count: int) -> None:
    x, y = drawn((count + 3,), dtype), drawn((count + 3, 1), dtype)[:, 0]
    a, b = it.asarray(x, device=WIDE), it.asarray(y, device=WIDE)
    for first in (0, 1, 3):
        part = slice(first, first + count)
        want = mapped(x[part], y[part]).astype(dtype)
        np.testing.assert_array_equal(mapped(a[part], b[part]).numpy(), want)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
def test_flat_maps_write_into_their_inputs(wide_backend: Any, first: int) -> None:
    x = drawn((515,), "float32")
    a = it.asarray(x, device=WIDE)
    a[first : first + 512] = a[first : first + 512] * 3
    x[first : first + 512] *= 3
    np.testing.assert_array_equal(a.numpy(), x)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "columns"), [(70, 256), (300, 67), (4000, 5), (1, 3), (0, 8)])
def test_maps_over_rows(wide_backend: Any, dtype: str, rows: int, columns: int) -> None:
    """Rows of vectors, rows that end within one, and rows of a few elements."""
    x, y = drawn((rows, 2 * columns), dtype), drawn((columns,), dtype)
    for apart in (columns, columns + 1):
        part = (slice(None), slice(columns, columns + min(apart, columns)))
        found = mapped(it.asarray(x, device=WIDE)[part], it.asarray(y, device=WIDE))
        np.testing.assert_array_equal(found.numpy(), mapped(x[part], y).astype(dtype))


@pytest.mark.parametrize("columns", [1, 3, 8])
def test_sums_of_short_rows(wide_backend: Any, columns: int) -> None:
    x = drawn((500, columns), "int32")
    found = it.sum(it.asarray(x, device=WIDE) * 2, axis=1, dtype="int32")
    np.testing.assert_array_equal(found.numpy(), 2 * x.sum(1))


@pytest.mark.slow
def test_vectors_are_what_runs(wide_backend: Any) -> None:
    x = it.ones((1 << 12,), device=WIDE)
    row = it.ones((1 << 8, 1 << 8), device=WIDE)

    def both(x: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2 + 1, row[:, :128] * row[:1, 128:]

    sources = str(explain(both, x, row, source=True))
    assert sources.count("__global const uint4 *") >= 2
