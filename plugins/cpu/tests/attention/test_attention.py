"""Attention by blocks, forward and backward, against float64; its memory and its bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad, jvp, vmap
from ingle.fusion import compile, explain
from ingle.tensor import Tensor
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import bool_
from ingle.tensor.ops.neural.attention import ATTENTION, ATTENTION_TRAINING, attention_training
from ingle.tensor.ops.neural.attention_gradients import ATTENTION_GRADIENT, attention_gradient
from ingle.testkit.bits import same_bits
from ingle_cpu.attention.launches import attention_entries
from ingle_cpu.attention.problem import problem_of

TOLERANCE = {"float64": 1e-12, "float32": 3e-6, "float16": 4e-3, "bfloat16": 3e-2}


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Tensor:
    """Numbers that lie in C order, turned around, apart, or backwards."""
    lying = rng.integers(4)
    if lying == 1 and len(shape) > 2:
        axes = (*range(len(shape) - 3), len(shape) - 2, len(shape) - 3, len(shape) - 1)
        turned = rng.standard_normal([shape[a] for a in axes])
        return it.permute_dims(it.asarray(turned).astype(dtype), axes)
    if lying == 2:
        return it.matrix_transpose(
            it.asarray(rng.standard_normal((*shape[:-2], shape[-1], shape[-2]))).astype(dtype)
        )
    if lying == 3:
        wide = rng.standard_normal((*shape[:-1], 2 * shape[-1]))
        return it.flip(it.asarray(wide).astype(dtype), axis=-2)[..., 1::2]
    return it.asarray(rng.standard_normal(shape)).astype(dtype)


def shares(
    q: Any, k: Any, mask: Any, causal: bool, scale: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Which part of a query's average each key is, and the logarithm of the sum."""
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    e = np.exp(scores - top)
    total = e.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return e / np.where(total == 0, 1, total), (np.log(total) + top)[..., 0]


def close(found: Tensor, wanted: np.ndarray) -> None:
    limit = TOLERANCE[found.dtype.name]
    assert found.shape == wanted.shape
    size = max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)))
    np.testing.assert_allclose(found.astype("float64").numpy(), wanted, rtol=0, atol=limit * size)


def wide(x: Tensor) -> np.ndarray:
    found: np.ndarray = x.astype("float64").numpy()
    return found


