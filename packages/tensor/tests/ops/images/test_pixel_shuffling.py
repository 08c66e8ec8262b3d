"""pixel_shuffle, pixel_unshuffle and channel_shuffle against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, OperandError, ShapeError


@pytest.mark.parametrize(
    ("name", "shape", "number"),
    [
        ("pixel_shuffle", (2, 18, 4, 5), 3),
        ("pixel_shuffle", (2, 3, 8, 2, 1), 2),
        ("pixel_unshuffle", (2, 3, 6, 9), 3),
        ("pixel_unshuffle", (3, 4, 2), 2),
        ("channel_shuffle", (2, 6, 3, 2), 3),
    ],
)
def test_like_torch(like_torch: Any, name: str, shape: tuple[int, ...], number: int) -> None:
    functional = pytest.importorskip("torch").nn.functional
    ours, theirs = getattr(it, name), getattr(functional, name)
    x = np.random.default_rng(0).standard_normal(shape)
    like_torch(lambda a: it.square(ours(a, number)), lambda a: theirs(a, number) ** 2, [x])


def test_each_undoes_the_other() -> None:
    x = it.reshape(it.arange(2 * 8 * 3 * 5), (2, 8, 3, 5))
    assert it.pixel_unshuffle(it.pixel_shuffle(x, 2), 2).tolist() == x.tolist()
    assert it.pixel_shuffle(it.ones((0, 4, 2, 2)), 2).shape == (0, 1, 4, 4)


def test_bad_input_says_what_is_wrong() -> None:
    x = it.ones((1, 6, 4, 4))
    with pytest.raises(ShapeError, match=r"pixel_shuffle: .* that 4 divides, got shape"):
        it.pixel_shuffle(x, 2)
    with pytest.raises(ShapeError, match="pixel_unshuffle: downscale_factor=3 must divide"):
        it.pixel_unshuffle(x, 3)
    with pytest.raises(ArgumentError, match="pixel_shuffle: upscale_factor must be at least 1"):
        it.pixel_shuffle(x, 0)
    with pytest.raises(ArgumentError, match="pixel_shuffle: upscale_factor must be an integer"):
        it.pixel_shuffle(x, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"pixel_unshuffle: x must be .* got shape \(2, 2\)"):
        it.pixel_unshuffle(it.ones((2, 2)), 2)
    with pytest.raises(ShapeError, match=r"channel_shuffle: .* groups=4 divides"):
        it.channel_shuffle(x, 4)
    with pytest.raises(OperandError, match="pixel_shuffle: x must be a tensor"):
        it.pixel_shuffle([1.0], 2)  # type: ignore[arg-type]
