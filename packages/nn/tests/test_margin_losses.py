"""Losses of margins and likelihoods as layers, against PyTorch's in every reduction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.tensor.errors import ArgumentError, ShapeError

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
SIGNS = np.sign(RNG.normal(size=(5, 4)))
SIGN = SIGNS[:, 0]
COUNTS = RNG.integers(0, 5, size=(5, 4)).astype(np.float64)
VARIANCE = RNG.uniform(0.5, 2.0, size=(5, 4))
CLASSES = np.asarray([0, 3, 1, 2, 3])
LABELS = np.asarray([[3, 0, -1, 1], [-1, 0, 0, 0], [1, 2, 3, 0], [2, -1, 1, 1], [0, 1, -1, 2]])
WEIGHT = np.asarray([0.2, 1.0, 2.0, 0.5])
LENGTHS = np.asarray([6, 5]), np.asarray([2, 3])
TARGETS = np.asarray([[1, 4, 0], [3, 1, 1]])
X = (5, 4)

CASES: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "ranking": ("MarginRankingLoss", {"margin": 0.3}, [X, X, SIGNS]),
    "hinge": ("HingeEmbeddingLoss", {"margin": 0.7}, [X, SIGNS]),
    "cosine": ("CosineEmbeddingLoss", {"margin": 0.1}, [X, X, SIGN]),
    "soft margin": ("SoftMarginLoss", {}, [X, SIGNS]),
    "multilabel margin": ("MultiLabelMarginLoss", {}, [X, LABELS]),
    "multilabel": ("MultiLabelSoftMarginLoss", {"weight": WEIGHT}, [X, (SIGNS + 1) / 2]),
    "multi margin": ("MultiMarginLoss", {"p": 2, "margin": 0.5, "weight": WEIGHT}, [X, CLASSES]),
    "triplet": ("TripletMarginLoss", {"margin": 0.5, "p": 1.0, "eps": 1e-3}, [X, X, X]),
    "triplet swapped": ("TripletMarginLoss", {"swap": True}, [X, X, X]),
    "triplet of distances": ("TripletMarginWithDistanceLoss", {"margin": 2.0}, [X, X, X]),
    "triplet of distances swapped": ("TripletMarginWithDistanceLoss", {"swap": True}, [X, X, X]),
    "ctc": ("CTCLoss", {"blank": 2, "zero_infinity": True}, [(6, 2, 5), TARGETS, *LENGTHS]),
    "poisson": ("PoissonNLLLoss", {"full": True}, [X, COUNTS]),
    "poisson of rates": ("PoissonNLLLoss", {"log_input": False, "eps": 9.0}, [X, COUNTS]),
    "gaussian": ("GaussianNLLLoss", {"full": True, "eps": 0.7}, [X, X, VARIANCE]),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_equals_pytorch(parity: Any, case: str, reduction: str) -> None:
    name, options, inputs = CASES[case]
    # PyTorch's gradient of CTC is that of scores before the softmax.
    parity(name, inputs=inputs, reduction=reduction, differentiable=name != "CTCLoss", **options)


def test_ctc_of_scores() -> None:
    scores = np.random.default_rng(0).normal(size=(6, 2, 5))
    mine, theirs = it.asarray(scores).require_grad(), torch.tensor(scores, requires_grad=True)
    lengths = [it.asarray(a) for a in (TARGETS, *LENGTHS)]
    got = nn.CTCLoss()(it.log_softmax(mine, axis=-1), *lengths)
    places = [torch.tensor(a) for a in (TARGETS, *LENGTHS)]
    torch.nn.CTCLoss()(torch.log_softmax(theirs, -1), *places).backward()
    np.testing.assert_allclose(
        got.backward()[mine].numpy(), theirs.grad.numpy(), rtol=1e-8, atol=1e-12
    )


def test_powers_and_gram_matrices() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2, 3, 4, 2))
    got = nn.LpLoss(3.0)(it.asarray(a), it.asarray(b)).item()
    assert got == pytest.approx((abs(a - b) ** 3).mean())

    def gram(x: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.einsum("nchw,ndhw->ncd", x, x) / x[0].size
        return found

    got = nn.GramMatrixLoss("sum")(it.asarray(a), it.asarray(b)).item()
    assert got == pytest.approx(((gram(a) - gram(b)) ** 2).sum())


def test_bad_input() -> None:
    with pytest.raises(ArgumentError, match="CTCLoss: reduction must be one of"):
        nn.CTCLoss(reduction="average")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="margin must be above 0"):
        nn.TripletMarginWithDistanceLoss(margin=0.0)
    with pytest.raises(ArgumentError, match="LpLoss: p must be above 0"):
        nn.LpLoss(0.0)
    with pytest.raises(ArgumentError, match="LpLoss: p must be a number, got '2'"):
        nn.LpLoss("2")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"GramMatrixLoss: .*4 axes.*got shape \(2, 3\)"):
        nn.GramMatrixLoss()(it.ones((2, 3)), it.ones((2, 3)))
    with pytest.raises(it.errors.IngleError, match="3"):
        nn.MarginRankingLoss()(it.ones((2, 3)), it.ones((2, 4)), it.ones((2, 3)))
