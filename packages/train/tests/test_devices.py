"""Several devices: the gradients, and so the training, of the whole batch."""

import numpy as np
import pytest
from learners import X, Y, loader, make, weights

from ingle import nn
from ingle.tensor.errors import ArgumentError
from ingle.train import Accuracy


def plain_model():
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


def seeded(**options):
    import ingle.tensor as it

    it.random.seed(4)
    return make(model=plain_model(), metrics=[Accuracy()], **options)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_training_on_two_devices_is_that_on_one(accumulate):
    pytest.importorskip("ingle.router")
    one = seeded(accumulate=accumulate)
    first = one.fit(loader(), epochs=3)
    two = seeded(accumulate=accumulate, devices=["cpu", "numpy"])
    second = two.fit(loader(), epochs=3)
    np.testing.assert_allclose(weights(two), weights(one), rtol=2e-5, atol=1e-6)
    for a, b in zip(first, second, strict=True):
        assert a["train/loss"] == pytest.approx(b["train/loss"], rel=1e-5)
        assert a["train/accuracy"] == b["train/accuracy"]


def test_uneven_parts_and_a_batch_of_one():
    pytest.importorskip("ingle.router")
    for size in (7, 1):
        one, two = seeded(), seeded(devices=["numpy", "cpu"])
        batch = X[:size], Y[:size]
        assert one.step([batch]) == pytest.approx(two.step([batch]), rel=1e-5)
        np.testing.assert_allclose(weights(two), weights(one), rtol=2e-5, atol=1e-6)


def test_devices_that_make_no_sense():
    with pytest.raises(ArgumentError, match="must be a list"):
        seeded(devices="cpu")
    with pytest.raises(ArgumentError, match="twice"):
        seeded(devices=["numpy", "numpy:0"])
