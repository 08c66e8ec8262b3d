"""Losses as layers: each applies the function of its name in `ingle.tensor`.

`reduction` is `"mean"`, `"sum"` or `"none"` everywhere; see the functions for the formulas.
"""

from __future__ import annotations

from typing import Literal, Self

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, OperandError

from .module import Module
from .parameter import Buffer

Reduction = Literal["mean", "sum", "none"]


class _Loss(Module):
    _reductions: tuple[str, ...] = ("mean", "sum", "none")

    def __new__(cls, *args: object, **options: object) -> Self:
        if len(args) > 1 and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
            raise OperandError(
                f"{cls.__name__}: a loss is made first and called with outputs and targets then: "
                f"write {cls.__name__}()(outputs, targets)"
            )
        return super().__new__(cls)

    def __init__(self, reduction: str = "mean") -> None:
        if reduction not in self._reductions:
            raise ArgumentError(
                f"{type(self).__name__}: reduction must be one of {', '.join(self._reductions)}, "
                f"got {reduction!r}"
            )
        self.reduction = reduction

    def _reduced(self, loss: Tensor) -> Tensor:
        """A loss of each element, as the reduction says."""
        if self.reduction == "none":
            return loss
        return it.mean(loss) if self.reduction == "mean" else it.sum(loss)


class _WeightedLoss(_Loss):
    def __init__(self, weight: TensorLike | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight = None if weight is None else Buffer(it.asarray(weight))


class CrossEntropyLoss(_WeightedLoss):
    """Softmax and negative log-likelihood in one; classes are axis 1, or axis 0 of a vector.

    Args:
        weight: one for each class.
        ignore_index: a target that does not count.
        reduction: over the targets.
        label_smoothing: the part of a target that is spread over all classes.

    >>> import ingle.tensor as it
    >>> from ingle.nn import CrossEntropyLoss
    >>> round(CrossEntropyLoss()(it.zeros((2, 4)), it.asarray([0, 3])).item(), 4)
    1.3863
    """

    def __init__(
        self,
        weight: TensorLike | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, logits: TensorLike, target: TensorLike) -> Tensor:
        return it.cross_entropy(
            logits, target, self.weight, ignore_index=self.ignore_index,
            reduction=self.reduction, label_smoothing=self.label_smoothing,
        )  # fmt: skip


class NLLLoss(_WeightedLoss):
    """Minus the log-probability of the target class; takes what `LogSoftmax` returns.

    Args:
        weight: one for each class.
        ignore_index: a target that does not count.
        reduction: over the targets.

    >>> import ingle.tensor as it
    >>> from ingle.nn import NLLLoss
    >>> NLLLoss()(it.asarray([[-0.5, -2.0]]), it.asarray([1])).item()
    2.0
    """

    def __init__(
        self,
        weight: TensorLike | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        return it.nll_loss(
            x, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class MSELoss(_Loss):
    """The squared difference.

    >>> import ingle.tensor as it
    >>> from ingle.nn import MSELoss
    >>> MSELoss()(it.asarray([1.0, 2.0]), it.asarray([1.0, 4.0])).item()
    2.0
    """

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        return it.mse_loss(x, target, reduction=self.reduction)


class L1Loss(_Loss):
    """The absolute difference.

    >>> import ingle.tensor as it
    >>> from ingle.nn import L1Loss
    >>> L1Loss("sum")(it.asarray([1.0, 2.0]), it.asarray([1.0, 4.0])).item()
    2.0
    """

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        return it.l1_loss(x, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squared below `beta` and absolute above, with slope 1.

    >>> import ingle.tensor as it
    >>> from ingle.nn import SmoothL1Loss
    >>> SmoothL1Loss()(it.asarray([0.0]), it.asarray([3.0])).item()
    2.5
    """

    def __init__(self, reduction: Reduction = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        return it.smooth_l1_loss(x, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Squared below `delta` and absolute above, with slope `delta`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import HuberLoss
    >>> HuberLoss(delta=2.0)(it.asarray([0.0]), it.asarray([3.0])).item()
    4.0
    """

    def __init__(self, reduction: Reduction = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        return it.huber_loss(x, target, reduction=self.reduction, delta=self.delta)


class BCELoss(_WeightedLoss):
    """Binary cross-entropy of probabilities; the logarithms end at -100.

    >>> import ingle.tensor as it
    >>> from ingle.nn import BCELoss
    >>> BCELoss()(it.asarray([0.0, 1.0]), it.asarray([0.0, 0.0])).item()
    50.0
    """

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        return it.binary_cross_entropy(x, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """Sigmoid and binary cross-entropy in one, without overflow.

    Args:
        weight: of each element; broadcast.
        reduction: over all elements.
        pos_weight: of the positive part, one for each class; broadcast.

    >>> import ingle.tensor as it
    >>> from ingle.nn import BCEWithLogitsLoss
    >>> BCEWithLogitsLoss()(it.asarray([1000.0]), it.asarray([1.0])).item()
    0.0
    """

    def __init__(
        self,
        weight: TensorLike | None = None,
        reduction: Reduction = "mean",
        pos_weight: TensorLike | None = None,
    ) -> None:
        super().__init__(weight, reduction)
        self.pos_weight = None if pos_weight is None else Buffer(it.asarray(pos_weight))

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        return it.binary_cross_entropy_with_logits(
            x, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(_Loss):
    """The divergence of `target` from log-probabilities `x`.

    Args:
        reduction: besides the usual, `"batchmean"` divides the sum by the first axis' size, which
            is the divergence of the definition.
        log_target: whether the target holds log-probabilities too.

    >>> import ingle.tensor as it
    >>> from ingle.nn import KLDivLoss
    >>> p = it.asarray([[0.5, 0.5]])
    >>> KLDivLoss("batchmean")(it.log(p), p).item()
    0.0
    """

    _reductions = ("mean", "sum", "none", "batchmean")

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        return it.kl_div(x, target, reduction=self.reduction, log_target=self.log_target)
