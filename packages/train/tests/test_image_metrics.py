"""PSNR and structural similarity beside plain implementations, scikit-image's and piq's."""

import math

import numpy as np
import pytest
from metric_batches import gathered

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.train import PSNR, SSIM, MultiScaleSSIM

RNG = np.random.default_rng(0)


def pairs(count, side, channels=3):
    """Smooth images, and the same with noise of several strengths."""
    x = RNG.uniform(size=(count, channels, side // 4, side // 4)).repeat(4, 2).repeat(4, 3)
    y = x + RNG.normal(size=x.shape) * RNG.uniform(0.02, 0.3, (count, 1, 1, 1))
    return np.clip(x, 0, 1).astype(np.float32), np.clip(y, 0, 1).astype(np.float32)


X, Y = pairs(40, 24)


def window():
    at = np.arange(-5, 6)
    one = np.exp(-(at**2) / (2 * 1.5**2))
    return np.outer(one, one) / one.sum() ** 2


def parts(x, y, data_range=1.0):
    """Similarity and structure at each place of one channel, window by window."""
    a, b = (np.lib.stride_tricks.sliding_window_view(i.astype(float), (11, 11)) for i in (x, y))
    w = window()
    mean_a, mean_b = (w * a).sum((-1, -2)), (w * b).sum((-1, -2))
    da, db = a - mean_a[..., None, None], b - mean_b[..., None, None]
    varied = (w * da * da).sum((-1, -2)) + (w * db * db).sum((-1, -2))
    both = (w * da * db).sum((-1, -2))
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    structure = (2 * both + c2) / (varied + c2)
    light = (2 * mean_a * mean_b + c1) / (mean_a**2 + mean_b**2 + c1)
    return (light * structure).mean(), structure.mean()


def test_psnr():
    errors = [np.mean((x.astype(float) - y) ** 2) for x, y in zip(X, Y, strict=True)]
    wanted = np.mean([10 * math.log10(1 / e) for e in errors])
    assert gathered(PSNR(), X, Y) == pytest.approx(wanted, rel=1e-9)
    louder = gathered(PSNR(255), 255 * X, 255 * Y)
    assert louder == pytest.approx(wanted, rel=1e-5)
    same = PSNR()
    same.update(it.asarray(X), it.asarray(X), 0.0)
    assert same.compute() == math.inf


@pytest.mark.slow
def test_ssim():
    wanted = [
        np.mean([parts(a, b)[0] for a, b in zip(x, y, strict=True)])
        for x, y in zip(X, Y, strict=True)
    ]
    assert gathered(SSIM(), X, Y) == pytest.approx(np.mean(wanted), abs=2e-6)
    assert gathered(SSIM(255), 255 * X, 255 * Y) == pytest.approx(np.mean(wanted), abs=2e-6)


@pytest.mark.slow
def test_ms_ssim():
    weights = (0.3, 0.3, 0.4)
    x, y = pairs(5, 48, 2)
    wanted = []
    for image_x, image_y in zip(x, y, strict=True):
        for a, b in zip(image_x, image_y, strict=True):
            value = 1.0
            for at, weight in enumerate(weights):
                value *= max(parts(a, b)[0 if at == 2 else 1], 0) ** weight
                a, b = (i.reshape(len(i) // 2, 2, -1, 2).mean((1, 3)) for i in (a, b))
            wanted.append(value)
    found = gathered(MultiScaleSSIM(weights=weights), x, y, parts=(0, 2, None))
    assert found == pytest.approx(np.mean(wanted), abs=2e-6)


@pytest.mark.slow
def test_it_is_scikit_images():
    metrics = pytest.importorskip("skimage.metrics")
    options = {"data_range": 1.0, "channel_axis": 0, "gaussian_weights": True, "sigma": 1.5}
    wanted = [
        metrics.structural_similarity(x, y, use_sample_covariance=False, **options)
        for x, y in zip(X, Y, strict=True)
    ]
    assert gathered(SSIM(), X, Y) == pytest.approx(np.mean(wanted), abs=2e-6)
    wanted = [
        metrics.peak_signal_noise_ratio(x, y, data_range=1) for x, y in zip(X, Y, strict=True)
    ]
    assert gathered(PSNR(), X, Y) == pytest.approx(np.mean(wanted), rel=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_it_is_piqs():
    torch = pytest.importorskip("torch")
    piq = pytest.importorskip("piq", exc_type=ImportError)
    x, y = pairs(6, 192)
    wanted = float(piq.multi_scale_ssim(torch.from_numpy(x), torch.from_numpy(y), data_range=1.0))
    found = gathered(MultiScaleSSIM(), x, y, parts=(0, 1, None))
    assert found == pytest.approx(wanted, abs=1e-5)


def test_a_small_variance_beside_a_large_mean():
    x = (0.9 + 1e-3 * RNG.normal(size=(1, 1, 20, 20))).astype(np.float32)
    y = (x + 1e-3 * RNG.normal(size=x.shape)).astype(np.float32)
    wanted, _ = parts(x[0, 0], y[0, 0])
    assert gathered(SSIM(), x, y, parts=(0, None)) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("metric", [PSNR, SSIM, MultiScaleSSIM])
def test_wrong_shapes_are_refused(metric):
    name, image = metric.__name__, it.ones((2, 3, 200, 200))
    assert math.isnan(metric().compute())
    with pytest.raises(ShapeError, match=f"{name}: outputs and targets must have the same shape"):
        metric().update(image, it.ones((2, 1, 200, 200)), 0.0)
    with pytest.raises(ShapeError, match=rf"{name}: needs floats of shape .* it.expand_dims"):
        metric().update(image[0], image[0], 0.0)
    with pytest.raises(ShapeError, match=rf"{name}: needs floats .*/ 255"):
        metric().update(image.astype("uint8"), image.astype("uint8"), 0.0)
    with pytest.raises(ArgumentError, match=f"{name}: data_range must be positive, got 0"):
        metric(0)
    if metric is not PSNR:
        small = it.ones((2, 3, 10, 200))
        with pytest.raises(ShapeError, match=rf"{name}: sides .* at least (11|176) pixels, got"):
            metric().update(small, small, 0.0)
