"""Losses that compare probabilities with those of a target of the same shape."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import TensorLike, handle_of
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import widened
from ..elementwise.cast import astype
from ..elementwise.exponential import exp, log, log1p
from ..elementwise.extrema import maximum
from ..elementwise.smooth_activations import softplus
from ..elementwise.where import where
from ._pairs import REDUCTIONS, compared, pair_loss, unreduced, weighted

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def kl_div(
    x: TensorLike, target: TensorLike, *, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """The divergence `target * (log(target) - x)` of log-probabilities from a distribution.

    Args:
        x: logarithms of the predicted probabilities.
        target: the true probabilities, or their logarithms if `log_target`.
        reduction: `"mean"`, `"sum"`, `"none"`, or `"batchmean"`, which divides the sum by the
            size of axis 0 and so is the mathematical divergence.
        log_target: whether the target holds logarithms.

    >>> import ingle.tensor as it
    >>> p = it.asarray([[0.5, 0.5]])
    >>> it.kl_div(it.log(p), p, reduction="batchmean").item()
    0.0
    """
    operation = _KL_LOG if log_target else _KL
    if reduction != "batchmean":
        return compared(operation, x, target, reduction)
    total = compared(operation, x, target, "sum")
    shape = handle_of(x, "kl_div").shape
    return total / float(shape[0]) if shape else total


def _distributions(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        for reduction in REDUCTIONS:
            x, target = draw.array((3, 5), high=-0.1), draw.array((3, 5), low=0.1, high=1.0)
            yield Sample((x, target), {"reduction": reduction}, condition=16)


def _log_distributions(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        x, target = draw.array((3, 5), high=-0.1), draw.array((3, 5), high=-0.1)
        yield Sample((x, target), {"log_target": True}, condition=16)


def _kl(x: Tensor, target: Tensor) -> Tensor:
    # 0 * log(0) is 0 here; the inner choice keeps its gradient from being NaN.
    some = target > 0
    entropy = where(some, target * log(where(some, target, 1.0)), 0.0)
    return entropy - target * x


def _kl_reference(x: Any, target: Any, log_target: bool = False) -> Any:
    from scipy.special import xlogy

    if log_target:
        return np.exp(target) * (target - x)
    return xlogy(target, target) - target * x


_KL = pair_loss("kl_div", kl_div, _kl, reference=_kl_reference, samples=_distributions)
_KL_LOG = pair_loss(
    "kl_div_log_target",
    kl_div,
    lambda x, target: exp(target) * (target - x),
    reference=_kl_reference,
    samples=_log_distributions,
)


def _probabilities(draw: Draw, logits: bool) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    low, high = (-3.0, 3.0) if logits else (0.1, 0.9)
    for shape, weight in (((3, 5), None), ((17,), (17,)), ((2, 3), (3,))):
        for reduction in REDUCTIONS:
            x = draw.array(shape, low=low, high=high)
            target = draw.array(shape, low=0.1, high=0.9)
            more = () if weight is None else (draw.array(weight, low=0.5, high=2.0),)
            # A weight is a constant: it gets no gradient.
            yield Sample(
                (x, target, *more), {"reduction": reduction}, gradient=(0, 1), condition=16
            )


@guarded
def binary_cross_entropy(
    x: TensorLike, target: TensorLike, weight: TensorLike | None = None, *, reduction: str = "mean"
) -> Tensor:
    """`-(target * log(x) + (1 - target) * log(1 - x))` for probabilities x.

    The logarithms are kept above -100, so that a wrong certainty has a finite loss.
    `binary_cross_entropy_with_logits` is more accurate.

    Args:
        x: probabilities, in [0, 1]; the loss of others is NaN, and so is its gradient.
        target: of the same shape, in [0, 1].
        weight: multiplies the loss of each element; broadcasts.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each element.

    >>> import ingle.tensor as it
    >>> it.binary_cross_entropy(it.asarray([1.0, 0.0]), it.asarray([1.0, 1.0])).item()
    50.0
    """
    return weighted(_BCE, reduction, ("x", x), ("target", target), ("weight", weight))


def _bce(x: Tensor, target: Tensor, weight: Tensor | float) -> Tensor:
    positive, negative = maximum(log(x), -100.0), maximum(log1p(-x), -100.0)
    return ((target - 1.0) * negative - target * positive) * weight


def _bce_vjp(
    g: Tensor, x: Tensor, target: Tensor, weight: Tensor | float, reduction: str,
    needs: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    dtype, x, target = x.dtype, widened(x), widened(target)
    each = unreduced(widened(g), x.shape, reduction)
    each = each * (weight if isinstance(weight, float) else widened(weight))
    by_x = by_target = None
    if needs[0]:
        spread = x * (1.0 - x)
        # Where the loss is NaN, outside of [0, 1], its slope is: what clips it would hide that.
        spread = where(spread >= 0.0, maximum(spread, 1e-12), math.nan)
        by_x = astype(each * (x - target) / spread, dtype)
    if needs[1]:
        odds = maximum(log1p(-x), -100.0) - maximum(log(x), -100.0)
        by_target = astype(each * odds, dtype)
    return by_x, by_target


def _bce_reference(x: Any, target: Any, weight: Any = 1.0) -> Any:
    yes, no = np.maximum(np.log(x), -100), np.maximum(np.log1p(-x), -100)
    return -weight * (target * yes + (1 - target) * no)


_BCE = pair_loss(
    "binary_cross_entropy",
    binary_cross_entropy,
    _bce,
    others=("weight",),
    vjp={("x", "target"): _bce_vjp},
    reference=_bce_reference,
    samples=partial(_probabilities, logits=False),
)


@guarded
def binary_cross_entropy_with_logits(
    x: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    *,
    pos_weight: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`binary_cross_entropy(sigmoid(x), target)`, without overflow and without lost digits.

    Args:
        x: logits: any real numbers.
        target: of the same shape, in [0, 1].
        weight: multiplies the loss of each element; broadcasts.
        pos_weight: multiplies the part of the positive targets; broadcasts.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each element.

    >>> import ingle.tensor as it
    >>> it.binary_cross_entropy_with_logits(it.asarray([1000.0]), it.asarray([0.0])).item()
    1000.0
    """
    return weighted(
        _BCE_LOGITS, reduction,
        ("x", x), ("target", target), ("weight", weight), ("pos_weight", pos_weight),
    )  # fmt: skip


def _bce_logits(
    x: Tensor, target: Tensor, weight: Tensor | float, pos_weight: Tensor | float
) -> Tensor:
    scale = 1.0 if isinstance(pos_weight, float) else (pos_weight - 1.0) * target + 1.0
    return ((1.0 - target) * x + softplus(-x) * scale) * weight


def _bce_logits_reference(x: Any, target: Any, weight: Any = 1.0) -> Any:
    from scipy.special import log_expit

    return -weight * (target * log_expit(x) + (1 - target) * log_expit(-x))


_BCE_LOGITS = pair_loss(
    "binary_cross_entropy_with_logits",
    binary_cross_entropy_with_logits,
    _bce_logits,
    others=("weight", "pos_weight"),
    reference=_bce_logits_reference,
    samples=partial(_probabilities, logits=True),
)
