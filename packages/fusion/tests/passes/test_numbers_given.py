"""Constants in which kernels would differ alone are given to one kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain, graph_of
from ingle.fusion.passes.numbers_given import FEWEST, with_numbers_given
from ingle.fusion.runtime import graph_plans

pytest.importorskip("ingle_cpu")
CPU = "ingle_cpu.backend.Cpu"

X = np.random.default_rng(3).uniform(-2.0, 2.0, (5, 24))
NUMBERS = [0.37 * k - 3.1 for k in range(2 * FEWEST)]


def turns(x: it.Tensor, numbers: list[float]) -> list[it.Tensor]:
    """A value that other numbers scale and move in each turn."""
    found = []
    for a in numbers:
        x = it.tanh(x * a + (a - 0.5)) - (x - a) / (a * 3.0)
        found.append(it.sum(x, axis=1))
    return found


@pytest.fixture(autouse=True)
def planned_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_plans, "stored_plans", lambda device, graph: None)


def drawn(dtype: str = "float32") -> it.Tensor:
    return it.asarray(X, dtype=dtype, device="cpu")


def given(f: Callable[[it.Tensor], object]) -> list[float]:
    """The numbers of a function that are given."""
    graph = graph_of(f, drawn())
    found = with_numbers_given(graph)
    if found is None:
        return []
    constants = [v.data for v in graph.values if v.kind == "constant"]
    scalars = len(graph.scalars)
    assert found.sources[:scalars] == [*range(scalars)]
    assert found.graph.values[: len(graph.values)] == graph.values
    assert found.graph.outputs == graph.outputs
    return [constants[k - scalars] for k in found.sources[scalars:]]


def test_factors_and_terms_are_given_where_many_differ() -> None:
    assert given(lambda x: [x * a for a in NUMBERS]) == NUMBERS
    assert given(lambda x: [a - x for a in NUMBERS]) == NUMBERS
    assert given(lambda x: [x / a for a in NUMBERS]) == NUMBERS
    assert given(lambda x: [x * a for a in NUMBERS[: FEWEST - 1]]) == []
    assert given(lambda x: [(x * 0.3) * a for a in NUMBERS[: FEWEST - 2]] + [x + 0.7]) == []


def test_what_becomes_another_operation_by_its_number_stays() -> None:
    powers = [2.0**k for k in range(-FEWEST, FEWEST)]
    assert given(lambda x: [x / a for a in powers]) == []
    assert given(lambda x: [x * a for a in powers]) == [a for a in powers if a != 1.0]
    assert given(lambda x: [x**a for a in NUMBERS]) == []
    assert given(lambda x: [x + a for a in (*NUMBERS, 0.0, -0.0, np.inf, np.nan)]) == NUMBERS
    whole = it.asarray(np.arange(6), device="cpu")
    assert with_numbers_given(graph_of(lambda x: [x * k for k in range(99)], whole)) is None


def kernels(f: Callable[[it.Tensor], object]) -> int:
    return len(set(explain(f, drawn(), source=True, runs=0).sources))


def test_all_turns_have_the_same_kernels() -> None:
    few = kernels(lambda x: turns(x, NUMBERS[:FEWEST]))
    assert kernels(lambda x: turns(x, NUMBERS)) <= few + 1


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_bits_are_those_of_constants(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    def found() -> list[np.ndarray]:
        step = compile(lambda x: turns(x, NUMBERS))
        return [y.astype("float64").numpy() for y in step(drawn(dtype))]

    numbers = found()
    monkeypatch.setattr(f"{CPU}.fixes_numbers", False)
    np.testing.assert_array_equal(found(), numbers)


def test_numbers_that_each_run_is_given_stand_beside_them() -> None:
    def f(x: it.Tensor, rate: float) -> list[it.Tensor]:
        return [x * a + rate for a in NUMBERS]

    step = compile(f)
    for rate in (0.5, -1.25, 3.0, 0.5):
        for a, y in zip(NUMBERS, step(drawn("float64"), rate), strict=True):
            np.testing.assert_array_equal(y.numpy(), X * a + rate)
