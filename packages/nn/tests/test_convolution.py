"""Convolutions, their transposes, and layers that change images, against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.tensor.errors import ArgumentError, IngleError, ShapeError

torch = pytest.importorskip("torch")

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], list[Any], dict[str, Any]]] = [
    ("Conv1d", (2, 4, 3, 2, 1, 1, 2, False, "reflect"), {}, [(2, 2, 7)], {}),
    ("Conv2d", (2, 3, 3), {"padding": 1, "padding_mode": "circular"}, [(1, 2, 4, 5)], {}),
    ("Conv3d", (1, 2, 2), {"padding": 1, "padding_mode": "replicate"}, [(1, 1, 3, 3, 2)], {}),
    ("ConvTranspose1d", (4, 6, 3, 2, 1, 1, 2, True, 2), {}, [(2, 4, 5)], {}),
    ("ConvTranspose1d", (2, 3, 3, 2), {"bias": False}, [(2, 2, 4)], {"output_size": [10]}),
    ("ConvTranspose2d", (2, 3, (2, 3), 2, (0, 1)), {}, [(2, 2, 3, 4)], {"output_size": (6, 8)}),
    ("ConvTranspose3d", (1, 2, 2, 2, 0, 1), {}, [(1, 1, 2, 3, 2)], {}),
    ("Upsample", (), {"scale_factor": 2}, [(1, 2, 3)], {}),
    ("Upsample", ((5, 4), None, "bilinear", True), {}, [(1, 2, 3, 3)], {}),
    ("Upsample", (None, 1.7, "bicubic", False, True), {}, [(1, 2, 3, 3)], {}),
    ("Upsample", (3,), {"mode": "trilinear"}, [(1, 1, 2, 2, 2)], {}),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}, [(1, 2, 3, 3)], {}),
    ("UpsamplingBilinear2d", (), {"size": (4, 5)}, [(1, 2, 3, 3)], {}),
    ("PixelShuffle", (2,), {}, [(1, 8, 2, 3)], {}),
    ("PixelUnshuffle", (2,), {}, [(1, 2, 4, 6)], {}),
    ("ChannelShuffle", (2,), {}, [(1, 6, 2, 3)], {}),
    ("Unfold", ((2, 3), 1, 1, 2), {}, [(2, 2, 4, 5)], {}),
    ("Fold", ((4, 5), 2, 1, 0, 1), {}, [(1, 8, 12)], {}),
    ("Fold", ((4, 6),), {"kernel_size": 2, "stride": 2, "padding": 0}, [(2, 4, 6)], {}),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}{c[1]}")
def test_equals_pytorch(parity: Any, case: Any) -> None:
    name, args, options, inputs, call = case
    parity(name, *args, inputs=inputs, call=call, **options)


def test_printed_as_pytorchs() -> None:
    args = (4, 6, 3, 2, 1, 1, 2, False, 2)
    assert repr(nn.ConvTranspose1d(*args)) == repr(torch.nn.ConvTranspose1d(*args))
    assert repr(nn.Fold((4, 5), 2)).startswith("Fold(output_size=(4, 5), kernel_size=(2, 2)")


def test_deformable_without_offsets_is_a_convolution() -> None:
    layer, plain = nn.DeformConv2d(2, 3, 3, padding=1), nn.Conv2d(2, 3, 3, padding=1)
    plain.load_state_dict(layer.state_dict())
    x = it.random.normal((2, 2, 5, 4))
    out = layer(x, it.zeros((2, 18, 5, 4)), it.ones((2, 9, 5, 4)))
    np.testing.assert_allclose(out.numpy(), plain(x).numpy(), rtol=1e-5, atol=1e-5)
    grads = out.sum().backward()
    assert all(p in grads for p in layer.parameters())


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: nn.Conv2d(2, 3, 3, padding_mode="mirror"), ArgumentError, "got 'mirror'"),
        (lambda: nn.ConvTranspose2d(2, 3, 3, groups=2), ArgumentError, "divisible by groups=2"),
        (lambda: nn.ConvTranspose2d(2, 3, 3, padding_mode="reflect"), ArgumentError, "'zeros'"),
        (lambda: nn.ConvTranspose1d(2, 3, 3, 2)(it.ones((1, 2, 4)), [12]), ShapeError,
         "output_size=(12,) must be from (9,) to (10,)"),
        (lambda: nn.DeformConv2d(3, 4, 3, groups=2), ArgumentError, "divisible by groups=2"),
        (lambda: nn.Upsample(), ArgumentError, "give either size or scale_factor"),
        (lambda: nn.Upsample(2, 2.0), ArgumentError, "give either size or scale_factor"),
        (lambda: nn.PixelShuffle(0), ArgumentError, "upscale_factor must be at least 1"),
        (lambda: nn.PixelShuffle(2)(it.ones((1, 6, 2, 2))), IngleError, "6"),
        (lambda: nn.Fold((4, 5), 2)(it.ones((1, 8, 11))), IngleError, "11"),
    ],
)  # fmt: skip
def test_bad_input(make: Any, kind: type[IngleError], message: str) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert message in str(caught.value)
