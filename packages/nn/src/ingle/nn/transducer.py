"""The loss of a transducer, over all alignments of labels with steps."""

from __future__ import annotations

import math

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.programs import loops_once

from .losses import Reduction, _Loss


class RNNTLoss(_Loss):
    """Minus the log-probability of labels under a transducer; Graves (arXiv 1211.3711).

    `forward(logits, targets, logit_lengths, target_lengths)`: (B, T, U + 1, classes), (B, U), and
    a length of each for each example. The forward variable goes through the steps in a `scan`;
    along the labels its recurrence is a running sum, so that a step is a few operations.

    Args:
        blank: the class that ends a step; it counts from the end if negative.
        reduction: over the batch.

    Raises:
        ShapeError: the shapes do not fit.

    >>> import ingle.tensor as it
    >>> from ingle.nn import RNNTLoss
    >>> logits = it.zeros((1, 2, 2, 2))
    >>> round(RNNTLoss(blank=0)(logits, it.asarray([[1]]), [2], [1]).item(), 4)  # log(8 / 2)
    1.3863
    """

    def __init__(self, blank: int = -1, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.blank = blank

    def forward(
        self, logits: TensorLike, targets: TensorLike, logit_lengths: TensorLike,
        target_lengths: TensorLike,
    ) -> Tensor:  # fmt: skip
        x, labels = it.asarray(logits), it.asarray(targets)
        lengths, counts = it.asarray(logit_lengths), it.asarray(target_lengths)
        if (
            x.ndim != 4
            or labels.shape != (x.shape[0], x.shape[2] - 1)
            or not (lengths.shape == counts.shape == (x.shape[0],))
        ):
            raise ShapeError(
                "RNNTLoss: logits must be (batch, steps, labels + 1, classes), targets (batch, "
                f"labels), and both lengths (batch,); got {x.shape}, {labels.shape}, "
                f"{lengths.shape} and {counts.shape}"
            )
        n, steps, places, classes = x.shape
        if not -classes <= self.blank < classes:
            raise ArgumentError(
                f"RNNTLoss: blank={self.blank} is out of range for {classes} classes"
            )
        scores = it.log_softmax(x, axis=-1)
        blank = scores[..., self.blank % classes]
        chosen = it.reshape(labels, (n, 1, places - 1, 1))
        chosen = it.broadcast_to(chosen, (n, steps, places - 1, 1))
        emit = it.squeeze(it.take_along_axis(scores[:, :, :-1], chosen, axis=-1), -1)
        # Along the labels of a step: alpha[u] = logsumexp of what came in at u' <= u, each with
        # the labels between emitted. With running sums of these it is one running logsumexp.
        nothing = it.zeros((n, steps, 1), dtype=scores.dtype, device=x.device)
        sums = it.concat([nothing, it.cumulative_sum(emit, axis=-1)], axis=-1)
        first = it.where(
            it.arange(places, device=x.device) == 0, 0.0,
            it.asarray(-math.inf, dtype=scores.dtype, device=x.device),
        )  # fmt: skip
        begin = it.broadcast_to(first, (n, places)) + 0.0

        def step(came: Tensor, now: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            total, ends = now
            alpha = it.logcumsumexp(came - total, axis=-1) + total
            gone = alpha + ends
            return gone, gone

        with loops_once():
            _, gone = it.scan(step, begin, (it.swapaxes(sums, 0, 1), it.swapaxes(blank, 0, 1)))
        last = it.swapaxes(gone, 0, 1)[it.arange(n, device=x.device), lengths - 1, counts]
        return self._reduced(-last)
