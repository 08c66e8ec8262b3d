"""A net learns to take noise away, and draws."""

import pytest


@pytest.mark.slow
def test_it_learns_and_draws(script, tmp_path):
    from PIL import Image

    # Guessing no noise at all has an error of 1.
    options = ["--epochs=6", "--width=16", "--times=50", f"--out={tmp_path}"]
    assert script.main(options) <= 0.35
    for name in ("samples.png", "steps.png"):
        with Image.open(tmp_path / name) as image:
            assert len(image.getcolors()) > 50


def test_noise_grows_as_it_should(script):
    import numpy as np

    noise = script.Noise(50)
    assert noise.kept[0] > 0.99
    assert noise.kept[-1] < 0.01
    assert (np.diff(noise.kept) < 0).all()
    rng = np.random.default_rng(0)
    pictures = np.ones((4000, 1, 2, 2), np.float32)
    (noisy, times), drawn = noise.augment((pictures,), rng)
    kept = noise.kept[times][:, None, None, None]
    np.testing.assert_allclose(noisy, np.sqrt(kept) + np.sqrt(1 - kept) * drawn, rtol=1e-5)
    assert abs(drawn.std() - 1) < 0.02
