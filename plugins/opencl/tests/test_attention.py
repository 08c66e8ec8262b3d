"""Attention as one kernel, beside the composition in float64 on the numpy device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion import compile, explain
from ingle.testkit.bits import same_bits

DEVICE = "opencl_wide"
TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}

pytestmark = [pytest.mark.usefixtures("wide_backend"), pytest.mark.sampled(6)]


def attention(device: str, arrays: list[np.ndarray], **options: Any) -> it.Tensor:
    query, key, value, *mask = [it.asarray(a, device=device) for a in arrays]
    return it.scaled_dot_product_attention(query, key, value, *mask, **options)


def drawn(seed: int) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Operands and options of any kind."""
    rng = np.random.default_rng(seed)
    groups = int(rng.integers(1, 3))
    lead = tuple(int(n) for n in rng.integers(1, 4, size=rng.integers(0, 3)))
    queries, keys = int(rng.integers(4, 50)), int(rng.integers(1, 70))
    features, columns = (int(n) for n in rng.integers(1, 70, size=2))
    heads = (2 * groups,) if groups > 1 else ()
    shared = (2,) if groups > 1 else ()
    arrays = [
        rng.standard_normal((*lead, *heads, queries, features)),
        rng.standard_normal((*lead, *shared, keys, features)),
        rng.standard_normal((*lead, *shared, keys, columns)),
    ]
    kind = seed % 4
    if kind == 1:
        arrays.append(rng.random((queries, keys)) < 0.7)
    elif kind == 2:
        arrays.append(rng.standard_normal((*lead, *heads, 1, keys)))
    options: dict[str, Any] = {"is_causal": seed % 3 == 0, "enable_gqa": groups > 1}
    if seed % 2:
        options["scale"] = float(rng.random())
    return arrays, options


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "dtype", ["float32", "float16", pytest.param("bfloat16", marks=pytest.mark.slow)]
)
def test_any_shapes(seed: int, dtype: str, wide_backend: Any) -> None:
    arrays, options = drawn(seed)
    own = [a if a.dtype == bool else it.asarray(a).astype(dtype).numpy() for a in arrays]
    exact = [a if a.dtype == bool else a.astype(np.float64) for a in own]
    wanted = attention("numpy", exact, **options).numpy()
    found = attention(DEVICE, own, **options)
    assert found.dtype.name == dtype
    assert found.shape == wanted.shape
    error = np.abs(found.astype("float64").numpy() - wanted).max()
    assert error <= TOLERANCE[dtype] * (1 + np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [2, pytest.param(0, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.slow)]
)
def test_gradients(seed: int) -> None:
    """What the backward pass needs comes from the same kernel."""
    arrays, options = drawn(seed)

    def gradients(device: str, dtype: str) -> Any:
        own = [a if a.dtype == bool else a.astype(dtype) for a in arrays]
        query, key, value, *mask = [it.asarray(a, device=device) for a in own]

        def loss(query: it.Tensor, key: it.Tensor, value: it.Tensor) -> it.Tensor:
            out = it.scaled_dot_product_attention(query, key, value, *mask, **options)
            return it.sum(out * out)

        return value_and_grad(loss, argnums=(0, 1, 2))(query, key, value)[1]

    for found, wanted in zip(
        gradients(DEVICE, "float32"), gradients("numpy", "float64"), strict=True
    ):
        error = np.abs(found.numpy() - wanted.numpy()).max()
        assert error <= 1e-4 * (1 + np.abs(wanted.numpy()).max())


def operands(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.slow
def test_it_stays_whole_and_takes_views_as_they_lie() -> None:
    """Heads are split off by a view; nothing is copied before or behind."""
    arrays = operands((2, 20, 3, 8), (2, 24, 3, 8), (2, 24, 3, 8))

    def of_heads(*tensors: it.Tensor) -> it.Tensor:
        q, k, v = [it.permute_dims(t, (0, 2, 1, 3)) for t in tensors]
        return it.scaled_dot_product_attention(q, k, v, is_causal=True)

    tensors = [it.asarray(a, device=DEVICE) for a in arrays]
    (step,) = explain(of_heads, *tensors).steps
    assert step.operations == ("scaled_dot_product_attention",)
    plain = of_heads(*tensors)
    assert same_bits(compile(of_heads)(*tensors), plain)
    moved = [np.ascontiguousarray(a.transpose(0, 2, 1, 3)) for a in arrays]
    assert same_bits(attention(DEVICE, moved, is_causal=True), plain)


@pytest.mark.slow
def test_few_queries_and_other_dtypes_become_the_body() -> None:
    for shape, dtype in (((3, 8), "float32"), ((20, 8), "float64")):
        x = it.asarray(np.ones(shape, dtype), device=DEVICE)
        steps = explain(it.scaled_dot_product_attention, x, x, x).steps
        assert len(steps) > 1
        found = it.scaled_dot_product_attention(x, x, x).numpy()
        np.testing.assert_allclose(found, np.ones(shape), rtol=1e-6)


@pytest.mark.slow
def test_a_row_has_the_same_bits_among_others() -> None:
    """However many queries and heads there are, and whatever later keys hold."""
    q, k, v = operands((3, 40, 16), (3, 40, 16), (3, 40, 16))
    whole = attention(DEVICE, [q, k, v], is_causal=True).numpy()
    part = attention(DEVICE, [q[1:2, :21], k[1:2, :21], v[1:2, :21]], is_causal=True).numpy()
    assert same_bits(np.ascontiguousarray(whole[1:2, :21]), part)


@pytest.mark.slow
def test_missing_and_infinite_scores() -> None:
    q, k, v = operands((20, 8), (20, 8), (20, 8))
    q[4, 0] = np.nan
    k[17, 1] = np.inf
    v[19, 2] = np.nan  # hidden from all queries but the last one
    seen = np.tri(20) > 0
    seen[7] = False
    found = attention(DEVICE, [q, k, v, seen]).numpy()
    assert np.isnan(found[4]).all()
    assert np.isfinite(found[:4]).all()
    assert (found[7] == 0).all()
    assert np.isfinite(found[8:17]).all()
    assert np.isnan(found[19, 2])
    added = np.where(seen, 0, -math.inf).astype(np.float32)
    k[17, 1] = v[19, 2] = 1
    same = attention(DEVICE, [q, k, v, added]).numpy()
    assert same_bits(same[:17], found[:17])
