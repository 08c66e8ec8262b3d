"""Deformable convolution against what PyTorch makes of convolution and grid_sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import DTypeError, OperandError, ShapeError


def _theirs(x: Any, offset: Any, weight: Any, mask: Any, **options: Any) -> Any:
    """Each tap of each band read with grid_sample, then one product for each group."""
    torch = pytest.importorskip("torch")
    (batch, channels, height, width), (features, each, kh, kw) = x.shape, weight.shape
    options = {"stride": 1, "padding": 0, "dilation": 1, **options}
    stride, padding, dilation = (options[n] for n in ("stride", "padding", "dilation"))
    bands = offset.shape[1] // (2 * kh * kw)
    oh, ow = offset.shape[2:]
    columns = []
    for band in range(bands):
        images = x.reshape(batch, bands, -1, height, width)[:, band]
        for tap in range(kh * kw):
            at = 2 * (band * kh * kw + tap)
            y = torch.arange(oh)[:, None] * stride - padding + tap // kw * dilation + offset[:, at]
            z = torch.arange(ow) * stride - padding + tap % kw * dilation + offset[:, at + 1]
            grid = torch.stack([(2 * z + 1) / width - 1, (2 * y + 1) / height - 1], dim=-1)
            seen = torch.nn.functional.grid_sample(images, grid, align_corners=False)
            columns.append(seen * mask[:, at // 2, None])
    stacked = torch.stack(columns, 1).reshape(batch, bands, kh * kw, channels // bands, oh, ow)
    ordered = stacked.transpose(2, 3).reshape(batch, channels // each, each * kh * kw, oh * ow)
    matrices = weight.reshape(channels // each, -1, each * kh * kw)
    return (matrices @ ordered).reshape(batch, features, oh, ow)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("x", "weight", "bands", "out", "options"),
    [
        ((2, 2, 6, 5), (3, 2, 3, 3), 1, (4, 3), {}),
        ((1, 4, 5, 7), (6, 2, 2, 3), 2, (3, 4), {"stride": 2, "padding": 1}),
        ((2, 6, 6, 6), (2, 3, 2, 2), 3, (4, 4), {"dilation": 2}),
    ],
)
def test_forward_and_gradients(
    like_torch: Any, x: Any, weight: Any, bands: int, out: Any, options: dict[str, Any]
) -> None:
    rng = np.random.default_rng(0)
    taps = bands * weight[2] * weight[3]
    arrays = [
        rng.standard_normal(x),
        rng.standard_normal((x[0], 2 * taps, *out)),
        rng.standard_normal(weight),
        rng.random((x[0], taps, *out)),
    ]
    like_torch(
        lambda a, o, w, m: it.deform_conv2d(a, o, w, mask=m, **options),
        lambda a, o, w, m: _theirs(a, o, w, m, **options),
        arrays,
        second=False,  # PyTorch has none of grid_sample; the testkit compares with differences
    )


@pytest.mark.slow
def test_without_offsets_it_is_a_convolution() -> None:
    rng = np.random.default_rng(0)
    x, w, b = (it.asarray(rng.standard_normal(s)) for s in ((2, 4, 6, 7), (6, 2, 3, 2), (6,)))
    options: dict[str, Any] = {"stride": (1, 2), "padding": (2, 1), "dilation": (2, 1)}
    expected = it.conv2d(x, w, b, groups=2, **options)
    offset = it.zeros((2, 12, *expected.shape[2:]), dtype="float64")
    got = it.deform_conv2d(x, offset, w, b, **options)
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-12, atol=1e-12)


def test_bad_input_says_what_is_wrong() -> None:
    x, offset, w = it.ones((1, 4, 5, 5)), it.zeros((1, 18, 3, 3)), it.ones((2, 4, 3, 3))
    name = "deform_conv2d"
    with pytest.raises(ShapeError, match=rf"{name}: offset must be \(1, bands \* 18, 3, 3\)"):
        it.deform_conv2d(x, it.zeros((1, 9, 3, 3)), w)
    with pytest.raises(ShapeError, match=rf"{name}: weight must be \(features, channels / groups"):
        it.deform_conv2d(x, offset, it.ones((2, 3, 3, 3)))
    with pytest.raises(ShapeError, match=rf"{name}: mask must be \(1, 9, 3, 3\)"):
        it.deform_conv2d(x, offset, w, mask=it.ones((1, 18, 3, 3)))
    with pytest.raises(ShapeError, match=f"{name}: x must have 4 axes"):
        it.deform_conv2d(it.ones((4, 5, 5)), offset, w)
    with pytest.raises(ShapeError, match=f"{name}: bias must have one value"):
        it.deform_conv2d(x, offset, w, it.ones(3))
    with pytest.raises(ShapeError, match=f"{name}: along image axis 0 the window spans 9"):
        it.deform_conv2d(x, offset, w, dilation=4)
    with pytest.raises(DTypeError, match=f"{name}: x must be floats"):
        it.deform_conv2d(*(t.astype("int32") for t in (x, offset, w)))
    with pytest.raises(OperandError, match=f"{name}: mask must be a tensor"):
        it.deform_conv2d(x, offset, w, mask=[1.0])  # type: ignore[arg-type]
