"""Drawn digits come near to true ones; the penalty is that of its formula."""

import numpy as np
import pytest


@pytest.mark.slow
def test_it_learns_to_draw(script, tmp_path):
    from PIL import Image

    options = ["--epochs=25", "--width=16", f"--out={tmp_path}"]
    assert script.main(options) <= 0.4
    for name in ("samples.png", "learning.png"):
        with Image.open(tmp_path / name) as image:
            assert len(image.getcolors()) > 50


def test_the_penalty_is_zero_where_slopes_are_one(script):
    import ingle.tensor as it
    from ingle import nn

    class Plane(nn.Module):
        def __init__(self, slope):
            self.slope = nn.Parameter(it.asarray(slope))

        def forward(self, x):
            return it.sum(x, axis=(1, 2, 3)) * self.slope

    true, drawn = it.ones((3, 1, 4, 4)), it.zeros((3, 1, 4, 4))
    # The gradient by each of 16 pixels is the slope; its norm is four times that.
    for slope, wanted, steeper in ((0.25, 0.0, 0.0), (0.5, 1.0, 8.0)):
        plane = Plane(slope)
        found = script.penalty(plane, true, drawn)
        np.testing.assert_allclose(found.item(), wanted, atol=1e-5)
        np.testing.assert_allclose(found.backward()[plane.slope].item(), steeper, atol=1e-4)


def test_distances_are_those_of_sorted_projections(script):
    rng = np.random.default_rng(0)
    pictures = rng.normal(size=(50, 1, 4, 4))
    assert script.distance(pictures, rng.permutation(pictures)) < 1e-12
    # A shift of all pictures by v is |v·w| along w, on average |v| E|w_1|.
    shifted = pictures + np.array([3.0, *[0.0] * 15]).reshape(1, 1, 4, 4)
    assert 0.15 < script.distance(pictures, shifted) / 3 < 0.25
