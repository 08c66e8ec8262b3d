"""Losses against PyTorch's, in every reduction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.tensor.errors import ArgumentError, OperandError

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=(6, 4)).astype(np.float32)
OTHER = RNG.normal(size=(6, 4)).astype(np.float32)
CHANCE = RNG.uniform(0.05, 0.95, size=(6, 4)).astype(np.float32)
BITS = RNG.integers(0, 2, size=(6, 4)).astype(np.float32)
CLASSES = np.asarray([0, 3, 1, -100, 2, 3])
LOGS = np.log(CHANCE / CHANCE.sum(1, keepdims=True))
IMAGES = RNG.normal(size=(3, 4, 2, 2)).astype(np.float32)
PIXELS = RNG.integers(0, 4, size=(3, 2, 2))
WEIGHT = np.asarray([0.2, 1.0, 2.0, 0.5], np.float32)

CASES: dict[str, tuple[str, dict[str, Any], np.ndarray, np.ndarray]] = {
    "mse": ("MSELoss", {}, REAL, OTHER),
    "l1": ("L1Loss", {}, REAL, OTHER),
    "smooth l1": ("SmoothL1Loss", {"beta": 0.7}, REAL, OTHER),
    "huber": ("HuberLoss", {"delta": 0.7}, REAL, OTHER),
    "bce": ("BCELoss", {}, CHANCE, BITS),
    "bce weighted": ("BCELoss", {"weight": WEIGHT}, CHANCE, BITS),
    "bce logits": ("BCEWithLogitsLoss", {}, REAL, BITS),
    "bce logits weighted": (
        "BCEWithLogitsLoss", {"weight": WEIGHT, "pos_weight": WEIGHT * 2}, REAL, BITS,
    ),
    "kl": ("KLDivLoss", {}, REAL, CHANCE),
    "kl of logs": ("KLDivLoss", {"log_target": True}, REAL, LOGS),
    "nll": ("NLLLoss", {}, LOGS, CLASSES),
    "nll weighted": ("NLLLoss", {"weight": WEIGHT, "ignore_index": 1}, LOGS[:3], CLASSES[:3]),
    "cross entropy": ("CrossEntropyLoss", {}, REAL, CLASSES),
    "cross entropy weighted": ("CrossEntropyLoss", {"weight": WEIGHT}, REAL, CLASSES),
    "cross entropy smoothed": (
        "CrossEntropyLoss", {"label_smoothing": 0.1, "weight": WEIGHT}, REAL, CLASSES,
    ),
    "cross entropy of chances": ("CrossEntropyLoss", {}, REAL, np.exp(LOGS)),
    "cross entropy of images": ("CrossEntropyLoss", {}, IMAGES, PIXELS),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.filterwarnings("ignore:reduction:UserWarning")
def test_equals_pytorch(name: str, reduction: str) -> None:
    kind, options, x, target = CASES[name]
    theirs = getattr(torch.nn, kind)(
        reduction=reduction,
        **{k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()},
    )
    ours = getattr(nn, kind)(reduction=reduction, **options)
    assert sorted(ours.state_dict()) == sorted(theirs.state_dict())
    mine, torchs = it.asarray(x).require_grad(), torch.tensor(x, requires_grad=True)
    got, expected = ours(mine, it.asarray(target)), theirs(torchs, torch.tensor(target))
    np.testing.assert_allclose(got.numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    expected.sum().backward()
    np.testing.assert_allclose(
        got.sum().backward()[mine].numpy(), torchs.grad.numpy(), rtol=1e-4, atol=1e-6
    )


def test_kl_divergence_of_the_definition() -> None:
    ours, theirs = nn.KLDivLoss("batchmean"), torch.nn.KLDivLoss(reduction="batchmean")
    got = ours(it.asarray(REAL), it.asarray(CHANCE)).item()
    assert got == pytest.approx(theirs(torch.tensor(REAL), torch.tensor(CHANCE)).item(), rel=1e-5)


def test_bad_input() -> None:
    with pytest.raises(ArgumentError, match="MSELoss: reduction must be one of mean, sum, none"):
        nn.MSELoss("average")
    with pytest.raises(it.errors.IngleError) as caught:
        nn.CrossEntropyLoss()(it.ones((2, 3)), it.asarray([0, 3])).item()
    assert "3" in str(caught.value)
    with pytest.raises(it.errors.ShapeError):
        nn.CrossEntropyLoss()(it.ones((2, 3)), it.asarray([0, 1, 2]))


@pytest.mark.parametrize("name", ["MSELoss", "CrossEntropyLoss", "BCELoss", "TripletMarginLoss"])
def test_a_loss_that_is_made_of_what_it_is_called_with(name: str) -> None:
    with pytest.raises(OperandError, match=rf"write {name}\(\)\(outputs, targets\)"):
        getattr(nn, name)(it.ones((2, 3)), it.ones((2, 3)))
