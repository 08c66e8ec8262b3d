"""grid_sample and affine_grid against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, OperandError, ShapeError


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (1, 1, 1, 4), (2, 2, 4, 3, 5)])
@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_forward_and_gradients(
    like_torch: Any, shape: Any, border: str, corners: bool, mode: str
) -> None:
    torch = pytest.importorskip("torch")
    if mode == "bicubic" and len(shape) == 5:
        return
    rng = np.random.default_rng(0)
    rank = len(shape) - 2
    grid = rng.uniform(-1.8, 1.8, (shape[0], *(3, 4, 2)[:rank], rank))
    options: dict[str, Any] = {"mode": mode, "align_corners": corners, "padding_mode": border}
    like_torch(
        lambda x, g: it.grid_sample(x, g, **options) + it.sum(g) * 0,
        lambda x, g: torch.nn.functional.grid_sample(x, g, **options) + g.sum() * 0,
        [rng.standard_normal(shape), grid],
        second=False,  # PyTorch has none; the testkit compares with differences
    )


@pytest.mark.slow
def test_what_is_no_number_and_far_away_is_outside() -> None:
    x = it.asarray([[[[1.0, 2.0], [3.0, 4.0]]]])
    places = [[np.nan, -1.0], [np.inf, -1.0], [-np.inf, 1.0], [1e30, 1e30]]
    grid = it.asarray(np.array([[places]]), dtype="float32")
    for mode in ("nearest", "bilinear", "bicubic"):
        zeros = it.grid_sample(x, grid, mode=mode, align_corners=True)
        assert zeros.tolist() == [[[[0.0] * 4]]]
        border = it.grid_sample(x, grid, mode=mode, align_corners=True, padding_mode="border")
        assert border.tolist() == [[[[1.0, 2.0, 3.0, 4.0]]]]


@pytest.mark.filterwarnings("ignore:Since version 1.3.0:UserWarning")
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 1, 1, 3), (2, 3, 2, 3, 4)])
@pytest.mark.parametrize("corners", [False, True])
def test_affine_grid(like_torch: Any, size: tuple[int, ...], corners: bool) -> None:
    functional = pytest.importorskip("torch").nn.functional
    rank = len(size) - 2
    theta = np.random.default_rng(0).standard_normal((2, rank, rank + 1))
    like_torch(
        lambda t: it.affine_grid(t, size, align_corners=corners),
        lambda t: functional.affine_grid(t, list(size), align_corners=corners),
        [theta],
    )


def test_the_identity_gives_the_image_back() -> None:
    x = it.asarray(np.random.default_rng(0).standard_normal((2, 3, 5, 7)))
    theta = it.asarray(np.eye(2, 3)[None].repeat(2, 0))
    for corners in (False, True):
        grid = it.affine_grid(theta, x.shape, align_corners=corners)
        out = it.grid_sample(x, grid, align_corners=corners)
        np.testing.assert_allclose(out.numpy(), x.numpy(), rtol=1e-12, atol=1e-12)


def test_empty() -> None:
    assert it.grid_sample(it.ones((0, 2, 3, 3)), it.ones((0, 4, 5, 2))).shape == (0, 2, 4, 5)
    assert it.grid_sample(it.ones((1, 2, 3, 3)), it.ones((1, 0, 5, 2))).shape == (1, 2, 0, 5)
    assert it.grid_sample(it.ones((1, 0, 3, 3)), it.ones((1, 4, 5, 2))).shape == (1, 0, 4, 5)


def test_bad_input_says_what_is_wrong() -> None:
    x, grid = it.ones((1, 2, 3, 3)), it.zeros((1, 4, 5, 2))
    with pytest.raises(ArgumentError, match="grid_sample: mode='cubic' is none of 'bilinear'"):
        it.grid_sample(x, grid, mode="cubic")
    with pytest.raises(ArgumentError, match="grid_sample: padding_mode='same' is none of 'zeros'"):
        it.grid_sample(x, grid, padding_mode="same")
    with pytest.raises(ShapeError, match=r"grid_sample: x must be .* got \(1, 2, 3, 3\) and"):
        it.grid_sample(x, it.zeros((1, 4, 5, 3)))
    with pytest.raises(ShapeError, match=r"grid_sample: .* same batch"):
        it.grid_sample(x, it.zeros((2, 4, 5, 2)))
    with pytest.raises(ShapeError, match="grid_sample: mode 'bicubic' is for pictures"):
        it.grid_sample(it.ones((1, 1, 2, 2, 2)), it.zeros((1, 1, 1, 1, 3)), mode="bicubic")
    with pytest.raises(ShapeError, match="grid_sample: an image axis"):
        it.grid_sample(it.ones((1, 2, 0, 3)), grid)
    with pytest.raises(DTypeError, match=r"grid_sample: .* must be floats"):
        it.grid_sample(x.astype("int32"), grid.astype("int32"))
    with pytest.raises(OperandError, match="grid_sample: grid must be a tensor"):
        it.grid_sample(x, [0.0])  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="affine_grid: for size"):
        it.affine_grid(it.ones((1, 2, 2)), (1, 1, 3, 3))
    with pytest.raises(DTypeError, match="affine_grid: theta must be floats"):
        it.affine_grid(it.ones((1, 2, 3), dtype="int32"), (1, 1, 3, 3))
