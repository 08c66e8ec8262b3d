"""Losses."""

from __future__ import annotations

import ingle.tensor as it
from ingle.tensor import Tensor

from ...errors import ModelError
from ..registry import operator


@operator("NegativeLogLikelihoodLoss")
def nll_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The negative of what stands at the target's class, each class with its weight."""
    classes = target.astype(it.int64)
    counted = None
    if ignore_index is not None:
        counted = classes != ignore_index
        classes = it.where(counted, classes, it.zeros_like(classes))
    loss = -it.squeeze(it.take_along_axis(x, it.expand_dims(classes, 1), axis=1), axis=1)
    if weight is None:
        scale = it.ones_like(loss)
    else:
        scale = it.reshape(it.take(weight, it.reshape(classes, (-1,)), axis=0), classes.shape)
    if counted is not None:
        scale = it.where(counted, scale, it.zeros_like(scale))
    loss = loss * scale
    if reduction == "none":
        return loss
    if reduction not in ("mean", "sum"):
        raise ModelError(f"reduction must be none, mean or sum, got {reduction!r}")
    return it.sum(loss) / it.sum(scale) if reduction == "mean" else it.sum(loss)


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The loss of scores before softmax, and the logarithms of the probabilities."""
    logs = it.log_softmax(x, axis=1)
    loss = nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=reduction)
    return loss, logs
