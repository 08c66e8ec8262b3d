"""Optimizers that PyTorch lacks against their papers; all of them compiled, saved and loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile
from ingle.optim.matrices import orthogonal_step
from ingle.tensor import Gradients
from ingle.tensor.errors import ArgumentError, IngleError, ShapeError

ALL: dict[str, dict[str, Any]] = {
    "Adagrad": {}, "Adadelta": {}, "RMSprop": {"momentum": 0.9, "centered": True}, "Adamax": {},
    "NAdam": {}, "RAdam": {}, "Rprop": {}, "ASGD": {"t0": 2}, "Adafactor": {}, "Muon": {},
    "Lion": {"weight_decay": 0.1}, "Adan": {"weight_decay": 0.1},
}  # fmt: skip


def lion(g: list[np.ndarray], x: np.ndarray, lr: float, decay: float) -> np.ndarray:
    m = np.zeros_like(x)
    for grad in g:
        x = x - lr * (np.sign(0.9 * m + 0.1 * grad) + decay * x)
        m = 0.99 * m + 0.01 * grad
    return x


def adan(g: list[np.ndarray], x: np.ndarray, lr: float, decay: float) -> np.ndarray:
    m = v = n = np.zeros_like(x)
    before = g[0]
    for t, grad in enumerate(g, 1):
        change = grad - before
        m = 0.98 * m + 0.02 * grad
        v = 0.92 * v + 0.08 * change
        n = 0.99 * n + 0.01 * (grad + 0.92 * change) ** 2
        eta = lr / (np.sqrt(n / (1 - 0.99**t)) + 1e-8)
        x = (x - eta * (m / (1 - 0.98**t) + 0.92 * v / (1 - 0.92**t))) / (1 + lr * decay)
        before = grad
    return x


@pytest.mark.parametrize(("kind", "formula"), [(optim.Lion, lion), (optim.Adan, adan)])
def test_twenty_steps_of_the_formula(kind: Any, formula: Callable[..., np.ndarray]) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4))
    grads = [rng.normal(size=(3, 4)) for _ in range(20)]
    w = nn.Parameter(x)
    optimizer = kind([w], lr=0.01, weight_decay=0.1)
    for g in grads:
        optimizer.step(Gradients({w: it.asarray(g)}))
    np.testing.assert_allclose(w.numpy(), formula(grads, x, 0.01, 0.1), rtol=1e-12)


def test_orthogonal_steps_have_singular_values_of_one() -> None:
    x = np.random.default_rng(0).normal(size=(5, 3))
    y = orthogonal_step(it.asarray(x), (1.5, -0.5, 0.0), 30, 1e-7).numpy()
    u, _, v = np.linalg.svd(x, full_matrices=False)
    np.testing.assert_allclose(y, u @ v, rtol=1e-6, atol=1e-8)


def steps(name: str, count: int, compiled: bool, saved_at: int | None = None) -> list[np.ndarray]:
    """The weights of a small model after some steps."""
    model = nn.Sequential(
        nn.Linear(3, 4, bias=name != "Muon", generator=it.random.Generator(0)), nn.Tanh(),
        nn.Linear(4, 2, bias=name != "Muon", generator=it.random.Generator(1)),
    ).to(dtype="float64")  # fmt: skip
    kind = getattr(optim, name)
    optimizer = kind(model, lr=0.02, **ALL[name])
    rng = np.random.default_rng(0)
    x, y = it.asarray(rng.normal(size=(6, 3))), it.asarray(rng.normal(size=(6, 2)))

    def step(x: it.Tensor, y: it.Tensor) -> it.Tensor:
        loss = it.mse_loss(model(x), y)
        optimizer.step(loss.backward())
        return loss

    run = compile(step) if compiled else step
    for i in range(count):
        if i == saved_at:
            state = optimizer.state_dict()
            optimizer = kind(model, lr=0.02, **ALL[name])
            optimizer.load_state_dict(state)
        run(x, y)
    if compiled:
        assert run.recordings <= 5  # type: ignore[attr-defined]
    return [p.numpy() for p in model.parameters()]


QUICK = ("NAdam", "Rprop", "Adafactor", "Adan")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ALL]
)
def test_compiled_and_resumed_are_the_same(name: str) -> None:
    plain = steps(name, 9, compiled=False)
    for other in (steps(name, 9, compiled=True), steps(name, 9, compiled=False, saved_at=4)):
        for want, got in zip(plain, other, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9)


class Late(optim.Optimizer):
    """Reads its second moment behind a write to its first."""

    moments = ("first", "second")

    def update(self, slot: Any, grad: it.Tensor, lr: float, options: Any) -> None:
        first, second = slot.moment("first"), slot.moment("second")
        first.value = first.raw * 0.5 + grad
        second.value = second.raw * 0.5 + first.raw
        slot.value = slot.value - second.raw * lr


def test_an_optimizer_of_ones_own_reads_moments_when_it_likes() -> None:
    found = []
    for compiled in (True, False):
        model = nn.Linear(2, 2, generator=it.random.Generator(0))
        optimizer = Late(model, lr=0.1)

        def step(x: it.Tensor, model: nn.Module = model, late: Late = optimizer) -> None:
            late.step(it.sum(model(x) ** 2).backward())

        run = compile(step) if compiled else step
        for _ in range(4):
            run(it.ones((3, 2)) * 0.1)
        found.append(model.weight.numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_a_state_of_another_model() -> None:
    optimizer = optim.Adafactor(nn.Linear(3, 4))
    optimizer.backward_step(it.sum(optimizer.groups[0].slots[0].parameter * 2.0))
    with pytest.raises(nn.StateError, match=r"row_var: expected shape \(5, 1\), got \(4, 1\)"):
        optim.Adafactor(nn.Linear(3, 5)).load_state_dict(optimizer.state_dict())
    with pytest.raises(nn.StateError, match="it is the state of Adafactor"):
        optim.Lion(nn.Linear(3, 4)).load_state_dict(optimizer.state_dict())


W = nn.Parameter(it.ones((2, 2)))


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: optim.Adagrad([W], eps=-1.0), ArgumentError, "Adagrad: eps must be at least 0"),
        (lambda: optim.Adadelta([W], rho=1.5), ArgumentError, r"rho must be in \[0, 1\], got 1.5"),
        (lambda: optim.RMSprop([W], momentum=-0.1), ArgumentError, "RMSprop: momentum"),
        (lambda: optim.Adan([W], betas=(0.9, 0.9)), ArgumentError, "betas must be 3 numbers"),
        (lambda: optim.Lion([W], betas=(1.0, 0.9)), ArgumentError, "betas must be 2 numbers"),
        (lambda: optim.Rprop([W], etas=(1.5, 2.0)), ArgumentError, r"one number in \(0, 1\)"),
        (lambda: optim.Rprop([W], step_sizes=(1.0, 0.1)), ArgumentError, "must increase"),
        (lambda: optim.ASGD([W], t0=-1.0), ArgumentError, "ASGD: t0 must be at least"),
        (lambda: optim.Adafactor([W], d=0.5), ArgumentError, "d must be at least 1.0"),
        (lambda: optim.Muon([W], adjust_lr_fn="none"), ArgumentError, "'match_rms_adamw'"),
        (lambda: optim.Muon(nn.Linear(2, 3)), ShapeError, r"'bias' has shape \(3,\)"),
    ],
)
def test_bad_input(make: Any, kind: type[IngleError], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()
