"""Optimizers and clipping against PyTorch's, over many steps from the same gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import optim
from ingle.nn import Parameter
from ingle.tensor import Gradients

torch = pytest.importorskip("torch")

SHAPES: list[tuple[int, ...]] = [(3, 5), (7,), (), (0, 2)]
RTOL = {"float32": 2e-6, "float64": 1e-12}

SGD = [
    {},
    {"momentum": 0.9},
    {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
    {"momentum": 0.8, "nesterov": True, "weight_decay": 0.01},
    {"maximize": True, "momentum": 0.5},
]
ADAM = [
    {},
    {"betas": (0.8, 0.95), "eps": 1e-3},
    {"weight_decay": 0.1},
    {"amsgrad": True},
    {"amsgrad": True, "maximize": True, "weight_decay": 0.05},
]
OTHERS: dict[str, list[dict[str, Any]]] = {
    "Adagrad": [{}, {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5,
                     "eps": 1e-3, "maximize": True}],
    "Adadelta": [{}, {"rho": 0.8, "eps": 1e-3, "weight_decay": 0.1, "maximize": True}],
    "RMSprop": [{}, {"alpha": 0.9, "eps": 1e-3, "weight_decay": 0.1},
                {"momentum": 0.8, "centered": True, "maximize": True, "eps": 1e-2}],
    "Adamax": [{}, {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1, "maximize": True}],
    "NAdam": [{}, {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1, "maximize": True},
              {"momentum_decay": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{}, {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1, "maximize": True},
              {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "Rprop": [{}, {"etas": (0.3, 1.5), "step_sizes": (1e-3, 0.02), "maximize": True}],
    "ASGD": [{}, {"lambd": 0.1, "alpha": 0.5, "t0": 5, "weight_decay": 0.1, "maximize": True}],
    "Adafactor": [{}, {"beta2_decay": -0.5, "eps": (1e-4, 1e-2), "d": 1.5, "weight_decay": 0.1,
                       "maximize": True}],
}  # fmt: skip
LOOSE = {"NAdam": 1e-6, "ASGD": 1e-6, "Adafactor": 2e-5}
"""PyTorch keeps numbers of the first two in float32; norms have sums of another order."""

CASES = [
    *[(getattr(optim, n), getattr(torch.optim, n), o) for n, os in OTHERS.items() for o in os],
    *[(optim.SGD, torch.optim.SGD, o) for o in SGD],
    *[(optim.Adam, torch.optim.Adam, o) for o in ADAM],
    *[(optim.AdamW, torch.optim.AdamW, o) for o in ADAM],
]


class Both:
    """The same parameters here and in PyTorch, with the same random gradients."""

    def __init__(self, dtype: str, shapes: list[tuple[int, ...]] = SHAPES) -> None:
        self.rng = np.random.default_rng(0)
        start = [np.asarray(self.rng.normal(size=s), dtype) for s in shapes]
        self.dtype = dtype
        self.ours = [Parameter(it.asarray(a)) for a in start]
        self.theirs = [torch.nn.Parameter(torch.tensor(a)) for a in start]

    def draw(self, absent: tuple[int, ...] = ()) -> Gradients:
        found = {}
        for i, (p, t) in enumerate(zip(self.ours, self.theirs, strict=True)):
            g = np.asarray(self.rng.normal(size=p.shape) * 10.0 ** self.rng.integers(-2, 2))
            if i in absent:
                t.grad = None
            else:
                found[p] = it.asarray(g.astype(self.dtype))
                t.grad = torch.tensor(g.astype(self.dtype))
        return Gradients(found)

    def check(self, loose: float = 0.0) -> None:
        rtol = max(loose, RTOL[self.dtype])
        for p, t in zip(self.ours, self.theirs, strict=True):
            np.testing.assert_allclose(p.raw.numpy(), t.detach().numpy(), rtol=rtol, atol=rtol / 2)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("ours", "theirs", "options", "dtype"),
    [(*case, "float64") for case in CASES]
    + [(*case, "float32") for case in CASES if not case[2] or case[0].__name__ not in OTHERS],
)
def test_many_steps(ours: Any, theirs: Any, options: dict[str, Any], dtype: str) -> None:
    # PyTorch's Adafactor divides by the size of an empty parameter.
    both = Both(dtype, SHAPES[: 3 if ours is optim.Adafactor else None])
    mine = ours(both.ours, lr=0.01, **options)
    torchs = theirs(both.theirs, lr=0.01, **options)
    for i in range(20):
        # A parameter that is left out some times keeps a count of its own.
        mine.step(both.draw(absent=(1,) if i % 3 == 0 else ()))
        torchs.step()
        if i % 5 == 4 or not i:
            both.check(LOOSE.get(ours.__name__, 0.0))


def test_defaults_are_pytorchs() -> None:
    for name in ("SGD", "Adam", "AdamW", "Muon", *OTHERS):
        both = Both("float64", shapes=[(3, 4)])
        mine: Any = getattr(optim, name)(both.ours)
        torchs = getattr(torch.optim, name)(both.theirs)
        for name, value in mine.groups[0].options.items():
            assert torchs.defaults[name] == value
        assert mine.lr == torchs.defaults["lr"]


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "options",
    [{}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.0},
     {"ns_steps": 3, "momentum": 0.8, "ns_coefficients": (2.0, -1.5, 0.5), "eps": 1e-3}],
)  # fmt: skip
def test_muon(options: dict[str, Any]) -> None:
    both = Both("float64", shapes=[(3, 5), (6, 2)])
    mine = optim.Muon(both.ours, lr=0.01, **options)
    torchs = torch.optim.Muon(both.theirs, lr=0.01, **options)
    for _ in range(20):
        mine.step(both.draw())
        torchs.step()
    # PyTorch makes its steps in bfloat16, of eight bits.
    both.check(loose=0.02)


def test_groups_with_options_of_their_own() -> None:
    both = Both("float64")
    groups = [
        {"params": both.ours[:2], "lr": 0.1},
        {"params": both.ours[2:], "weight_decay": 0.5, "betas": (0.5, 0.6)},
    ]
    mine = optim.AdamW(groups, lr=0.01, weight_decay=0.1)
    groups = [
        {"params": both.theirs[:2], "lr": 0.1},
        {"params": both.theirs[2:], "weight_decay": 0.5, "betas": (0.5, 0.6)},
    ]
    torchs = torch.optim.AdamW(groups, lr=0.01, weight_decay=0.1)
    for _ in range(10):
        mine.step(both.draw())
        torchs.step()
    both.check()


def test_a_schedule_and_a_scheduler() -> None:
    both = Both("float64")
    mine = optim.SGD(both.ours, lr=optim.schedule.Cosine(0.1, steps=10), momentum=0.9)
    torchs = torch.optim.SGD(both.theirs, lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(torchs, 10)
    for _ in range(10):
        assert mine.lr == pytest.approx(torchs.param_groups[0]["lr"])
        mine.step(both.draw())
        torchs.step()
        scheduler.step()
    both.check()


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 1e6])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_clip_grad_norm(norm_type: float, max_norm: float, dtype: str) -> None:
    # PyTorch has no largest element of an empty gradient.
    both = Both(dtype, shapes=SHAPES[:3] if norm_type == math.inf else SHAPES)
    clipped, norm = optim.clip_grad_norm(both.draw(), max_norm, norm_type)
    theirs = torch.nn.utils.clip_grad_norm_(both.theirs, max_norm, norm_type)
    assert norm.item() == pytest.approx(theirs.item(), rel=RTOL[dtype])
    for p, t in zip(both.ours, both.theirs, strict=True):
        np.testing.assert_allclose(clipped[p].numpy(), t.grad.numpy(), rtol=RTOL[dtype])
        assert clipped[p].dtype is p.dtype


@pytest.mark.parametrize("norm_type", [1.0, 2.0, math.inf])
def test_gradients_without_elements_have_no_norm(norm_type: float) -> None:
    w = Parameter(it.zeros((0, 3)))
    clipped, norm = optim.clip_grad_norm((w * 2.0).sum().backward(), 1.0, norm_type)
    assert (norm.item(), clipped[w].shape) == (0.0, (0, 3))


def test_clip_grad_value() -> None:
    both = Both("float32")
    clipped = optim.clip_grad_value(both.draw(), 0.3)
    torch.nn.utils.clip_grad_value_(both.theirs, 0.3)
    for p, t in zip(both.ours, both.theirs, strict=True):
        np.testing.assert_array_equal(clipped[p].numpy(), t.grad.numpy())


def test_clipping_in_the_optimizer() -> None:
    both = Both("float64")
    mine = optim.Adam(both.ours, lr=0.1, max_grad_value=0.5, max_grad_norm=1.0)
    torchs = torch.optim.Adam(both.theirs, lr=0.1)
    for _ in range(10):
        mine.step(both.draw())
        torch.nn.utils.clip_grad_value_(both.theirs, 0.5)
        torch.nn.utils.clip_grad_norm_(both.theirs, 1.0)
        torchs.step()
    both.check()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", [optim.SGD, optim.AdamW])
def test_half_types_are_updated_in_float32(kind: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    start = it.asarray(rng.normal(size=50)).astype(dtype)
    half, wide = Parameter(start), Parameter(start.astype("float32"))
    mine, reference = kind([half], lr=0.01), kind([wide], lr=0.01)
    for _ in range(20):
        g = it.asarray(rng.normal(size=50)).astype(dtype)
        wide.value = half.raw.astype("float32")
        mine.step(Gradients({half: g}))
        reference.step(Gradients({wide: g.astype("float32")}))
        assert half.dtype is it.dtypes.as_dtype(dtype)
        expected = wide.raw.astype(dtype).numpy().astype(np.float32)
        np.testing.assert_array_equal(half.raw.numpy().astype(np.float32), expected)
