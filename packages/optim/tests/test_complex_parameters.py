"""Complex parameters are trained as two real numbers an element, as PyTorch trains them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile
from ingle.tensor import Gradients

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {"weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "maximize": True}),
    ("AdamW", {}),
    ("NAdam", {}),
    ("RAdam", {"weight_decay": 0.1}),
    ("Adamax", {}),
    ("Adagrad", {}),
    ("Adadelta", {}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("Rprop", {}),
    ("ASGD", {"t0": 3, "weight_decay": 0.1}),
]
START = [(3, 4), (), (0, 2)]


def drawn(seed: int, shape: tuple[int, ...], dtype: str = "complex128") -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape), dtype)


def parameters(dtype: str = "complex128") -> list[nn.Parameter]:
    return [nn.Parameter(it.asarray(drawn(i, s, dtype))) for i, s in enumerate(START)]


def gradients(held: list[nn.Parameter], step: int) -> Gradients:
    found = {}
    for i, p in enumerate(held):
        found[p] = it.asarray(drawn(10 * step + i, p.shape, p.dtype.name))
    return Gradients(found)


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_steps_are_pytorchs(kind: str, options: dict[str, Any], dtype: str) -> None:
    torch = pytest.importorskip("torch")
    ours = parameters(dtype)
    theirs = [torch.nn.Parameter(torch.tensor(p.numpy())) for p in ours]
    mine = getattr(optim, kind)(ours, lr=0.05, **options)
    torchs = getattr(torch.optim, kind)(theirs, lr=0.05, **options)
    rtol = 1e-6 if dtype == "complex64" or kind in ("NAdam", "ASGD") else 1e-12
    for step in range(1, 8):
        grads = gradients(ours, step)
        for p, t in zip(ours, theirs, strict=True):
            t.grad = torch.tensor(grads[p].numpy())
        mine.step(grads)
        torchs.step()
        for p, t in zip(ours, theirs, strict=True):
            assert p.dtype.name == dtype
            np.testing.assert_allclose(p.numpy(), t.detach().numpy(), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("kind", ["Adan", "Lion"])
def test_others_train_both_parts_as_real_numbers(kind: str) -> None:
    ours = parameters()
    parts = [nn.Parameter(it.asarray(_pairs(p.numpy()))) for p in ours]
    mine, real = getattr(optim, kind)(ours, lr=0.05), getattr(optim, kind)(parts, lr=0.05)
    for step in range(1, 4):
        grads = gradients(ours, step)
        mine.step(grads)
        real.step(
            Gradients(
                {q: it.asarray(_pairs(grads[p].numpy())) for p, q in zip(ours, parts, strict=True)}
            )
        )
        for p, q in zip(ours, parts, strict=True):
            np.testing.assert_array_equal(_pairs(p.numpy()), q.numpy())


def _pairs(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], axis=-1)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop"])
def test_a_compiled_step_gives_the_bits_of_a_plain_one(kind: str) -> None:
    goal = it.asarray(drawn(7, (3, 4)))

    def steps(jit: bool) -> np.ndarray:
        w = nn.Parameter(it.asarray(drawn(0, (3, 4))))
        options = {"momentum": 0.9} if kind == "SGD" else {}
        optimizer = getattr(optim, kind)([w], lr=0.05, **options)

        def step() -> None:
            optimizer.step((it.abs(w * w - goal) ** 2).sum().backward())

        run = compile(step) if jit else step
        for _ in range(5):
            run()
        return w.numpy()

    np.testing.assert_array_equal(steps(True), steps(False))


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs(search: str | None) -> None:
    torch = pytest.importorskip("torch")
    start, goal = drawn(0, (3, 3)), drawn(1, (3, 3))
    w, t = nn.Parameter(it.asarray(start)), torch.nn.Parameter(torch.tensor(start))
    options = {"lr": 0.1, "max_iter": 6, "line_search_fn": search}
    mine, torchs = optim.LBFGS([w], **options), torch.optim.LBFGS([t], **options)
    aim, theirs = it.asarray(goal), torch.tensor(goal)

    def closure() -> Any:
        torchs.zero_grad()
        loss = (abs(t * t - theirs) ** 2).sum()
        loss.backward()
        return loss

    for _ in range(3):
        mine.step(lambda: (abs(w * w - aim) ** 2).sum())
        torchs.step(closure)
        np.testing.assert_allclose(w.numpy(), t.detach().numpy(), rtol=1e-9, atol=1e-9)


def test_a_saved_state_goes_on(tmp_path: Path) -> None:
    first, second = parameters(), parameters()
    mine, other = optim.Adam(first, lr=0.05), optim.Adam(second, lr=0.05)
    mine.step(gradients(first, 1))
    nn.save(tmp_path / "adam", {"optimizer": mine})
    nn.load(tmp_path / "adam", {"optimizer": other})
    for p, q in zip(first, second, strict=True):
        q.value = p.value
    mine.step(gradients(first, 2))
    other.step(gradients(second, 2))
    for p, q in zip(first, second, strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


@pytest.mark.parametrize("kind", ["Muon", "Adafactor"])
def test_what_knows_matrices_refuses_them(kind: str) -> None:
    held = [nn.Parameter(it.ones((2, 2))), nn.Parameter(it.ones((2, 2), dtype="complex64"))]
    with pytest.raises(it.errors.DTypeError, match=r"'1' is complex64.*another optimizer"):
        getattr(optim, kind)(held)
    optimizer = getattr(optim, kind)(held[:1])
    with pytest.raises(it.errors.DTypeError, match="complex64"):
        optimizer.add_param_group({"params": held[1:]})
    assert len(optimizer.groups) == 1


def test_muon_takes_no_vectors_later_either() -> None:
    muon = optim.Muon([nn.Parameter(it.ones((2, 2)))])
    with pytest.raises(it.errors.ShapeError, match="must have 2 axes"):
        muon.add_param_group({"params": [nn.Parameter(it.ones(2))]})
    assert len(muon.groups) == 1


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_norms_are_those_of_absolute_values(norm_type: float, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    ours = parameters(dtype)[:2]
    grads = gradients(ours, 1)
    theirs = [torch.nn.Parameter(torch.tensor(p.numpy())) for p in ours]
    for p, t in zip(ours, theirs, strict=True):
        t.grad = torch.tensor(grads[p].numpy())
    clipped, norm = optim.clip_grad_norm(grads, 0.5, norm_type)
    expected = torch.nn.utils.clip_grad_norm_(theirs, 0.5, norm_type)
    assert norm.item() == pytest.approx(expected.item(), rel=1e-6)
    assert norm.dtype is (it.float64 if dtype == "complex128" else it.float32)
    for p, t in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(clipped[p].numpy(), t.grad.numpy(), rtol=1e-6)
        assert clipped[p].dtype is p.dtype
    optim.SGD(ours, lr=0.1, max_grad_norm=0.5, error_if_nonfinite=True).step(grads)
