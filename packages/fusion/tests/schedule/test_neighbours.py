"""Small kernels of one nest come one behind the other where nothing between them forbids it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device import Rates
from ingle.fusion.schedule import neighbours
from ingle.tensor.device import backend_of
from ingle.testkit.bits import same_bits

pytest.importorskip("ingle_cpu")


@pytest.fixture
def joining(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device `cpu` with the order of one that joins launches."""
    monkeypatch.setattr(backend_of("cpu").inner, "joins_launches", True)


def given(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [it.asarray(rng.standard_normal(s).astype(np.float32), device="cpu") for s in shapes]


def described(function: Any, *args: Any) -> list[str]:
    return [" ".join(s.operations) for s in explain(function, *args, runs=0).steps]


def test_sums_that_wait_for_nothing_between_them_are_neighbours(joining: None) -> None:
    def products(x: Any, a: Any, b: Any) -> tuple[Any, ...]:
        first = it.sum(a * x, axis=1)
        between = it.cumulative_sum(first)
        return first, between, it.sum(b * x, axis=1)

    x, a, b = given((1, 517), (37, 517), (19, 517))
    assert described(products, x, a, b) == ["multiply sum", "multiply sum", "cumulative_sum"]
    for found, wanted in zip(compile(products)(x, a, b), products(x, a, b), strict=True):
        assert same_bits(found.numpy(), wanted.numpy())


def test_what_waits_stays_where_it_is(joining: None) -> None:
    """The second sum reads what the scan between has made, the third reads the second."""

    def products(x: Any, a: Any, b: Any) -> tuple[Any, ...]:
        first = it.sum(a * x, axis=1)
        between = it.cumulative_sum(first)
        second = it.sum(b * it.reshape(between, (1, -1)), axis=1)
        return first, between, second, it.sum(b * it.reshape(second, (1, -1)), axis=1)

    x, a, b = given((1, 523), (523, 523), (523, 523))
    assert described(products, x, a, b) == [
        "multiply sum", "cumulative_sum", "multiply sum", "multiply sum",
    ]  # fmt: skip
    for found, wanted in zip(compile(products)(x, a, b), products(x, a, b), strict=True):
        assert same_bits(found.numpy(), wanted.numpy())


def test_large_results_do_not_come_forward(joining: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be in memory for longer."""

    def products(x: Any, a: Any, b: Any) -> tuple[Any, ...]:
        first = it.sum(a * x, axis=1)
        return first, it.cumulative_sum(first), it.sum(b * x, axis=1)

    monkeypatch.setattr(neighbours, "_MOST_BYTES", 100)
    x, a, b = given((1, 541), (37, 541), (19, 541))
    assert described(products, x, a, b) == ["multiply sum", "cumulative_sum", "multiply sum"]


def test_kernels_that_compute_alike_number_their_operands_alike(joining: None) -> None:
    """Whichever of them widens what they share: else they would be two kernels."""

    def products(x: Any, a: Any, b: Any) -> tuple[Any, ...]:
        wide = x.astype(it.float32)
        first = it.sum(a.astype(it.float32) * wide, axis=1)
        between = it.cumulative_sum(first)
        return first, between, it.sum(b.astype(it.float32) * x.astype(it.float32), axis=1)

    backend = backend_of("cpu").inner
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "rates", Rates(widening=0))
        halves = [v.astype(it.bfloat16) for v in given((1, 547), (37, 547), (19, 547))]
        steps = explain(products, *halves, source=True, runs=0)
        assert [" ".join(s.operations) for s in steps.steps][-1] == "cumulative_sum"
        found = compile(products)(*halves)
    for got, wanted in zip(found, products(*halves), strict=True):
        assert same_bits(got.numpy(), wanted.numpy())


def test_halves_are_widened_where_they_are_read_if_that_costs_nothing() -> None:
    """A vector of halves that a matrix is multiplied by is stored as such, and no float32 of it."""

    def product(x: Any, a: Any) -> Any:
        half = it.exp(x)
        return it.sum(a.astype(it.float32) * half.astype(it.float32), axis=1), half

    backend, found = backend_of("cpu").inner, {}
    for length, rates in ((557, Rates()), (563, Rates(widening=0))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend, "rates", rates)
            x, a = (v.astype(it.bfloat16) for v in given((1, length), (37, length)))
            steps = explain(product, x, a, runs=0).steps
            found[length] = [step.operations.count("astype") for step in steps]
            for got, wanted in zip(compile(product)(x, a), product(x, a), strict=True):
                one, other = (v.astype(it.float64).numpy() for v in (got, wanted))
                assert same_bits(one, other)
    assert found == {557: [1, 1], 563: [0, 2]}
