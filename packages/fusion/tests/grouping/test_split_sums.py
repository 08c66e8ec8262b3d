"""Sums in two steps have the bits of sums in one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile

pytest.importorskip("ingle_cpu")

RULE = "split_sum"
CASES = [
    ((256, 5), 0), ((512, 3, 7), 0), ((32, 8, 100), (0, 1)), ((1 << 14,), None), ((3, 1 << 15), 1),
    ((2, 8, 1 << 11), (1, 2)), ((16, 1 << 11), None), ((300, 5), 0), (((1 << 14) + 1,), None),
    ((257, 3), 0), ((2, 20_011), 1), ((100_003,), None),
]  # fmt: skip


def drawn(shape: Any, dtype: str) -> Any:
    rng = np.random.default_rng(0)
    return (rng.normal(size=shape) * 10.0 ** rng.integers(-6, 6, shape)).astype(dtype)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_bits(
    request: pytest.FixtureRequest, shape: Any, axis: Any, dtype: str, keepdims: bool
) -> None:
    x = it.asarray(drawn(shape, "float64"), device="cpu").astype(dtype)

    def sums(x: Any) -> Any:
        more = {"axis": axis, "keepdims": keepdims}
        return it.sum(x, **more), it.sum(it.exp(-x * x) - 1.0, **more)

    one = [s.numpy() for s in sums(x)]
    asked = request.getfixturevalue("splitting")
    two = [s.numpy() for s in compile(sums)(x)]
    assert any(asked)
    for a, b in zip(one, two, strict=True):
        assert a.shape == b.shape
    np.testing.assert_array_equal(one[0], two[0])
    if "16" in dtype:  # which elements of a map are rounded follows from what it is fused with
        np.testing.assert_allclose(*(s[1].astype(np.float32) for s in (one, two)), rtol=1e-2)
    else:
        np.testing.assert_array_equal(one[1], two[1])


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_each_dtype_is_added_up_in_its_own(request: pytest.FixtureRequest, dtype: str) -> None:
    """Halves in float32, and nothing else."""
    test_bits(request, (256, 5), 0, dtype, keepdims=False)


def test_of_a_norm_of_long_groups(splitting: list[Any]) -> None:
    """Whose sums keep their axes."""
    x = drawn((2, 8, 64, 64), "float32") / 1e6
    found = compile(lambda x: it.group_norm(x, 2))(it.asarray(x, device="cpu")).numpy()
    flat = x.reshape(2, 2, -1).astype(np.float64)
    flat = (flat - flat.mean(-1, keepdims=True)) / np.sqrt(flat.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found, flat.reshape(x.shape), rtol=1e-3, atol=1e-4)
    assert any(splitting)


def test_of_negative_zeros(splitting: list[Any]) -> None:
    x = it.asarray(np.full((512, 3), -0.0, np.float32), device="cpu")
    assert np.signbit(compile(lambda x: it.sum(x, axis=0))(x).numpy()).all()
    assert any(splitting)


def test_lanes_without_elements_keep_the_sign_of_zero(splitting: list[Any]) -> None:
    x = it.asarray(np.full((1 << 14) + 1, -0.0, np.float32), device="cpu")
    alone, split = it.sum(x).numpy(), compile(it.sum)(x).numpy()
    assert np.signbit(alone) == np.signbit(split)
    assert any(splitting)
