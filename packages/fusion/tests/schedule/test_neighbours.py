"""Calls of one kernel stand together where a device launches neighbours as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.tensor.device import backend_of

pytest.importorskip("ingle_cpu")


def drawn(*shape: int, seed: int = 0) -> it.Tensor:
    made = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return it.asarray(made, device="cpu")


def products(x: Any, *matrices: Any) -> list[Any]:
    """Each product has a reader in front of the next one, and the last takes another vector."""
    found = []
    for matrix in matrices:
        product = it.sum(matrix * x, axis=-1)
        found += [product, it.sum(product * product)]
    return [*found, it.sum(matrices[0] * (x * found[1]), axis=-1)]


def kernels(*given: Any) -> list[tuple[str, ...]]:
    return [step.operations for step in explain(compile(products), *given, runs=0).steps]


def test_products_of_a_vector_are_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    given = drawn(96), *[drawn(n, 96, seed=n) for n in (64, 32, 16)]
    apart, wanted = kernels(*given), [v.numpy() for v in products(*given)]
    monkeypatch.setattr(backend_of("cpu").inner, "joins", True, raising=False)
    together = kernels(*given)
    assert sorted(together) == sorted(apart)
    places = [n for n, step in enumerate(together) if step == ("multiply", "sum")]
    assert places[:3] == [0, 1, 2]
    for found, expected in zip(compile(products)(*given), wanted, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected)


def test_what_is_large_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory would be held for longer."""
    given = drawn(8), *[drawn(n, 8, seed=n) for n in (1 << 17, 1 << 17)]
    before = kernels(*given)
    monkeypatch.setattr(backend_of("cpu").inner, "joins", True, raising=False)
    assert kernels(*given) == before
