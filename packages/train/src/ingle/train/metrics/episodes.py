"""Metrics of agents: rewards and lengths of episodes, and how often actions are tried at random."""

from __future__ import annotations

import numpy as np

from ingle.tensor import Tensor
from ingle.tensor.errors import ShapeError

from .base import Doubles, Mean, doubles, seen


class _OfEpisodes(Mean):
    """The mean over episodes that have ended, of a sum over their steps.

    Steps come in order, a batch for some of them: along the first axis, and for several
    environments side by side along the second. An episode may go on from batch to batch.
    """

    gathered = ("total", "count", "begun")

    def reset(self) -> None:
        super().reset()
        self.begun: list[float] = []
        """For each environment the sum of the episode that has not ended."""

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        """Takes in steps.

        Args:
            outputs: the rewards, of shape (steps,) or (steps, environments).
            targets: whether an episode ended with each step, of the same shape: bool, or 0 and 1.
            loss: is not looked at.

        Raises:
            ShapeError: the shapes differ, or the number of environments has changed.
        """
        rewards, ends = self._steps(outputs, targets)
        if not self.begun:
            self.begun = [0.0] * rewards.shape[1]
        if len(self.begun) != rewards.shape[1]:
            raise ShapeError(
                f"{self.name}: there were {len(self.begun)} environments, got rewards "
                f"{seen(outputs)}; begin anew with reset()"
            )
        for added, ended in zip(self._added(rewards), ends, strict=True):
            self.begun = (np.asarray(self.begun) + added).tolist()
            for number in np.flatnonzero(ended).tolist():
                self.total += self.begun[number]
                self.count += 1
                self.begun[number] = 0.0

    def _added(self, rewards: Doubles) -> Doubles:
        raise NotImplementedError

    def _steps(self, outputs: Tensor, targets: Tensor) -> tuple[Doubles, Doubles]:
        if outputs.ndim not in (1, 2) or outputs.shape != targets.shape:
            raise ShapeError(
                f"{self.name}: needs rewards of shape (steps,) or (steps, environments) and of "
                f"the same shape whether an episode ended, got {seen(outputs)} and {seen(targets)}"
            )
        rewards, ends = doubles(outputs), doubles(targets)
        return (rewards, ends) if rewards.ndim == 2 else (rewards[:, None], ends[:, None])


class CumulativeReward(_OfEpisodes):
    """The sum of rewards of an episode, without discount; the mean over episodes that have ended.

    NaN before the first end.

    >>> import ingle.tensor as it
    >>> from ingle.train import CumulativeReward
    >>> metric = CumulativeReward()
    >>> metric.update(it.asarray([1.0, 2.0, 5.0]), it.asarray([False, True, False]), 0.0)
    >>> metric.compute()
    3.0
    """

    name = "cumulative_reward"

    def _added(self, rewards: Doubles) -> Doubles:
        return rewards


class EpisodeLength(_OfEpisodes):
    """The number of steps of an episode; the mean over episodes that have ended.

    NaN before the first end.

    >>> import ingle.tensor as it
    >>> from ingle.train import EpisodeLength
    >>> metric = EpisodeLength()
    >>> metric.update(it.zeros((5,)), it.asarray([False, True, False, False, True]), 0.0)
    >>> metric.compute()
    2.5
    """

    name = "episode_length"

    def _added(self, rewards: Doubles) -> Doubles:
        return np.ones_like(rewards)


class ExplorationRate(Mean):
    """The part of actions that were tried at random rather than thought best.

    `update` takes as outputs for each action whether it was, bool or 0 and 1, in any shape; targets
    are not looked at.

    >>> import ingle.tensor as it
    >>> from ingle.train import ExplorationRate
    >>> metric = ExplorationRate()
    >>> tried = it.asarray([True, False, False, False])
    >>> metric.update(tried, tried, 0.0)
    >>> metric.compute()
    0.25
    """

    name = "exploration_rate"

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        """Takes in some actions."""
        tried = doubles(outputs)
        self.total += float(tried.sum())
        self.count += tried.size
