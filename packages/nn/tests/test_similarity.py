"""Layers of two inputs, embeddings, activations by axis, and dropout of channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.tensor.errors import ArgumentError, IngleError, ShapeError

torch = pytest.importorskip("torch")

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], list[Any]]] = [
    ("CosineSimilarity", (), {"dim": -1, "eps": 1e-3}, [(2, 3, 4), (2, 3, 4)]),
    ("CosineSimilarity", (), {}, [(2, 3), (2, 3)]),
    ("PairwiseDistance", (), {"p": 3.0, "keepdim": True}, [(2, 4), (2, 4)]),
    ("PairwiseDistance", (1.0, 1e-3), {}, [(2, 4), (2, 4)]),
    ("Bilinear", (3, 4, 2), {}, [(5, 3), (5, 4)]),
    ("Bilinear", (3, 4, 2, False), {}, [(2, 5, 3), (2, 5, 4)]),
    ("Softmax2d", (), {}, [(2, 3, 2, 2)]),
    ("Softmax", (), {"dim": 0}, [(2, 3)]),
    ("GLU", (), {"dim": 0}, [(2, 3)]),
    ("LeakyReLU", (0.3,), {"inplace": False}, [(2, 3)]),
    ("Flatten", (), {"start_dim": 0, "end_dim": 1}, [(2, 3, 4)]),
    ("Unflatten", (), {"dim": 1, "unflattened_size": (2, 2)}, [(3, 4)]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}{c[1]}{c[2]}")
def test_equals_pytorch(parity: Any, case: Any) -> None:
    name, args, options, inputs = case
    parity(name, *args, inputs=inputs, **options)


@pytest.mark.parametrize("name", ["RReLU", "AlphaDropout", "FeatureAlphaDropout", "Dropout1d"])
def test_random_layers_in_use(parity: Any, name: str) -> None:
    parity(name, inputs=[(2, 3, 4)], train=False)


def test_inplace_changes_nothing() -> None:
    x = it.asarray([-1.0, 2.0])
    for layer in (nn.ReLU(True), nn.ReLU(inplace=True), nn.LeakyReLU(0.0, True), nn.ELU(0.0, True)):
        assert layer(x).tolist() == [0.0, 2.0]
    assert nn.Dropout(0.0, inplace=True)(x).tolist() == x.tolist() == [-1.0, 2.0]


def test_leaky_slopes_are_drawn() -> None:
    x = -it.ones((200, 50))
    out = nn.RReLU(0.2, 0.6, generator=it.random.Generator(0))(x).numpy()
    assert -0.6 <= out.min() < -0.59
    assert -0.21 < out.max() <= -0.2
    assert abs(out.mean() + 0.4) < 0.01


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.Dropout1d(0.25), (40, 50, 3)), (nn.Dropout2d(0.25), (40, 50, 2, 2)),
     (nn.Dropout3d(0.25), (40, 50, 2, 2, 1)), (nn.Dropout2d(0.25), (2000, 2, 2))],
)  # fmt: skip
def test_whole_channels_are_dropped(layer: nn.Module, shape: tuple[int, ...]) -> None:
    out = layer(it.ones(shape)).numpy()
    rows = out.reshape(2000, -1)
    assert (rows == rows[:, :1]).all()
    assert set(np.unique(rows)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((rows == 0).mean() - 0.25) < 0.04


@pytest.mark.parametrize("layer", [nn.AlphaDropout(0.3), nn.FeatureAlphaDropout(0.3)])
def test_alpha_dropout_keeps_mean_and_variance(layer: nn.Module) -> None:
    out = layer(it.random.normal((300, 200))).numpy()
    assert abs(out.mean()) < 0.02
    assert abs(out.var() - 1.0) < 0.03


def test_noise() -> None:
    layer = nn.GaussianNoise(0.5, generator=it.random.Generator(0))
    out = layer(it.zeros((200, 100))).numpy()
    assert abs(out.std() - 0.5) < 0.01
    assert layer.eval()(it.ones(3)).tolist() == [1.0] * 3


def test_swiglu_is_its_formula() -> None:
    layer = nn.SwiGLU(3, 4).to(dtype="float64")
    x = np.random.default_rng(0).normal(size=(2, 3))
    a, b = (p.numpy() for p in layer.parameters())
    gate = x @ a.T
    want = gate / (1 + np.exp(-gate)) * (x @ b.T)
    np.testing.assert_allclose(layer(it.asarray(x)).numpy(), want, rtol=1e-12)


INDICES = np.asarray([[1, 2, 6], [6, 6, 0]])


@pytest.mark.parametrize(
    "options",
    [{"max_norm": 0.7}, {"max_norm": 0.9, "norm_type": 1.0, "padding_idx": 2},
     {"scale_grad_by_freq": True}],
)  # fmt: skip
def test_embedding_options(parity: Any, options: dict[str, Any]) -> None:
    parity("Embedding", 7, 4, inputs=[INDICES], **options)


@pytest.mark.parametrize(
    ("options", "inputs", "call"),
    [
        ({}, [INDICES], {}),
        ({"mode": "sum", "max_norm": 0.7}, [INDICES], {"per_sample_weights": np.eye(3)[:2] + 1}),
        ({"mode": "max", "padding_idx": 6}, [INDICES], {}),
        ({"include_last_offset": True}, [INDICES.ravel(), np.asarray([0, 2, 6])], {}),
        ({"norm_type": 1.0, "max_norm": 0.9}, [INDICES.ravel(), np.asarray([0, 4])], {}),
    ],
)
def test_embedding_bags(parity: Any, options: Any, inputs: Any, call: Any) -> None:
    parity("EmbeddingBag", 7, 4, inputs=inputs, call=call, **options)


def test_rows_that_are_given() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 3))
    for name in ("Embedding", "EmbeddingBag"):
        layer = getattr(nn, name).from_pretrained(rows, freeze=False)
        theirs = getattr(torch.nn, name).from_pretrained(torch.tensor(rows), freeze=False)
        want = theirs(torch.tensor([[0, 4]])).detach().numpy()
        np.testing.assert_allclose(layer(it.asarray([[0, 4]])).numpy(), want)
        assert layer.weight.requires_grad
    assert not nn.Embedding.from_pretrained(rows).weight.requires_grad


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: nn.Bilinear(3, 4, 2)(it.ones((5, 4)), it.ones((5, 4))), ShapeError,
         "in1_features=3 and in2_features=4"),
        (lambda: nn.Embedding(3, 2, max_norm=-1.0), ArgumentError, "max_norm must be above 0"),
        (lambda: nn.EmbeddingBag(3, 2, mode="median"), ArgumentError, "got 'median'"),
        (lambda: nn.EmbeddingBag(3, 2, padding_idx=3), ArgumentError, "padding_idx=3"),
        (lambda: nn.EmbeddingBag(3, 2, scale_grad_by_freq=True), ArgumentError, "of Embedding"),
        (lambda: nn.Embedding(3, 2, _weight=it.ones((2, 2))), ShapeError, "shape (3, 2)"),
        (lambda: nn.Embedding.from_pretrained([1.0]), ShapeError, "must have 2 axes"),
        (lambda: nn.RReLU(0.5, 0.1), ArgumentError, "lower=0.5 must be at most"),
        (lambda: nn.RReLU("0.1"), ArgumentError, "RReLU: lower must be a number, got '0.1'"),
        (lambda: nn.Softmax2d()(it.ones((2, 2))), ShapeError, "3 or 4 axes"),
        (lambda: nn.Dropout2d(1.5), ArgumentError, "Dropout2d: p must be a probability"),
        (lambda: nn.Dropout2d()(it.ones((2, 2))), ShapeError, "x must have 3 or 4 axes"),
        (lambda: nn.FeatureAlphaDropout()(it.ones(2)), ShapeError, "channels on axis 1"),
        (lambda: nn.GaussianNoise(-1.0), ArgumentError, "std must be finite"),
    ],
)  # fmt: skip
def test_bad_input(make: Any, kind: type[IngleError], message: str) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert message in str(caught.value)
