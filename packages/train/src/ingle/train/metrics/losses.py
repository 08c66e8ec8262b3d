"""The loss as a metric."""

from __future__ import annotations

from typing import Any

from ingle.tensor import Tensor

from .base import Mean


class MeanLoss(Mean):
    """The mean loss over all samples; NaN before the first.

    Each batch's mean weighs by its samples: the outputs' first size, or that of the first of
    several, or the length of a list.

    >>> import ingle.tensor as it
    >>> from ingle.train import MeanLoss
    >>> mean = MeanLoss()
    >>> mean.update(it.zeros((3, 2)), it.zeros((3,)), 1.0)
    >>> mean.update(it.zeros((1, 2)), it.zeros((1,)), 2.0)
    >>> mean.compute()
    1.25
    """

    name = "loss"

    def update(self, outputs: Any, targets: Any, loss: float) -> None:
        count = _samples(outputs)
        self.total += loss * count
        self.count += count


def _samples(outputs: Any) -> int:
    """How many samples the outputs are of; a tuple and a dict hold parts, a list samples."""
    while isinstance(outputs, (tuple, dict)) and outputs:
        outputs = next(iter(outputs.values() if isinstance(outputs, dict) else outputs))
    if isinstance(outputs, Tensor):
        return outputs.shape[0] if outputs.shape else 1
    return len(outputs) if isinstance(outputs, list) else 1
