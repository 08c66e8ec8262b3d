"""Gradients of convolutions where zeros around the image reach further than the kernel."""

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.operation import OPERATIONS
from ingle.tensor.ops.convolution import _reference

DRAWN = np.random.default_rng(7)


@pytest.mark.parametrize(
    ("padding", "kernel", "dilation"),
    [
        (((2, 0), (0, 3)), (1, 2), (1, 1)),  # cut off before one axis, behind the other
        (((0, 2), (3, 1)), (1, 2), (1, 1)),
        (((4, 4), (1, 4)), (2, 2), (2, 3)),
        (((1, 0), (0, 1)), (3, 3), (1, 2)),  # nothing to cut off
    ],
)
@pytest.mark.parametrize("stride", [(1, 1), (2, 3)])
def test_places_of_zeros_get_no_gradient(padding, kernel, dilation, stride):
    size, groups = (7, 8), 2
    image = DRAWN.normal(size=(2, 4, *size))
    weight = DRAWN.normal(size=(6, 2, *kernel))
    places = [
        (n + sum(p) - d * (k - 1) - 1) // s + 1
        for n, p, k, d, s in zip(size, padding, kernel, dilation, stride, strict=True)
    ]
    g = DRAWN.normal(size=(2, 6, *places))
    given = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    body = OPERATIONS["conv_input_gradient"].body
    with it.device("numpy"):
        made = body(it.asarray(g), it.asarray(weight), size=size, **given).numpy()
        out = it.conv(it.asarray(image), it.asarray(weight), **given).numpy()
    want = _reference.conv_input_gradient(g, weight, size=size, **given)
    np.testing.assert_allclose(made, want, rtol=1e-12, atol=1e-12)
    # Convolution is linear in the image, and this is its transpose.
    np.testing.assert_allclose((made * image).sum(), (out * g).sum(), rtol=1e-10)