def taken_back(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The sum over what was repeated."""
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    axes = tuple(n for n, size in enumerate(shape) if size != gradient.shape[n])
    found: np.ndarray = gradient.sum(axes, keepdims=True)
    return found


def case(seed: int) -> tuple[list[Tensor], Tensor | None, bool, float | None]:
    """Operands, a mask, whether it is causal, and a scale."""
    rng = np.random.default_rng(seed)
    dtype = rng.choice(["float32", "float32", "float64", "float16", "bfloat16"])
    queries, keys = rng.integers(16, 120), rng.integers(1, 150)
    features, values = rng.integers(1, 70, 2)
    lead = tuple(int(n) for n in rng.integers(1, 4, rng.integers(0, 4)))
    ends = (queries, features), (keys, features), (keys, values)
    leads = [lead, lead, lead]
    if lead and rng.random() < 0.4:  # heads that share keys, with values or without these
        shared = (*lead[:-1], 1)
        leads = [lead, shared, shared] if rng.random() < 0.7 else [lead, shared, lead]
    if rng.random() < 0.1:
        leads = [lead[1:], lead, lead]
    operands = [
        drawn(rng, (*a, *(int(n) for n in b)), dtype) for a, b in zip(leads, ends, strict=True)
    ]
    kind = rng.choice(["none", "bool", "float", "row", "heads", "number"])
    mask: Tensor | None = None
    if kind == "bool":
        mask = it.asarray(rng.random((queries, keys)) < 0.5)
    elif kind == "float":
        mask = drawn(rng, (int(queries), int(keys)), dtype)
    elif kind == "row":
        mask = it.asarray(rng.random(keys) < 0.7)
    elif kind == "heads" and lead:
        mask = it.matrix_transpose(it.asarray(rng.random((lead[-1], keys, queries)) < 0.5))
    elif kind == "number":
        mask = it.asarray(bool(rng.random() < 0.5))
    scale = None if rng.random() < 0.7 else float(rng.choice([0.5, -0.25, 0.0]))
    return operands, mask, bool(rng.random() < 0.5), scale


@pytest.mark.sampled(4, slow=1)
@pytest.mark.parametrize("seed", range(40))
def test_forward_against_float64(seed: int) -> None:
    (q, k, v), mask, causal, scale = case(seed)
    out, lse = attention_training(q, k, v, mask, is_causal=causal, scale=scale)
    seen = None if mask is None else wide(mask) if mask.dtype.is_floating else mask.numpy()
    parts, wanted = shares(wide(q), wide(k), seen, causal, scale)
    close(out, parts @ wide(v))
    close(lse, np.broadcast_to(wanted, lse.shape))
    alone = it.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)
    assert same_bits(alone.numpy(), out.numpy())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(40))
def test_gradient_against_float64(seed: int) -> None:
    (q, k, v), mask, causal, scale = case(1000 + seed)
    out = it.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)
    g = drawn(np.random.default_rng(seed), out.shape, out.dtype.name)
    found = attention_gradient(g, q, k, v, mask, is_causal=causal, scale=scale)
    seen = None if mask is None else wide(mask) if mask.dtype.is_floating else mask.numpy()
    parts, _ = shares(wide(q), wide(k), seen, causal, scale)
    pull = wide(g) @ np.swapaxes(wide(v), -1, -2)
    level = (wide(g) * (parts @ wide(v))).sum(-1, keepdims=True)
    flow = parts * (pull - level) * (q.shape[-1] ** -0.5 if scale is None else scale)
    close(found[0], taken_back(flow @ wide(k), q.shape))
    close(found[1], taken_back(np.swapaxes(flow, -1, -2) @ wide(q), k.shape))
    close(found[2], taken_back(np.swapaxes(parts, -1, -2) @ wide(g), v.shape))


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return it.scaled_dot_product_attention(q, k, v, is_causal=True)


def operands(*shape: int, seed: int = 0) -> list[Tensor]:
    rng = np.random.default_rng(seed)
    return [it.asarray(rng.standard_normal(shape).astype(np.float32)) for _ in range(3)]


def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return it.sum(attention(q, k, v) ** 2)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_the_same_bits_alone_and_in_a_plan(turned: bool, scale: float | None) -> None:
    def heads(x: Tensor) -> Tensor:
        return it.permute_dims(it.reshape(x, (2, 70, 3, 20)), (0, 2, 1, 3)) if turned else x

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return it.scaled_dot_product_attention(
            heads(q), heads(k), heads(v), is_causal=True, scale=scale
        )

    def both(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        return [run(q, k, v), *grad(lambda *x: it.sum(run(*x) ** 2), (0, 1, 2))(q, k, v)]

    given = operands(2, 70, 60) if turned else operands(2, 3, 70, 20)
    plain = both(*given)
    planned = compile(both)
    for _ in range(3):
        for a, b in zip(plain, planned(*given), strict=True):
            assert same_bits(a.numpy(), b.numpy())


def test_both_are_steps_of_a_plan() -> None:
    found = explain(grad(loss, (0, 1, 2)), *operands(2, 3, 64, 16), runs=0)
    kinds = {step.name: step.kind for step in found.steps}
    assert kinds["scaled_dot_product_attention_training"] == "whole"
    assert kinds["scaled_dot_product_attention_gradient"] == "whole"


def test_the_scale_may_change_from_run_to_run() -> None:
    q, k, v = operands(2, 32, 8)
    planned = compile(lambda q, k, v, s: it.scaled_dot_product_attention(q, k, v, scale=s))
    for scale in (0.1, 0.7, 1.3):
        alone = it.scaled_dot_product_attention(q, k, v, scale=scale)
        assert same_bits(planned(q, k, v, scale).numpy(), alone.numpy())


def test_a_query_that_sees_no_key_gets_zeros_and_no_gradient() -> None:
    q, k, v = operands(40, 8)
    seen = it.asarray(np.arange(40) % 3 > 0)[:, None]

    def masked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return it.scaled_dot_product_attention(q, k, v, seen)

    assert not masked(q, k, v).numpy()[::3].any()
    found = grad(lambda *x: it.sum(masked(*x) ** 2), (0, 1, 2))(q, k, v)
    assert not found[0].numpy()[::3].any()
    assert all(np.isfinite(x.numpy()).all() for x in found)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_of_a_query_that_is_no_number_are_none(value: float) -> None:
    q, k, v = (x.numpy().copy() for x in operands(2, 40, 8))
    clean = it.scaled_dot_product_attention(*map(it.asarray, (q, k, v))).numpy()
    q[0, 3, 2] = value
    out = it.scaled_dot_product_attention(*map(it.asarray, (q, k, v))).numpy().copy()
    assert np.isnan(out[0, 3]).all()
    out[0, 3] = clean[0, 3]
    assert same_bits(out, clean)


def test_scores_far_from_zero() -> None:
    q, k, v = (x.numpy() for x in operands(600, 16))
    found = it.scaled_dot_product_attention(it.asarray(q * 300), it.asarray(k), it.asarray(v))
    parts, _ = shares((q * 300).astype(float), k.astype(float), None, False, None)
    np.testing.assert_allclose(found.numpy(), parts @ v, atol=2e-3)


def test_what_is_larger_comes_last() -> None:
    """Each block of keys has larger scores than the one before."""
    q, k, v = (x.numpy() for x in operands(40, 16))
    q, long = np.ones_like(q), np.linspace(-9, 9, 1500, dtype=np.float32)[:, None] + 0 * k[:1]
    v = np.resize(v, (1500, 16))
    found = it.scaled_dot_product_attention(it.asarray(q), it.asarray(long), it.asarray(v))
    parts, _ = shares(q.astype(float), long.astype(float), None, False, None)
    np.testing.assert_allclose(found.numpy(), parts @ v, atol=1e-5)


def test_grouped_heads_and_a_window() -> None:
    rng = np.random.default_rng(3)
    q = it.asarray(rng.standard_normal((2, 6, 50, 16)))
    k, v = (it.asarray(rng.standard_normal((2, 2, 50, 16))) for _ in range(2))
    window = it.asarray((away(50, 50) >= 0) & (away(50, 50) < 9))

    def run(k: Tensor, v: Tensor, grouped: bool) -> Tensor:
        return it.scaled_dot_product_attention(q, k, v, window, enable_gqa=grouped)

    def apart(k: Tensor, v: Tensor) -> Tensor:
        return run(it.repeat(k, 3, axis=1), it.repeat(v, 3, axis=1), False)

    np.testing.assert_allclose(run(k, v, True).numpy(), apart(k, v).numpy(), atol=1e-13)
    found = grad(lambda k, v: it.sum(run(k, v, True) ** 2), (0, 1))(k, v)
    wanted = grad(lambda k, v: it.sum(apart(k, v) ** 2), (0, 1))(k, v)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-11)


def away(queries: int, keys: int) -> np.ndarray:
    found: np.ndarray = np.arange(queries)[:, None] - np.arange(keys)
    return found


MASKS = {
    "window": (away(150, 700) >= 0) & (away(150, 700) < 40),
    "ahead": (away(150, 700) <= -530) & (away(150, 700) > -560),
    "documents": np.arange(150)[:, None] // 50 == np.arange(700) // 50,
    "islands": (away(150, 700) % 331 < 3) & (np.arange(150)[:, None] % 90 > 20),
    "one of all": np.broadcast_to(np.arange(700) == 697, (150, 700)),
    "some queries": np.broadcast_to(np.arange(150)[:, None] > 100, (150, 700)),
}
"""Of which blocks of queries see few keys, or none, not the first ones, or those behind the last
whole vector."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("kind", ["bool", "number", "turned", "row"])
@pytest.mark.parametrize("name", MASKS)
def test_what_a_mask_hides_from_whole_blocks(name: str, kind: str, dtype: str) -> None:
    rng = np.random.default_rng(4)
    shapes = (2, 150, 20), (2, 700, 20), (2, 700, 12)
    q, k, v = (it.asarray(rng.standard_normal(s)).astype(dtype) for s in shapes)
    seen = MASKS[name][120:121] if kind == "row" else MASKS[name]
    mask = it.asarray(seen)
    if kind == "number":
        mask = it.where(mask, it.asarray(0.5, dtype=dtype), -np.inf)
    elif kind == "turned":
        mask = it.matrix_transpose(it.asarray(np.ascontiguousarray(seen.T)))
    out, lse = attention_training(q, k, v, mask)
    parts, wanted = shares(wide(q), wide(k), wide(mask) if kind == "number" else seen, False, None)
    close(out, parts @ wide(v))
    close(lse, np.broadcast_to(wanted, lse.shape))
    g = it.asarray(rng.standard_normal(out.shape)).astype(dtype)
    found = attention_gradient(g, q, k, v, mask)
    pull = wide(g) @ np.swapaxes(wide(v), -1, -2)
    flow = parts * (pull - (wide(g) * (parts @ wide(v))).sum(-1, keepdims=True)) * 20**-0.5
    close(found[0], flow @ wide(k))
    close(found[1], np.swapaxes(flow, -1, -2) @ wide(q))
    close(found[2], np.swapaxes(parts, -1, -2) @ wide(g))


@pytest.mark.parametrize("infinite", [False, True], ids=["bools", "numbers"])
def test_keys_that_a_mask_hides_from_all_are_not_read(infinite: bool) -> None:
    """So they may be anything: a window costs what it shows."""
    q, k, v = (x.numpy().copy() for x in operands(2, 300, 16))
    window = (away(300, 300) >= 0) & (away(300, 300) < 32) & (np.arange(300) < 192)
    mask = it.asarray(np.where(window, 0, -np.inf).astype(np.float32) if infinite else window)

    def both(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        run = lambda *x: it.scaled_dot_product_attention(*x, mask)  # noqa: E731
        return [run(q, k, v), *grad(lambda *x: it.sum(run(*x) ** 2), (0, 1, 2))(q, k, v)]

    want = both(*map(it.asarray, (q, k, v)))
    k[:, 240:], v[:, 240:] = np.nan, np.inf
    for a, b in zip(both(*map(it.asarray, (q, k, v))), want, strict=True):
        assert same_bits(a.numpy(), b.numpy())


def composed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same by operations that have nothing to do with it."""
    below = it.asarray(np.tri(q.shape[-2], k.shape[-2]) > 0)
    scores = it.where(below, q @ it.matrix_transpose(k) * q.shape[-1] ** -0.5, -np.inf)
    return it.softmax(scores, axis=-1) @ v


@pytest.mark.parametrize("way", ["twice", "forward", "map"])
def test_other_derivatives(way: str) -> None:
    q, k, v = (x.astype("float64") for x in operands(2, 20, 6))
    d = operands(2, 20, 6, seed=1)[0].astype("float64")

    def of(function: Callable[..., Tensor]) -> Tensor:
        if way == "map":
            found: Tensor = vmap(function)(q, k, v)
            return found
        if way == "forward":
            moved: Tensor = jvp(lambda q: function(q, k, v), (q,), (d,))[1]
            return moved
        inner = grad(lambda q: it.sum(function(q, k, v) ** 2))
        twice: Tensor = grad(lambda q: it.sum(inner(q) * d))(q)
        return twice

    np.testing.assert_allclose(of(attention).numpy(), of(composed).numpy(), atol=1e-12)


def test_memory_does_not_grow_with_the_scores() -> None:
    length, features = 4096, 32
    x = Aval((length, features), it.float32)
    mask, scale = Aval((), bool_), Aval((), it.float32)
    forward = problem_of(ATTENTION_TRAINING.op(causal=True), [x, x, x, mask, scale])
    lse = Aval((length,), it.float32)
    backward = problem_of(ATTENTION_GRADIENT.op(causal=True), [x, x, x, x, mask, scale, x, lse])
    assert forward is not None
    assert backward is not None
    for problem, most in ((forward, 1.2), (backward, 11)):
        made = attention_entries(problem, 0, 1)
        assert sum(made.scratch) < most * 2 * 4 * length * features


def test_threads_make_no_difference() -> None:
    """Units are blocks that do not depend on who computes them."""
    x = Aval((3, 100, 32), it.float32)
    given = [x, x, x, Aval((), bool_), Aval((), it.float32)]
    problem = problem_of(ATTENTION.op(causal=False), given)
    assert problem is not None
    one, many = (attention_entries(problem, 0, n).entries[-1] for n in (1, 64))
    assert (one.units, one.grain, one.args) == (many.units, many.grain, many.args)
