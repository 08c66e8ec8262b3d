"""Positions, grouped heads, windows and the cache, against formulas written out in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.fusion import compile
from ingle.tensor.errors import ArgumentError, IngleError, ShapeError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("interleaved", [True, False])
def test_rotary_turns_pairs_as_complex_numbers(interleaved: bool) -> None:
    x = RNG.normal(size=(2, 5, 8))
    layer = nn.RotaryEmbedding(8, 100.0, interleaved, dtype="float64")
    angles = (np.arange(5) + 3)[:, None] * 100.0 ** (-np.arange(4) / 4)
    pairs = x.reshape(2, 5, 4, 2) if interleaved else np.stack([x[..., :4], x[..., 4:]], -1)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)
    both = np.stack([turned.real, turned.imag], -1)
    want = (
        both.reshape(2, 5, 8) if interleaved else np.concatenate([both[..., 0], both[..., 1]], -1)
    )
    np.testing.assert_allclose(layer(it.asarray(x), offset=3).numpy(), want, rtol=1e-12)


def test_sinusoids_are_the_formula() -> None:
    table = np.zeros((6, 4))
    for i in range(6):
        for j in range(2):
            table[i, 2 * j] = np.sin(i / 10_000 ** (2 * j / 4))
            table[i, 2 * j + 1] = np.cos(i / 10_000 ** (2 * j / 4))
    layer = nn.SinusoidalEncoding(4, max_len=6)
    rows = layer(it.zeros((1, 4, 4)), offset=2)[0].numpy()
    np.testing.assert_allclose(rows, table[2:], atol=1e-6)
    rows = nn.SinusoidalEncoding(4, 6, batch_first=False)(it.zeros((5, 2, 4))).numpy()
    np.testing.assert_allclose(rows[:, 1], table[:5], atol=1e-6)


def test_slopes_of_any_number_of_heads() -> None:
    assert nn.alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert nn.alibi_slopes(12)[8:] == [2.0 ** -(i / 2) for i in (1, 3, 5, 7)]
    bias = nn.alibi_bias(2, 2, 4).numpy()
    np.testing.assert_allclose(bias[0], -np.asarray([[2, 1, 0, 1], [3, 2, 1, 0]]) / 16)


def plain_attention(
    layer: nn.GroupedQueryAttention, x: np.ndarray, allowed: np.ndarray, slopes: Any = None
) -> np.ndarray:
    """Grouped attention head by head."""
    q, k, v, o = (layer.state_dict()[f"{n}_proj.weight"].numpy() for n in "qkvo")
    size, group = layer.head_dim, layer.num_heads // layer.num_kv_heads
    out = []
    for head in range(layer.num_heads):
        rows = slice(head * size, (head + 1) * size)
        shared = slice(head // group * size, (head // group + 1) * size)
        scores = (x @ q[rows].T) @ (x @ k[shared].T).swapaxes(-1, -2) / np.sqrt(size)
        steps = np.arange(x.shape[1])
        if slopes is not None:
            scores = scores - slopes[head] * abs(steps[:, None] - steps)
        weights = np.exp(scores) * allowed
        out.append(weights / weights.sum(-1, keepdims=True) @ (x @ v[shared].T))
    found: np.ndarray = np.concatenate(out, -1) @ o.T
    return found


@pytest.mark.parametrize(
    ("options", "causal", "window"),
    [({}, True, 99), ({"is_causal": False}, False, 99), ({"window": 2}, True, 2),
     ({"window": 2, "is_causal": False}, False, 2), ({"alibi": True, "head_dim": 2}, True, 99)],
)  # fmt: skip
def test_grouped_attention(options: dict[str, Any], causal: bool, window: int) -> None:
    layer = nn.GroupedQueryAttention(12, 4, 2, **options).to(dtype="float64")
    x = RNG.normal(size=(2, 5, 12))
    apart = np.arange(5)[:, None] - np.arange(5)
    allowed = (abs(apart) < window) & ((apart >= 0) | (not causal))
    slopes = nn.alibi_slopes(4) if options.get("alibi") else None
    want = plain_attention(layer, x, allowed, slopes)
    np.testing.assert_allclose(layer(it.asarray(x)).numpy(), want, rtol=1e-9)
    masked = layer(it.asarray(x), mask=it.asarray(np.eye(5, dtype=bool))).numpy()
    np.testing.assert_allclose(masked, plain_attention(layer, x, np.eye(5)), rtol=1e-9)


@pytest.mark.parametrize(
    "options", [{"rotary": nn.RotaryEmbedding(4)}, {"alibi": True, "window": 3}]
)
@pytest.mark.parametrize("compiled", [True, False])
def test_a_cache_step_by_step_is_the_whole(options: dict[str, Any], compiled: bool) -> None:
    layer = nn.GroupedQueryAttention(16, 4, 2, **options)
    x = it.asarray(RNG.normal(size=(2, 6, 16)).astype(np.float32))
    want = layer(x).numpy()
    cache = nn.KVCache(2, 2, 8, 4)
    first = layer(x[:, :2], cache=cache).numpy()
    np.testing.assert_allclose(first, want[:, :2], rtol=1e-4, atol=1e-5)

    def step(row: it.Tensor) -> it.Tensor:
        out: it.Tensor = layer(row, cache=cache)
        return out

    run = compile(step) if compiled else step
    for i in range(2, 6):
        np.testing.assert_allclose(
            run(x[:, i : i + 1]).numpy(), want[:, i : i + 1], rtol=1e-4, atol=1e-5
        )
    assert cache.length.value == 6
    if compiled:
        assert run.recordings <= 2  # type: ignore[attr-defined]
    cache.reset()
    np.testing.assert_allclose(layer(x[:, :2], cache=cache).numpy(), first, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: nn.RotaryEmbedding(5), ArgumentError, "dim must be even, got 5"),
        (lambda: nn.RotaryEmbedding(4)(it.ones((2, 5))), ShapeError, "(..., length, 4)"),
        (lambda: nn.SinusoidalEncoding(3), ArgumentError, "d_model must be even"),
        (lambda: nn.SinusoidalEncoding(4, 3)(it.ones((1, 4, 4))), ShapeError, "max_len=3"),
        (lambda: nn.GroupedQueryAttention(12, 4, 3), ArgumentError, "num_kv_heads=3"),
        (lambda: nn.GroupedQueryAttention(8, 2, rotary=nn.RotaryEmbedding(2)), ArgumentError,
         "turns 2 features, a head has 4"),
        (lambda: nn.GroupedQueryAttention(8, 2)(it.ones((2, 8))), ShapeError, "(batch, length, 8)"),
        (lambda: nn.KVCache(1, 2, 3, 4).append(*[it.ones((1, 2, 4, 4))] * 2), ShapeError,
         "at most 3 steps in all, of which 0 are there"),
    ],
)  # fmt: skip
def test_bad_input(make: Any, kind: type[IngleError], message: str) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert message in str(caught.value)
