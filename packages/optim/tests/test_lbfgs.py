"""L-BFGS against PyTorch's, its line search, and its state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile
from ingle.optim.lbfgs import Point, strong_wolfe
from ingle.tensor.errors import ArgumentError, OperandError

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(8, 4)), RNG.normal(size=8)
START = RNG.normal(size=4)


class Ours:
    """The loss here, as a closure of L-BFGS."""

    def __init__(self, **options: Any) -> None:
        self.w, self.b = nn.Parameter(it.asarray(START)), nn.Parameter(it.asarray(0.5 * START[0]))
        self.optimizer = optim.LBFGS([self.w, self.b], **options)

    def __call__(self) -> it.Tensor:
        rest = it.asarray(A) @ self.w + self.b - it.asarray(B)
        return it.sum(rest * rest) + it.sum(it.exp(self.w * 0.3))


SEARCH = {"line_search_fn": "strong_wolfe"}
OPTIONS: list[dict[str, Any]] = [
    {"max_iter": 6, "lr": 0.1, **SEARCH}, {"max_iter": 3, "max_eval": 3, **SEARCH}, SEARCH,
    {"lr": 0.5, "max_iter": 4}, {"lr": 0.3, "max_iter": 3, "history_size": 2},
    {"max_iter": 7, "max_eval": 3, "lr": 0.2},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", OPTIONS)
def test_twenty_steps_of_pytorch(options: dict[str, Any]) -> None:
    ours = Ours(**options)
    w, b = torch.tensor(START, requires_grad=True), torch.tensor(0.5 * START[0], requires_grad=True)
    theirs = torch.optim.LBFGS([w, b], **options)

    def closure() -> Any:
        theirs.zero_grad()
        rest = torch.tensor(A) @ w + b - torch.tensor(B)
        loss = (rest * rest).sum() + torch.exp(w * 0.3).sum()
        loss.backward()
        return loss

    for _ in range(20):
        got, want = ours.optimizer.step(ours), theirs.step(closure)
        assert got.item() == pytest.approx(want.item(), rel=1e-8)
    np.testing.assert_allclose(ours.w.numpy(), w.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(ours.b.numpy(), b.detach().numpy(), rtol=1e-6)


def test_a_line_search_finds_the_bottom_of_a_curved_valley() -> None:
    w = nn.Parameter(it.asarray([-1.2, 1.0], dtype="float64"))
    optimizer = optim.LBFGS([w], max_iter=60, line_search_fn="strong_wolfe")
    optimizer.step(lambda: (1.0 - w[0]) ** 2 + 100.0 * (w[1] - w[0] ** 2) ** 2)
    np.testing.assert_allclose(w.numpy(), [1.0, 1.0], atol=1e-4)
    assert optimizer.steps == 1


@pytest.mark.parametrize("first", [1e-4, 0.1, 3.0, 50.0])
def test_strong_wolfe_conditions_hold(first: float) -> None:
    def at(t: float) -> Point:
        return Point(t, float(np.cos(t) + 0.01 * t * t), float(-np.sin(t) + 0.02 * t), [])

    origin = Point(0.0, 1.2, -0.5, [])
    found = strong_wolfe(at, origin, first, 1e-12)
    assert found.loss <= origin.loss + 1e-4 * found.t * origin.slope
    assert abs(found.slope) <= 0.9 * 0.5


@pytest.mark.parametrize("first", [1e-3, 0.02, 0.3, 1.0, 4.0, 30.0, 1e4])
@pytest.mark.parametrize("seed", range(6))
def test_a_line_search_asks_for_pytorchs_points(seed: int, first: float) -> None:
    lbfgs = pytest.importorskip("torch.optim.lbfgs")
    a, b, c = np.random.default_rng(seed).uniform(0.5, 2.0, 3)

    def loss(t: float) -> float:
        return float(np.cos(a * t + 0.3) + 0.02 * b * t * t + 0.4 * np.sin(5.0 * c * t))

    def slope(t: float) -> float:
        return float(-a * np.sin(a * t + 0.3) + 0.04 * b * t + 2.0 * c * np.cos(5.0 * c * t))

    asked: list[float] = []
    wanted: list[float] = []
    sign = -1.0 if slope(0.0) > 0.0 else 1.0

    def at(t: float) -> Point:
        asked.append(t)
        return Point(t, loss(sign * t), sign * slope(sign * t), [])

    def theirs(x: Any, t: float, d: Any) -> tuple[float, Any]:
        wanted.append(float(t))
        return loss(sign * float(t)), torch.tensor(
            [sign * slope(sign * float(t))], dtype=torch.float64
        )

    begin = torch.tensor([sign * slope(0.0)], dtype=torch.float64)
    d = torch.ones(1, dtype=torch.float64)
    found = strong_wolfe(at, Point(0.0, loss(0.0), float(begin), []), first, 1e-9)
    want = lbfgs._strong_wolfe(theirs, d, first, d, loss(0.0), begin, begin.dot(d))
    # Cubics through far points lose digits.
    np.testing.assert_allclose(asked, wanted, rtol=1e-6)
    np.testing.assert_allclose(found.t, float(want[2]), rtol=1e-6)


def test_a_line_search_turns_back_from_nan() -> None:
    def at(t: float) -> Point:
        return Point(t, math.nan, math.nan, []) if t > 0.5 else Point(t, -t, -1.0, [])

    assert 0.0 < strong_wolfe(at, Point(0.0, 0.0, -2.0, []), 1.0, 1e-9).t <= 0.5
    # A loss that falls for ever ends with the lowest place that was asked for.
    asked: list[float] = []

    def falling(t: float) -> Point:
        asked.append(t)
        return Point(t, -t, -1.0, [])

    assert strong_wolfe(falling, Point(0.0, 0.0, -1.0, []), 1.0, 1e-9).t == max(asked)
    assert len(asked) == 26


def test_resumed_and_compiled_are_the_same() -> None:
    plain, other = Ours(max_iter=3), Ours(max_iter=3)
    graded = compile(lambda: (other(), other().backward()))
    for i in range(6):
        plain.optimizer.step(plain)
        if i == 3:
            state = other.optimizer.state_dict()
            other.optimizer = optim.LBFGS([other.w, other.b], max_iter=3)
            other.optimizer.load_state_dict(state)
        other.optimizer.step(graded)
    np.testing.assert_allclose(other.w.numpy(), plain.w.numpy(), rtol=1e-6)


def test_an_error_changes_nothing() -> None:
    ours = Ours(lr=0.1)
    calls = iter(range(100))

    def closure() -> it.Tensor:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return ours()

    with pytest.raises(KeyboardInterrupt):
        ours.optimizer.step(closure)
    np.testing.assert_array_equal(ours.w.numpy(), START)
    assert ours.optimizer.steps == 0


def test_bad_input() -> None:
    w = nn.Parameter(it.ones(2))
    with pytest.raises(OperandError, match="expected a function that returns the loss, got Grad"):
        optim.LBFGS([w]).step((w * w).sum().backward())  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="None or 'strong_wolfe', got 'armijo'"):
        optim.LBFGS([w], line_search_fn="armijo")
    with pytest.raises(ArgumentError, match="exactly one group, got 2"):
        optim.LBFGS([{"params": [w]}, {"params": [nn.Parameter(it.ones(1))]}])
    with pytest.raises(ArgumentError, match="history_size must be at least 1"):
        optim.LBFGS([w], history_size=0)
