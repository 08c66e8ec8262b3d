"""Likelihoods of alignments, counts and normal distributions as layers."""

from __future__ import annotations

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike

from .losses import Reduction, _Loss


class CTCLoss(_Loss):
    """Minus the log-probability of a target over all alignments; Graves et al. (ICML 2006).

    `forward(log_probs, targets, input_lengths, target_lengths)`, see `ingle.tensor.ctc_loss`.

    Args:
        blank: the class of no label.
        reduction: `"mean"` divides by the targets' lengths first.
        zero_infinity: whether infinite losses, of targets too long for their input, are 0.

    >>> import ingle.tensor as it
    >>> from ingle.nn import CTCLoss
    >>> scores = it.log(it.asarray([[[0.5, 0.5]], [[0.5, 0.5]]]))
    >>> round(CTCLoss()(scores, it.asarray([[1]]), [2], [1]).item(), 4)
    0.2877
    """

    def __init__(
        self, blank: int = 0, reduction: Reduction = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self, log_probs: TensorLike, targets: TensorLike, input_lengths: TensorLike,
        target_lengths: TensorLike,
    ) -> Tensor:  # fmt: skip
        return it.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, blank=self.blank,
            reduction=self.reduction, zero_infinity=self.zero_infinity,
        )  # fmt: skip


class PoissonNLLLoss(_Loss):
    """Minus the log-likelihood of counts under a Poisson distribution.

    Args:
        log_input: whether the input is the logarithm of the rate.
        full: whether Stirling's approximation of the constant is added.
        eps: added to rates before the logarithm.
        reduction: over all elements.

    >>> import ingle.tensor as it
    >>> from ingle.nn import PoissonNLLLoss
    >>> PoissonNLLLoss()(it.asarray([0.0]), it.asarray([3.0])).item()
    1.0
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, eps: float = 1e-8,
        reduction: Reduction = "mean",
    ) -> None:  # fmt: skip
        super().__init__(reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: TensorLike, target: TensorLike) -> Tensor:
        return it.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps,
            reduction=self.reduction,
        )  # fmt: skip


class GaussianNLLLoss(_Loss):
    """Minus the log-likelihood of targets under normal distributions; `forward(x, target, var)`.

    Args:
        full: whether the constant is added.
        eps: the least variance.
        reduction: over all elements.

    >>> import ingle.tensor as it
    >>> from ingle.nn import GaussianNLLLoss
    >>> GaussianNLLLoss()(it.asarray([0.0]), it.asarray([2.0]), it.asarray([1.0])).item()
    2.0
    """

    def __init__(
        self, *, full: bool = False, eps: float = 1e-6, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction)
        self.full, self.eps = full, eps

    def forward(self, x: TensorLike, target: TensorLike, var: TensorLike) -> Tensor:
        return it.gaussian_nll_loss(
            x, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )
