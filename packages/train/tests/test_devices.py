"""Several devices: the gradients, and so the training, of the whole batch."""

import numpy as np
import pytest
from learners import X, Y, loader, make, weights

from ingle import nn
from ingle.tensor.errors import ArgumentError, BackendError
from ingle.train import Accuracy, NonFiniteLossError


def plain_model():
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


def seeded(**options):
    import ingle.tensor as it

    it.random.seed(4)
    return make(model=plain_model(), metrics=[Accuracy()], **options)


@pytest.mark.slow
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
    with pytest.raises(BackendError, match="no backend named 'gpu0'"):
        seeded(devices=["gpu0"])
    with pytest.raises(ArgumentError, match="must be a list"):
        seeded(devices="cpu")
    with pytest.raises(ArgumentError, match="twice"):
        seeded(devices=["numpy", "numpy:0"])


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize(("precision", "near"), [("bfloat16", 3e-3), ("float16", 5e-4)])
def test_mixed_precision_on_two_devices_is_that_on_one(precision, near, accumulate):
    pytest.importorskip("ingle.router")
    options = {"precision": precision, "accumulate": accumulate, "max_grad_norm": 1.0}
    one, two = seeded(**options), seeded(devices=["cpu", "numpy"], **options)
    seen = set()
    two.model[2].register_forward_hook(
        lambda module, args, out: seen.add((out.dtype.name, str(out.device)))
    )
    first, second = (learner.fit(loader(), epochs=3, valid=loader()) for learner in (one, two))
    assert {(precision, "cpu"), (precision, "numpy")} <= seen
    assert {str(p.dtype) for p in two.model.parameters()} == {"float32"}
    np.testing.assert_allclose(weights(two), weights(one), atol=near)
    for name in ("train/loss", "valid/loss"):
        assert first[-1][name] == pytest.approx(second[-1][name], rel=10 * near)
    assert two.scaler.get_scale() == one.scaler.get_scale()


def test_an_overflow_on_one_device_leaves_the_step_out():
    pytest.importorskip("ingle.router")
    learner = make(model=nn.Linear(5, 3), devices=["cpu", "numpy"], precision="float16")
    before, scale = weights(learner), learner.scaler.get_scale()
    inputs = X[:8].copy()
    inputs[6:] *= 5000.0  # of the second device alone
    loss = learner.step([(inputs, Y[:8])])
    assert np.isfinite(loss)
    np.testing.assert_array_equal(weights(learner), before)
    assert learner.scaler.get_scale() == scale / 2
    learner.step([(X[:8], Y[:8])])
    assert (weights(learner) != before).any()


@pytest.mark.slow
def test_several_devices_in_mixed_precision_resume(tmp_path):
    pytest.importorskip("ingle.router")

    def learner(place):
        return seeded(
            devices=["cpu", "numpy"], precision="float16", accumulate=2,
            checkpoints=tmp_path / place, checkpoint_every=2,
        )  # fmt: skip

    whole = learner("whole")
    whole.fit(loader(), epochs=2)
    broken = learner("broken")
    broken.fit(loader(), epochs=1)
    again = learner("broken")
    again.fit(loader(), epochs=2, resume=True)
    # Kernels of half types keep more digits than operations one by one do, and which of them a
    # first step has depends on what was compiled before.
    np.testing.assert_allclose(weights(again), weights(whole), atol=1e-4)
    assert (again.steps, again.epoch) == (whole.steps, whole.epoch)
    assert again.scaler.state_dict() == whole.scaler.state_dict()


def test_a_loss_that_is_no_number_is_located_on_several_devices():
    pytest.importorskip("ingle.router")
    learner = seeded(devices=["cpu", "numpy"], precision="bfloat16")
    inputs = X[:8].copy()
    inputs[7, 0] = np.nan
    with pytest.raises(NonFiniteLossError, match="loss"):
        learner.step([(inputs, Y[:8])])
    assert learner.steps == 0
