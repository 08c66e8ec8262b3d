"""Metrics of episodes beside loops over whole episodes."""

import json

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ShapeError
from ingle.train import CumulativeReward, EpisodeLength, ExplorationRate

RNG = np.random.default_rng(0)
REWARDS = RNG.standard_normal((40, 3))
ENDS = RNG.random((40, 3)) < 0.2


def episodes():
    """The rewards of each episode that has ended."""
    found = []
    for rewards, ends in zip(REWARDS.T, ENDS.T, strict=True):
        begun = []
        for reward, ended in zip(rewards, ends, strict=True):
            begun.append(reward)
            if ended:
                found.append(begun)
                begun = []
    return found


@pytest.mark.parametrize("cuts", [(), (1, 2, 3), (7, 7, 30)])
@pytest.mark.parametrize(("kind", "of"), [(CumulativeReward, sum), (EpisodeLength, len)])
def test_the_mean_over_episodes_however_steps_are_cut(kind, of, cuts):
    metric = kind()
    assert np.isnan(metric.compute())
    for rewards, ends in zip(np.split(REWARDS, cuts), np.split(ENDS, cuts), strict=True):
        metric.update(it.asarray(rewards), it.asarray(ends), 0.0)
        again = kind()
        again.load_state(json.loads(json.dumps(metric.state())))
        metric = again
    assert metric.compute() == pytest.approx(np.mean([of(e) for e in episodes()]), rel=1e-12)
    assert np.isnan(metric.fresh().compute())


def test_one_environment_needs_no_axis():
    one, wide = CumulativeReward(), CumulativeReward()
    one.update(it.asarray(REWARDS[:, 0]), it.asarray(ENDS[:, 0].astype(np.int64)), 0.0)
    wide.update(it.asarray(REWARDS[:, :1]), it.asarray(ENDS[:, :1]), 0.0)
    assert one.compute() == wide.compute()


def test_exploration():
    metric = ExplorationRate()
    for part in np.split(ENDS, 4):
        metric.update(it.asarray(part), it.zeros((1,)), 0.0)
    assert metric.compute() == ENDS.mean()


def test_what_does_not_fit_is_refused():
    metric = EpisodeLength()
    with pytest.raises(ShapeError, match=r"episode_length: needs rewards of shape .* float32\[4\]"):
        metric.update(it.zeros((4,)), it.zeros((5,)), 0.0)
    metric.update(it.zeros((4, 2)), it.zeros((4, 2)), 0.0)
    with pytest.raises(ShapeError, match="there were 2 environments"):
        metric.update(it.zeros((4, 3)), it.zeros((4, 3)), 0.0)
