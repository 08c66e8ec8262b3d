"""Losses of margins, distances and rankings as layers; see the functions for the formulas."""

from __future__ import annotations

from collections.abc import Callable

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.argument_checks import number
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, ShapeError

from .losses import Reduction, _Loss, _WeightedLoss


class MarginRankingLoss(_Loss):
    """`max(0, -y * (x1 - x2) + margin)`: the first of two inputs should be larger where y is 1.

    >>> import ingle.tensor as it
    >>> from ingle.nn import MarginRankingLoss
    >>> MarginRankingLoss()(it.asarray([1.0]), it.asarray([3.0]), it.asarray([1.0])).item()
    2.0
    """

    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, x1: TensorLike, x2: TensorLike, target: TensorLike) -> Tensor:
        return it.margin_ranking_loss(x1, x2, target, margin=self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """A distance where y is 1, and what it lacks of the margin where y is -1.

    >>> import ingle.tensor as it
    >>> from ingle.nn import HingeEmbeddingLoss
    >>> HingeEmbeddingLoss()(it.asarray([0.25, 0.25]), it.asarray([1.0, -1.0])).item()
    0.5
    """

    def __init__(self, margin: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        return it.hinge_embedding_loss(x, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """One less the cosine of two vectors where y is 1, what it exceeds the margin by where -1.

    >>> import ingle.tensor as it
    >>> from ingle.nn import CosineEmbeddingLoss
    >>> x = it.asarray([[1.0, 0.0]])
    >>> CosineEmbeddingLoss(margin=0.5)(x, x, it.asarray([-1.0])).item()
    0.5
    """

    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, x1: TensorLike, x2: TensorLike, target: TensorLike) -> Tensor:
        return it.cosine_embedding_loss(
            x1, x2, target, margin=self.margin, reduction=self.reduction
        )


class SoftMarginLoss(_Loss):
    """`log(1 + exp(-y * x))` for y of 1 and -1.

    >>> import ingle.tensor as it
    >>> from ingle.nn import SoftMarginLoss
    >>> round(SoftMarginLoss()(it.asarray([0.0]), it.asarray([1.0])).item(), 4)
    0.6931
    """

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        return it.soft_margin_loss(x, target, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Each class of the target should exceed each other class by 1; a -1 ends the list of classes.

    >>> import ingle.tensor as it
    >>> from ingle.nn import MultiLabelMarginLoss
    >>> MultiLabelMarginLoss()(it.asarray([[0.0, 0.5]]), it.asarray([[0, -1]])).item()
    0.75
    """

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        return it.multilabel_margin_loss(x, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of the binary cross-entropy of scores.

    >>> import ingle.tensor as it
    >>> from ingle.nn import MultiLabelSoftMarginLoss
    >>> loss = MultiLabelSoftMarginLoss()(it.zeros((1, 2)), it.asarray([[1.0, 0.0]]))
    >>> round(loss.item(), 4)
    0.6931
    """

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        return it.multilabel_soft_margin_loss(x, target, self.weight, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """The class of the target should exceed each other class by a margin.

    Args:
        p: 1 or 2, the power of what is missing.
        margin: by how much.
        weight: one for each class.
        reduction: over the examples.

    >>> import ingle.tensor as it
    >>> from ingle.nn import MultiMarginLoss
    >>> MultiMarginLoss()(it.asarray([[0.0, 0.5]]), it.asarray([1])).item()
    0.25
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: TensorLike | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(weight, reduction)
        self.p, self.margin = p, margin

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        return it.multi_margin_loss(
            x, target, self.weight, p=self.p, margin=self.margin, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """An anchor should be nearer to the positive than to the negative by a margin.

    Args:
        margin: by how much.
        p: of the norm that is the distance.
        eps: added to each difference.
        swap: whether the distance of positive and negative counts where it is less; Balntas et al.
            (BMVC 2016).
        reduction: over the examples.

    >>> import ingle.tensor as it
    >>> from ingle.nn import TripletMarginLoss
    >>> x = it.asarray([[0.0, 0.0]])
    >>> TripletMarginLoss()(x, x, x).item()
    1.0
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: TensorLike, positive: TensorLike, negative: TensorLike) -> Tensor:
        return it.triplet_margin_loss(
            anchor, positive, negative, margin=self.margin, p=self.p, eps=self.eps,
            swap=self.swap, reduction=self.reduction,
        )  # fmt: skip


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with any distance.

    Args:
        distance_function: of two inputs; the Euclidean distance if not given.
        margin: by how much.
        swap: whether the distance of positive and negative counts where it is less.
        reduction: over the examples.

    >>> import ingle.tensor as it
    >>> from ingle.nn import TripletMarginWithDistanceLoss
    >>> loss = TripletMarginWithDistanceLoss(distance_function=lambda a, b: abs(a - b))
    >>> loss(it.asarray([0.0]), it.asarray([1.0]), it.asarray([1.5])).item()
    0.5
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        if margin <= 0:
            raise ArgumentError(
                f"TripletMarginWithDistanceLoss: margin must be above 0, got {margin}"
            )
        self.distance_function = distance_function or it.pairwise_distance
        self.margin, self.swap = margin, swap

    def forward(self, anchor: TensorLike, positive: TensorLike, negative: TensorLike) -> Tensor:
        a, p, n = it.asarray(anchor), it.asarray(positive), it.asarray(negative)
        near, far = self.distance_function(a, p), self.distance_function(a, n)
        if self.swap:
            far = it.minimum(far, self.distance_function(p, n))
        return self._reduced(it.relu(near - far + self.margin))


class LpLoss(_Loss):
    """The absolute difference to a power.

    Args:
        p: the power, above 0.
        reduction: over all elements.

    >>> import ingle.tensor as it
    >>> from ingle.nn import LpLoss
    >>> LpLoss(3.0, "sum")(it.asarray([1.0, 2.0]), it.asarray([1.0, 4.0])).item()
    8.0
    """

    def __init__(self, p: float, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        if number("LpLoss", "p", p) <= 0:
            raise ArgumentError(f"LpLoss: p must be above 0, got {p}")
        self.p = p

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        return self._reduced(it.pow(it.abs(it.asarray(x) - it.asarray(target)), self.p))


class GramMatrixLoss(_Loss):
    """The squared difference of Gram matrices of (N, C, H, W), for style; Gatys et al. (2016).

    >>> import ingle.tensor as it
    >>> from ingle.nn import GramMatrixLoss
    >>> GramMatrixLoss()(it.ones((1, 2, 3, 3)), it.ones((1, 2, 3, 3))).item()
    0.0
    """

    def forward(self, x: TensorLike, target: TensorLike) -> Tensor:
        difference = _gram(x) - _gram(target)
        return self._reduced(difference * difference)


def _gram(x: TensorLike) -> Tensor:
    x = it.asarray(x)
    if x.ndim != 4:
        raise ShapeError(
            "GramMatrixLoss: x and target must have 4 axes, (batch, channels, height, width), got "
            f"shape {x.shape}"
        )
    n, c, h, w = x.shape
    rows = it.reshape(x, (n, c, h * w))
    return rows @ rows.mT / (c * h * w)
