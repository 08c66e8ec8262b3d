"""Losses that compare a prediction with a target of the same shape: powers of their distance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import TensorLike
from ...errors import ArgumentError
from .._guarding import guarded
from ..elementwise.arithmetic import abs
from ..elementwise.powers import square
from ..elementwise.where import where
from ._pairs import compared, pair_loss

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def mse_loss(x: TensorLike, target: TensorLike, *, reduction: str = "mean") -> Tensor:
    """The mean of `(x - target)**2`.

    Args:
        x, target: float tensors of one shape.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each element.

    Raises:
        ShapeError: the shapes differ: broadcasting would compare each with each.

    >>> import ingle.tensor as it
    >>> it.mse_loss(it.asarray([1.0, 3.0]), it.asarray([1.0, 1.0])).item()
    2.0
    """
    return compared(_MSE, x, target, reduction)


_MSE = pair_loss(
    "mse_loss",
    mse_loss,
    lambda x, target: square(x - target),
    reference=lambda x, target: (x - target) ** 2,
)


@guarded
def l1_loss(x: TensorLike, target: TensorLike, *, reduction: str = "mean") -> Tensor:
    """The mean of `|x - target|`.

    Args:
        x, target: float tensors of one shape.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each element.

    >>> import ingle.tensor as it
    >>> it.l1_loss(it.asarray([1.0, 3.0]), it.asarray([1.0, 1.0])).item()
    1.0
    """
    return compared(_L1, x, target, reduction)


_L1 = pair_loss(
    "l1_loss",
    l1_loss,
    lambda x, target: abs(x - target),
    reference=lambda x, target: np.abs(x - target),
)


@guarded
def smooth_l1_loss(
    x: TensorLike, target: TensorLike, *, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """`|x - target| - beta / 2`, but `(x - target)**2 / (2 * beta)` where that is below `beta`.

    Girshick: Fast R-CNN (arXiv 1504.08083). For `beta` 0 it is `l1_loss`.

    Args:
        x, target: float tensors of one shape.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each element.
        beta: the difference at which the square ends.

    Raises:
        ArgumentError: `beta` is negative.

    >>> import ingle.tensor as it
    >>> it.smooth_l1_loss(it.asarray([1.0, 4.0]), it.asarray([0.0, 0.0])).item()
    2.0
    """
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    if not beta:
        return compared(_L1, x, target, reduction)
    return compared(_SMOOTH_L1, x, target, reduction, beta)


def _smooth_l1(x: Tensor, target: Tensor, beta: float) -> Tensor:
    off = x - target
    near = abs(off) < beta
    return where(near, square(where(near, off, 0)) * (0.5 / beta), abs(off) - 0.5 * beta)


def _smooth_l1_reference(x: Any, target: Any, beta: float = 1.0) -> Any:
    from scipy.special import huber

    return huber(beta, x - target) / beta


_SMOOTH_L1 = pair_loss(
    "smooth_l1_loss", smooth_l1_loss, _smooth_l1, others=("beta",), reference=_smooth_l1_reference
)


@guarded
def huber_loss(
    x: TensorLike, target: TensorLike, *, reduction: str = "mean", delta: float = 1.0
) -> Tensor:
    """`(x - target)**2 / 2` up to a difference of `delta`, and a straight line beyond.

    Huber: Robust estimation of a location parameter (1964).

    Args:
        x, target: float tensors of one shape.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each element.
        delta: the difference at which the square ends.

    Raises:
        ArgumentError: `delta` is not positive.

    >>> import ingle.tensor as it
    >>> it.huber_loss(it.asarray([1.0, 4.0]), it.asarray([0.0, 0.0])).item()
    2.0
    """
    if delta <= 0:
        raise ArgumentError(f"huber_loss: delta must be positive, got {delta}")
    return compared(_HUBER, x, target, reduction, delta)


def _huber(x: Tensor, target: Tensor, delta: float) -> Tensor:
    # Of the difference itself: that of its absolute value has no second derivative at 0. And
    # beyond, the square's derivative would be infinite, which is NaN times 0.
    off = x - target
    near = abs(off) <= delta
    return where(near, square(where(near, off, 0)) * 0.5, (abs(off) - 0.5 * delta) * delta)


def _huber_reference(x: Any, target: Any, delta: float = 1.0) -> Any:
    from scipy.special import huber

    return huber(delta, x - target)


_HUBER = pair_loss("huber_loss", huber_loss, _huber, others=("delta",), reference=_huber_reference)
