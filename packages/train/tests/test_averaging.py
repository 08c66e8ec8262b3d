"""An average of the weights beside the recurrence written out."""

import numpy as np
import pytest
from learners import loader, make, weights

from ingle.tensor.errors import ArgumentError
from ingle.train import Callback, WeightAverage


class Watch(Callback):
    def __init__(self):
        self.steps, self.evaluated = [], []

    def on_step(self, learner, loss):
        self.steps.append(weights(learner).astype(np.float64))

    def on_evaluation(self, learner, record):
        self.evaluated.append((weights(learner), record["valid/loss"]))


def averages(steps, decay):
    value = steps[0]
    for i, weight in enumerate(steps[1:], 1):
        value = value + (weight - value) * (1 / (i + 1) if decay is None else 1 - decay)
    return value


def run(decay=0.8, every=1, evaluate=True, epochs=2, resume=False, **options):
    learner = make(**options)
    averaged = WeightAverage(learner.model, decay=decay, every=every, evaluate=evaluate)
    watch = Watch()
    learner.callbacks.extend([averaged, watch])
    learner.fit(loader(), epochs=epochs, valid=loader(), valid_every=3, resume=resume)
    return learner, averaged, watch


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("decay", [0.8, None])
def test_the_average_is_that_of_the_steps(decay, every):
    _, averaged, watch = run(decay, every)
    found = np.concatenate([p.raw.numpy().ravel() for p in averaged.average.module.parameters()])
    expected = averages(watch.steps[every - 1 :: every], decay)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_evaluations_are_of_the_average_and_training_is_not():
    plain, _, own = run(evaluate=False)
    learner, averaged, watch = run()
    np.testing.assert_array_equal(weights(plain), weights(learner))
    # Outside of the evaluation the model has its own weights.
    np.testing.assert_array_equal(watch.evaluated[0][0], own.evaluated[0][0])
    assert watch.evaluated[0][1] != own.evaluated[0][1]
    learner.callbacks.remove(averaged)
    learner.model.load_state_dict(averaged.average.module.state_dict())
    # Batches are of another order by now.
    loss = learner.evaluate(loader())["loss"]
    assert loss == pytest.approx(learner.history[-1]["valid/loss"], rel=1e-6)


@pytest.mark.slow
def test_an_error_while_evaluating_leaves_the_weights_alone():
    learner, _, _ = run()
    before = weights(learner)

    def lost():
        raise OSError("the disk is gone")
        yield

    with pytest.raises(OSError, match="gone"):
        learner.evaluate(lost())
    np.testing.assert_array_equal(weights(learner), before)
    assert learner.model.training


@pytest.mark.slow
def test_a_resumed_training_has_the_same_average(tmp_path):
    whole = run(epochs=3)
    run(epochs=1, checkpoints=tmp_path)
    rest = run(epochs=3, checkpoints=tmp_path, resume=True)
    for name, value in whole[1].average.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), rest[1].average.state_dict()[name].numpy())
    assert whole[0].history[-1]["valid/loss"] == rest[0].history[-1]["valid/loss"]


def test_every_must_be_positive():
    with pytest.raises(ArgumentError, match="WeightAverage: every must be at least 1"):
        WeightAverage(make().model, every=0)
