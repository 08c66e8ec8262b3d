"""Pooling and padding layers against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.tensor.errors import ArgumentError, IngleError, ShapeError

torch = pytest.importorskip("torch")

SHAPES: dict[int, tuple[int, ...]] = {1: (2, 3, 7), 2: (2, 2, 6, 5), 3: (1, 2, 4, 5, 6)}
SAMPLES = np.random.default_rng(0).uniform(size=(2, 2, 2))

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    case
    for n in (1, 2, 3)
    for case in (
        (f"MaxPool{n}d", (3, 2, 1), {"ceil_mode": True}),
        (f"MaxPool{n}d", (2, 1, 0, 2, True), {}),
        (f"AvgPool{n}d", (3, 2, 1, True, False), {}),
        (f"LPPool{n}d", (3.0, 2), {"ceil_mode": True}),
        (f"LPPool{n}d", (1, 2, 1), {}),
        (f"AdaptiveAvgPool{n}d", (3,), {}),
        (f"AdaptiveMaxPool{n}d", (2, True), {}),
        (f"ConstantPad{n}d", ((1, 2) * n, 0.5), {}),
        (f"ConstantPad{n}d", (-1, 0.5), {}),
        (f"ZeroPad{n}d", (1,), {}),
        (f"ReflectionPad{n}d", (tuple(range(2 * n))[::-1] if n == 1 else (1, 2) * n,), {}),
        (f"ReplicationPad{n}d", ((2, 1) * n,), {}),
        (f"CircularPad{n}d", ((2, 1) * n,), {}),
    )
] + [
    ("AvgPool2d", (2,), {"divisor_override": 3}),
    ("AvgPool3d", (2,), {"divisor_override": 3}),
    ("AdaptiveAvgPool2d", ((2, None),), {}),
    ("AdaptiveMaxPool3d", ((2, None, 1),), {}),
    ("FractionalMaxPool2d", (2,), {"output_size": (3, 2), "_random_samples": SAMPLES}),
    ("FractionalMaxPool2d", (2, None, 0.5, True), {"_random_samples": SAMPLES}),
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}{c[1]}")
def test_equals_pytorch(parity: Any, case: Any) -> None:
    name, args, options = case
    parity(name, *args, inputs=[SHAPES[int(name[-2])]], **options)


def test_fractional_pooling_of_volumes(parity: Any) -> None:
    samples = np.random.default_rng(0).uniform(size=(1, 2, 3))
    parity("FractionalMaxPool3d", 2, (2, 3, 3), inputs=[SHAPES[3]], _random_samples=samples)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling(n: int) -> None:
    x = np.random.default_rng(0).normal(size=SHAPES[n])
    pool = getattr(nn, f"MaxPool{n}d")(2, return_indices=True)
    theirs = getattr(torch.nn, f"MaxPool{n}d")(2, return_indices=True)
    values, where = pool(it.asarray(x))
    expected, places = theirs(torch.tensor(x))
    np.testing.assert_array_equal(where.numpy(), places.numpy())
    torchs, mine = expected.requires_grad_(), it.asarray(values.numpy()).require_grad()
    back = getattr(nn, f"MaxUnpool{n}d")(2, 2, 0)(mine, where, output_size=x.shape)
    want = getattr(torch.nn, f"MaxUnpool{n}d")(2, 2, 0)(torchs, places, output_size=x.shape)
    np.testing.assert_array_equal(back.numpy(), want.detach().numpy())
    (want * want).sum().backward()
    grads = it.sum(back * back).backward()
    np.testing.assert_allclose(grads[mine].numpy(), torchs.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: nn.MaxPool3d((2, 2)), ArgumentError, "kernel_size must be an integer or 3"),
        (lambda: nn.LPPool2d(0, 2), ArgumentError, "norm_type must be above 0"),
        (lambda: nn.AdaptiveAvgPool2d((1, 2, 3)), ArgumentError, "or 2 of these"),
        (lambda: nn.AdaptiveMaxPool1d(-1), ArgumentError, "output_size must be an integer"),
        (lambda: nn.FractionalMaxPool2d(2), ArgumentError, "either output_size or output_ratio"),
        (lambda: nn.FractionalMaxPool2d(2, output_ratio=2.0), ArgumentError, "between 0 and 1"),
        (lambda: nn.ZeroPad2d((1, 2)), ArgumentError, "padding must be an integer or 4"),
        (lambda: nn.ZeroPad3d(1)(it.ones((2, 2))), ShapeError, "at least 3 axes"),
        (lambda: nn.ReflectionPad1d(3)(it.ones((1, 2))), IngleError, "3"),
    ],
)
def test_bad_input(make: Any, kind: type[IngleError], message: str) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert message in str(caught.value)


def test_images_with_too_few_axes():
    for pool, told in (
        (nn.AdaptiveAvgPool1d(2), r"\(batch, channels, length\)"),
        (nn.AdaptiveMaxPool2d((2, 3)), r"\(channels, height, width\)"),
        (nn.AdaptiveAvgPool3d(2), r"\(channels, depth, height, width\)"),
    ):
        for shape in ((), (4,)):
            with pytest.raises(ShapeError, match=rf"{type(pool).__name__}: .*{told}.*got shape"):
                pool(it.ones(shape))
