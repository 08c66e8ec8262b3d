"""Tensors with elements of their own added at their ends are one kernel, however they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.testkit.bits import same_bits

MODES = {"reflect": "reflect", "edge": "edge", "circular": "wrap"}


def layouts(array: Any) -> list[Any]:
    """Tensors that hold an array, as views of others."""
    axes = tuple(reversed(range(array.ndim)))
    turned = it.asarray(np.ascontiguousarray(array.transpose(axes)), device="cpu")
    doubled = it.asarray(np.repeat(array, 2, axis=-1), device="cpu")
    flipped = it.asarray(np.ascontiguousarray(array[..., ::-1]), device="cpu")
    return [
        it.asarray(array, device="cpu"),
        it.permute_dims(turned, axes),
        doubled[..., ::2],
        it.flip(flipped, axis=-1),
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("shape", "widths"),
    [
        ((2, 3, 5, 9), ((0, 0), (0, 0), (2, 1), (3, 2))),
        ((3, 1, 4, 2, 40), ((0, 0), (0, 0), (1, 3), (0, 1), (2, 2))),
        ((17,), ((16, 16),)),
        ((2, 33), ((0, 1), (1, 0))),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_any_layout(mode: Any, shape: tuple[int, ...], widths: Any, dtype: str) -> None:
    x = np.random.default_rng(0).integers(-99, 99, shape).astype(dtype)
    numpys: Any = MODES[mode]
    want = np.pad(x, widths, mode=numpys)
    made = compile(lambda x: it.pad(x, widths, mode=mode))
    for given in layouts(x):
        assert same_bits(it.pad(given, widths, mode=mode).numpy(), want)
        assert same_bits(made(given).numpy(), want)


@pytest.mark.parametrize("mode", MODES)
def test_one_kernel_each_way(mode: Any) -> None:
    widths = ((0, 0), (0, 0), (0, 0), (2, 3))

    def both(x, g):
        x = x.require_grad()
        y = it.pad(x, widths, mode=mode)
        return y, y.backward(g)[x]

    x, g = it.ones((2, 3, 8, 9), device="cpu"), it.ones((2, 3, 8, 14), device="cpu")
    steps = explain(both, x, g, runs=0).steps
    assert [(step.kind, step.name) for step in steps] == [
        ("nest", "extended"),
        ("nest", "extended_gradient"),
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("low", [(1, 2), (2, 0), (0, 3)])
def test_gradients_have_the_bits_of_plain_code(mode: Any, low: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    x = it.asarray(rng.standard_normal((2, 4, 5)), device="cpu")
    widths = (0, 0), (low[0], 1), (low[1], 3)
    factors = it.asarray(rng.standard_normal((2, 5 + low[0], 8 + low[1])), device="cpu")

    def gradient(x):
        x = x.require_grad()
        return it.pad(x, widths, mode=mode).backward(factors)[x]

    found = gradient(x).numpy()
    assert same_bits(compile(gradient)(x).numpy(), found)
    name: Any = MODES[mode]
    places = np.pad(np.arange(x.numpy().size).reshape(x.shape), widths, mode=name)
    want = np.bincount(places.ravel(), factors.numpy().ravel()).reshape(x.shape)
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12)


def test_what_is_joined_with_others_lies_where_it_belongs() -> None:
    x = it.asarray(np.random.default_rng(0).standard_normal((2, 3, 8)), device="cpu")

    def joined(x):
        return it.concat([it.pad(x, ((0, 0), (0, 0), (1, 1)), mode="circular"), x], axis=2)

    want = np.concatenate([np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1)), mode="wrap"), x.numpy()], 2)
    assert same_bits(compile(joined)(x).numpy(), want)
    assert len(explain(joined, x, runs=0).steps) == 2
