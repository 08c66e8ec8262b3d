"""What layers are made of: arguments of another kind are named, and what would be taken."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import ingle.nn as nn
import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, IngleError, OperandError

X, IMAGE = it.ones((2, 4)), it.ones((2, 4, 8, 8))
LAYERS: dict[str, tuple[dict[str, Any], it.Tensor]] = {
    "Linear": ({"in_features": 4, "out_features": 3}, X),
    "Bilinear": ({"in1_features": 4, "in2_features": 4, "out_features": 3}, X),
    "Conv2d": ({"in_channels": 4, "out_channels": 4, "kernel_size": 2}, IMAGE),
    "ConvTranspose2d": ({"in_channels": 4, "out_channels": 4, "kernel_size": 2}, IMAGE),
    "BatchNorm2d": ({"num_features": 4}, IMAGE),
    "InstanceNorm2d": ({"num_features": 4, "affine": True}, IMAGE),
    "GroupNorm": ({"num_groups": 2, "num_channels": 4}, IMAGE),
    "LayerNorm": ({"normalized_shape": 4}, X),
    "RMSNorm": ({"normalized_shape": 4}, X),
    "Embedding": ({"num_embeddings": 5, "embedding_dim": 4}, it.asarray([1, 2])),
    "EmbeddingBag": ({"num_embeddings": 5, "embedding_dim": 4}, it.asarray([[1, 2]])),
    "Dropout": ({}, X),
    "AlphaDropout": ({}, X),
    "GaussianNoise": ({"std": 0.1}, X),
    "Flatten": ({}, IMAGE),
    "MaxPool2d": ({"kernel_size": 2}, IMAGE),
    "AvgPool2d": ({"kernel_size": 2}, IMAGE),
    "LPPool2d": ({"norm_type": 2.0, "kernel_size": 2}, IMAGE),
    "ReflectionPad2d": ({"padding": 1}, IMAGE),
    "ConstantPad2d": ({"padding": 1, "value": 0.0}, IMAGE),
    "PixelShuffle": ({"upscale_factor": 2}, IMAGE),
    "ChannelShuffle": ({"groups": 2}, IMAGE),
    "LSTM": ({"input_size": 4, "hidden_size": 4}, X),
    "GRUCell": ({"input_size": 4, "hidden_size": 4}, X),
    "MultiheadAttention": ({"embed_dim": 4, "num_heads": 2}, X),
    "GroupedQueryAttention": ({"embed_dim": 4, "num_heads": 2}, it.ones((1, 3, 4))),
    "TransformerEncoderLayer": ({"d_model": 4, "nhead": 2}, X),
    "AveragedModel": ({"model": nn.Linear(4, 3)}, X),
}
STRANGE = ["a", [1], {}, object(), it.ones(2), np.ones(2)]
FREE = {"device", "dtype", "generator", "activation", "mode", "padding_mode"}
"""Whose errors other tests hold, or which are words."""


def arguments(name: str) -> list[str]:
    """Those that are not flags."""
    found = inspect.signature(getattr(nn, name)).parameters.values()
    return [
        p.name
        for p in found
        if p.name not in FREE and not isinstance(p.default, bool) and p.kind is not p.VAR_KEYWORD
    ]


@pytest.mark.parametrize(("name", "argument"), [(n, a) for n in LAYERS for a in arguments(n)])
def test_an_argument_of_another_kind_is_an_error_of_ours(name: str, argument: str) -> None:
    """Or it is taken; it never ends in what Python says of its own operators."""
    given, x = LAYERS[name]
    inputs = {"Bilinear": 2, "MultiheadAttention": 3}.get(name, 1)
    getattr(nn, name)(**given)(*[x] * inputs)
    for strange in STRANGE:
        try:
            getattr(nn, name)(**{**given, argument: strange})(*[x] * inputs)
        except IngleError:
            continue
        except Exception as error:
            pytest.fail(f"{name}({argument}={strange!r:.20}): {type(error).__name__}: {error}")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nn.Dropout("0.5"), "Dropout: p must be a number, got '0.5'"),
        (lambda: nn.Dropout(None), "Dropout: p must be a number, got None"),
        (lambda: nn.Linear(np.ones(2), 3), "Linear: in_features must be an integer, got array"),
        (lambda: nn.BatchNorm1d(3, momentum="a"), "BatchNorm1d: momentum must be a number"),
        (lambda: nn.Embedding(5, 2, padding_idx=1.5), "Embedding: padding_idx must be an integer"),
        (lambda: nn.Linear(3, 2, weight_init="xavier"), r"initializer, such as nn\.init.*'xavier'"),
        (lambda: nn.Linear(3, 2, weight_init=nn.init.Zeros), r"initializer.*Zeros'>"),
        (lambda: nn.ReflectionPad1d(None), "ReflectionPad1d: padding must be an integer or 2"),
        (
            lambda: nn.Linear(2, 2).train("eval"),
            "train: mode must be a bool, got 'eval'; write .ev",
        ),
        (lambda: nn.Flatten("a")(X), "Flatten: start_axis must be an integer, got 'a'"),
        (lambda: nn.LPPool1d("a", 2), "LPPool1d: norm_type must be a number"),
        (
            lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 20, 5),
            "AdaptiveLogSoftmaxWithLoss: cutoffs must be a list of integers, got 5",
        ),
        (
            lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 20, [5], div_value=float("nan")),
            "div_value must be above 0 and finite, got nan",
        ),
        (
            lambda: nn.GroupedQueryAttention(4, 2, rotary=True),
            "GroupedQueryAttention: rotary must be a RotaryEmbedding, got True",
        ),
    ],
)
def test_what_is_said(make: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        make()


def test_numbers_of_other_kinds_are_taken() -> None:
    half = np.float32(0.5)
    assert nn.Dropout(half).p == nn.Dropout(it.asarray(0.5)).p == 0.5
    assert nn.Embedding(5, 2, padding_idx=np.int64(-1)).padding_idx == 4
    assert nn.Linear(np.int32(3), it.asarray(2))(it.ones(3)).shape == (2,)
    assert nn.ConstantPad1d([1, 2], 0.0)(it.ones((1, 1, 3))).shape == (1, 1, 6)


def test_containers_of_what_is_no_collection() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(OperandError, match=r"ModuleList: expected a list of modules, got Linear"):
        nn.ModuleList(layer)  # type: ignore[arg-type]
    with pytest.raises(OperandError, match=r"ModuleDict: expected modules by name.* got list"):
        nn.ModuleDict([layer])  # type: ignore[arg-type, list-item]
    with pytest.raises(OperandError, match=r"ParameterDict: .* by name.* got int"):
        nn.ParameterDict(3)  # type: ignore[arg-type]
    pairs = nn.ModuleDict()
    pairs.update([("a", layer), ("b", nn.ReLU())])
    assert list(pairs) == ["a", "b"]
    assert pairs["a"] is layer
