"""Rows of a few elements, of which a thread takes each: the bits of the processor's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened
from test_without_a_gpu import compiled as compiled
from test_without_a_gpu import softmax

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.device.cuda import Grid, for_rows

pytestmark = pytest.mark.sampled(4)

DEVICE = "shortrows"


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU."""
    with pytest.MonkeyPatch.context() as patch:
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), DEVICE, patch)


@compile
def floats(x: Any) -> Any:
    """Several passes over rows, places, and copies of what repeats."""
    twice = it.reshape(it.broadcast_to(x[..., None], (*x.shape, 2)), (x.shape[0], -1, 2))
    return (
        it.softmax(x, axis=-1), it.sum(x, axis=-1), it.prod(x, axis=-1), it.max(x, axis=-1),
        it.argmin(x, axis=-1), it.any(x > 1.0, axis=-1), it.var(x, axis=-1), twice + 1.0,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 9])
def test_floats(device: Any, dtype: str, length: int) -> None:
    rng = np.random.default_rng(length)
    x = rng.standard_normal((300, length))
    x[::7] = -0.0
    x[1::31, 0], x[2::31, -1] = np.nan, -np.inf
    found, wanted = (floats(it.asarray(x, device=d).astype(dtype)) for d in (DEVICE, "cpu"))
    for f, w in zip(found, wanted, strict=True):
        a, b = (v.astype("float64").numpy() for v in (f, w))
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)]))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 5, 7), (4, 3, 2, 9), (2, 3, 255), (6, 1, 31)])
def test_elements_of_strided_rows(device: Any, shape: tuple[int, ...]) -> None:
    """Operands that repeat along axes, that lie transposed, and several results."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)

    @compile
    def mapped(x: Any) -> Any:
        turned = it.permute_dims(x, (*range(1, x.ndim), 0))
        row = x[..., :1] * 2.0
        return it.exp(x) * row - x[:1], it.sin(turned) + 1.0, it.pad(x, ((1, 1),) * x.ndim)

    found, wanted = (mapped(it.asarray(x, device=d)) for d in (DEVICE, "cpu"))
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(f.numpy(), w.numpy())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "bool"])
def test_integers(device: Any, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, (70, 6))

    @compile
    def reduced(x: Any) -> Any:
        return it.sum(x, axis=-1), it.argmax(x.astype("int32"), axis=-1), it.all(x, axis=-1)

    found, wanted = (reduced(it.asarray(x.astype(dtype), device=d)) for d in (DEVICE, "numpy"))
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(f.numpy(), w.numpy())


@pytest.mark.slow
def test_threads_take_rows(compiled: Any) -> None:
    nest = softmax("bfloat16")
    assert for_rows(nest, "nest", (1001, 3, 3, 1, 3, 1), 132)[1] == Grid(4, 256, 1)
    assert for_rows(nest, "nest", (1001, 9, 9, 1, 9, 1), 132)[1] == Grid(126, 256, 1)
    for length, count in ((1, 2), (2, 2), (3, 4), (8, 8)):
        source = for_rows(nest, "nest", (9, length, length, 1, length, 1), 132)[0]
        assert source is not None
        assert f"lane < {count}; lane++" in source
        assert "__shared__" not in source
        assert compiled(source)[:4] == b"\x7fELF"
