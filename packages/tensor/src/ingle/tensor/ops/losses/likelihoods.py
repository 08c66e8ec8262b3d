"""Negative logarithms of likelihoods: counts of a Poisson, values of a normal distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...dispatch import TensorLike, as_floating, wrap
from ...errors import DTypeError, ShapeError
from .._guarding import guarded
from .._rules import broadcast_shapes
from ..elementwise.exponential import exp, log
from ..elementwise.powers import square
from ..elementwise.where import where
from ._pairs import reduced, require_reduction

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def poisson_nll_loss(
    x: TensorLike,
    target: TensorLike,
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """`rate - target * log(rate)` for counts of a Poisson distribution.

    Args:
        x: logarithms of the rates, or the rates themselves unless `log_input`; float.
        target: counts; broadcasts.
        log_input: whether `x` holds logarithms.
        full: add Stirling's approximation of `log(target!)` for targets above 1.
        eps: added to a rate before its logarithm is taken.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each element.

    >>> import ingle.tensor as it
    >>> it.poisson_nll_loss(it.asarray([0.0]), it.asarray([2.0])).item()
    1.0
    """
    name = "poisson_nll_loss"
    rate, counts = _float(name, "x", x), _float(name, "target", target)
    broadcast_shapes(name, rate.shape, counts.shape, arguments=("x", "target"))
    loss = exp(rate) - counts * rate if log_input else rate - counts * log(rate + eps)
    if full:
        large = where(counts > 1, counts, 2)
        stirling = large * log(large) - large + log(large * (2 * math.pi)) * 0.5
        loss = loss + where(counts > 1, stirling, 0)
    return reduced(loss, require_reduction(name, reduction))


@guarded
def gaussian_nll_loss(
    x: TensorLike,
    target: TensorLike,
    var: TensorLike,
    *,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """`(log(var) + (x - target) ** 2 / var) / 2` for values of a normal distribution.

    Nix, Weigend: Estimating the mean and variance of the target probability distribution (1994).

    Args:
        x: the predicted means, float.
        target: of the same shape.
        var: the predicted variances, of the same shape, with size 1 along the last axis, or
            without that axis.
        full: add the constant `log(2 * pi) / 2`.
        eps: the least variance; below it `var` gets no gradient.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each element.

    Raises:
        ShapeError: `var` has neither the shape of `x` nor one number for each row.

    >>> import ingle.tensor as it
    >>> it.gaussian_nll_loss(it.asarray([1.0]), it.asarray([3.0]), it.asarray([1.0])).item()
    2.0
    """
    name = "gaussian_nll_loss"
    means, wanted = _float(name, "x", x), _float(name, "target", target)
    spread = _float(name, "var", var)
    broadcast_shapes(name, means.shape, wanted.shape, arguments=("x", "target"))
    if spread.shape == means.shape[:-1] and means.ndim:
        spread = spread[..., None]
    elif spread.shape != means.shape and spread.shape != (*means.shape[:-1], 1):
        raise ShapeError(
            f"{name}: var must have the shape {means.shape} of x, or 1 or nothing in place of its "
            f"last axis, got {spread.shape}"
        )
    # Below eps the variance is a constant.
    kept = where(spread < eps, eps, spread)
    loss = (log(kept) + square(means - wanted) / kept) * 0.5
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, require_reduction(name, reduction))


def _float(name: str, argument: str, x: TensorLike) -> Tensor:
    handle = as_floating(x, name, argument)
    if not handle.dtype.is_floating:
        raise DTypeError(f"{name}: {argument} must be real, got {handle.dtype}")
    return wrap(handle)
