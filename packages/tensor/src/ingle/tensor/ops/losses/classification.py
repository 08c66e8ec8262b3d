"""Losses that compare scores of classes with the right class, or with a distribution of classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Scalar, Shape
from ...dispatch import TensorLike, as_floating, handle_of, run, wrap
from ...dtypes import DType, float32, int64
from ...errors import ArgumentError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_number, widened
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.exponential import exp
from ..elementwise.where import where
from ..movement.shapes import reshape
from ..neural.softmax import log_softmax
from ..reductions.basic import logsumexp, sum
from ._classes import (
    check_targets,
    class_axis,
    class_weight,
    combined,
    ignored_number,
    picked,
    spread_over_classes,
    valid_targets,
    without_classes,
)
from ._pairs import reduced, require_reduction

if TYPE_CHECKING:
    from ...tensor import Tensor


def _index_rule(
    name: str, scores: Aval, target: Aval, weight: Aval, ignore_index: Aval, *, reduction: str,
    **statics: Any,
) -> Aval:  # fmt: skip
    check_targets(name, scores, target, without_classes(scores.shape) if scores.shape else ())
    return Aval(target.shape if reduction == "none" else (), scores.dtype)


def _index_samples(draw: Draw, smooth: bool) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    shapes: tuple[Shape, ...] = ((5, 3), (2, 5, 3, 2), (8,))
    for shape in map(draw.shape, shapes):
        classes = shape[class_axis(shape)]
        for reduction in ("mean", "sum", "none"):
            target = draw.integers(without_classes(shape), classes)
            options: dict[str, Any] = {"reduction": reduction}
            yield Sample((draw.array(shape, high=-0.1), target), options, condition=16)
            options = {**options, "ignore_index": int(target.flat[0]) if len(shape) > 1 else -1}
            if smooth:
                options["label_smoothing"] = 0.25
            weight = draw.array((classes,), low=0.5, high=2.0)
            if reduction != "mean" or (target != options["ignore_index"]).any():
                scores = draw.array(shape, high=-0.1)
                options["weight"] = weight
                # The weight is a constant: it gets no gradient.
                yield Sample((scores, target), options, gradient=(0,), condition=32)


_INDEX_TENSORS = ("target", "weight", "ignore_index")
_TRAITS = Traits("opaque", precision="high")
_OF_INDICES = replace(_TRAITS, indices_from_0="cross_entropy")


@guarded
def cross_entropy(
    logits: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The negative logarithm of the probability that softmax gives to the right class.

    Args:
        logits: (batch, classes, ...) or (classes,): any real numbers.
        target: the right classes, integers in [0, classes) of the shape of `logits` without its
            class axis; or floats of the shape of `logits`: a distribution over the classes.
        weight: (classes,): how much each class counts. It gets no gradient with class numbers.
        ignore_index: class numbers equal to it do not count.
        reduction: `"mean"` divides by the weights that counted (for distributions by the number
            of them), `"sum"`, or `"none"` for a loss for each target.
        label_smoothing: how much of the target is spread over all classes, in [0, 1]
            (Szegedy et al., arXiv 1512.00567).

    Raises:
        ShapeError: the shapes do not fit.
        OutOfRangeError: a class number is out of range.

    >>> import ingle.tensor as it
    >>> it.cross_entropy(it.asarray([[0.0, 0.0], [0.0, 1000.0]]), it.asarray([0, 1])).item()
    0.3465735912322998
    """
    name = "cross_entropy"
    scores, right = as_floating(logits, name, "logits"), handle_of(target, name, "target")
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(f"{name}: label_smoothing must be in [0, 1], got {label_smoothing}")
    counts = class_weight(name, weight, scores)
    statics = {
        "reduction": require_reduction(name, reduction),
        "label_smoothing": as_number(label_smoothing, name, "label_smoothing"),
    }
    if right.dtype.is_floating:
        op = SOFT_CROSS_ENTROPY.op(**statics)
        return run(op, (scores, astype(wrap(right), scores.dtype)._handle, counts))[0]
    ignored = Scalar(ignored_number(name, ignore_index, right.dtype), right.dtype)
    return run(CROSS_ENTROPY.op(**statics), (scores, right, counts, ignored))[0]


def _wide_dtype(dtype: DType) -> DType:
    return float32 if dtype.itemsize == 2 else dtype


def _training_rule(
    logits: Aval, target: Aval, weight: Aval, ignore_index: Aval, **statics: Any
) -> tuple[Aval, ...]:
    out = _index_rule("cross_entropy", logits, target, weight, ignore_index, **statics)
    wide = _wide_dtype(logits.dtype)
    return out, Aval(target.shape, wide), Aval((), wide)


def _soft_rule(
    logits: Aval, target: Aval, weight: Aval, *, reduction: str, label_smoothing: float
) -> Aval:
    check_targets("cross_entropy", logits, target, logits.shape)
    shape = without_classes(logits.shape) if reduction == "none" else ()
    return Aval(shape, logits.dtype)


def _by_class(weight: Tensor | float, shape: Shape) -> Any:
    """A value for each class, to broadcast over the targets."""
    if isinstance(weight, float):
        return weight
    axis = class_axis(shape)
    return reshape(weight, tuple(shape[axis] if i == axis else 1 for i in range(len(shape))))


def _training(
    logits: Tensor, target: Tensor, weight: Tensor | float, ignore_index: int, *,
    reduction: str, label_smoothing: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    wide, axis = widened(logits), class_axis(logits.shape)
    classes = logits.shape[axis]
    safe, counts = valid_targets(target, weight, ignore_index, classes, wide.dtype)
    kept = target != ignore_index
    lse = logsumexp(wide, axis=axis)
    loss = where(kept, (lse - picked(wide, safe)) * counts, 0.0)
    if label_smoothing:
        each = (spread_over_classes(lse, logits.shape) - wide) * _by_class(weight, logits.shape)
        smooth = where(kept, sum(each, axis=axis) / float(classes), 0.0)
        loss = loss * (1.0 - label_smoothing) + smooth * label_smoothing
    total = sum(counts)
    return astype(combined(loss, total, reduction), logits.dtype), lse, total


def _cross_entropy(*operands: Any, **statics: Any) -> Tensor:
    return _training(*operands, **statics)[0]


def _training_vjp(
    g: tuple[Tensor | None, Tensor | None, Tensor | None], logits: Tensor, target: Tensor,
    weight: Tensor | float, ignore_index: int, lse: Tensor, total: Tensor, reduction: str,
    label_smoothing: float,
) -> Tensor | None:  # fmt: skip
    """`counts * (softmax - onehot)`, smoothed; the residual lse has the gradient softmax."""
    shape, axis, wide = logits.shape, class_axis(logits.shape), widened(logits)
    share = exp(wide - spread_over_classes(lse, shape))
    result = None if g[1] is None else share * spread_over_classes(g[1], shape)
    if g[0] is not None:
        scale = widened(g[0])
        scale = scale / total if reduction == "mean" else scale
        kept = target != ignore_index
        scale = where(kept, scale, 0.0)  # where all are ignored, the mean divides by 0
        safe, counts = valid_targets(target, weight, ignore_index, shape[axis], wide.dtype)
        numbers = arange(shape[axis], dtype=int64, device=logits.device)
        hit = spread_over_classes(safe, shape) == _by_class(numbers, shape)
        level = counts * (1.0 - label_smoothing)
        wanted = where(hit, spread_over_classes(level, shape), 0.0)
        if label_smoothing:
            each = astype(kept, wide.dtype)
            part = label_smoothing / shape[axis]
            by_class = _by_class(weight, shape)
            wanted = wanted + spread_over_classes(each, shape) * (by_class * part)
            mass = float(shape[axis]) if isinstance(weight, float) else sum(widened(weight))
            level = level + each * (mass * part)
        found = (share * spread_over_classes(level, shape) - wanted) * spread_over_classes(
            scale, shape
        )
        result = found if result is None else result + found
    return None if result is None else astype(result, logits.dtype)


def _soft(
    logits: Tensor, target: Tensor, weight: Tensor | float, *, reduction: str,
    label_smoothing: float,
) -> Tensor:  # fmt: skip
    axis, wanted = class_axis(logits.shape), widened(target)
    if label_smoothing:
        share = label_smoothing / logits.shape[axis]
        wanted = wanted * (1.0 - label_smoothing) + share
    each = wanted * log_softmax(widened(logits), axis=axis)
    if not isinstance(weight, float):
        each = each * _by_class(widened(weight), logits.shape)
    loss = -sum(each, axis=axis)
    return astype(reduced(loss, reduction), logits.dtype)


def _soft_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        for smoothing in (0.0, 0.25):
            scores, target = draw.array((5, 3, 2)), draw.array((5, 3, 2), low=0.1, high=1.0)
            yield Sample((scores, target), {"label_smoothing": smoothing}, condition=16)


def _reference(
    logits: Any, target: Any, weight: Any = None, *, ignore_index: int = -100,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    from scipy.special import log_softmax as oracle

    axis = class_axis(logits.shape)
    logp = np.moveaxis(oracle(logits, axis=axis), axis, -1)
    classes = logp.shape[-1]
    each = np.ones(classes) if weight is None else weight
    if target.dtype.kind == "f":
        wanted = np.moveaxis(target, axis, -1)
        kept, counts = np.ones(wanted.shape[:-1], bool), np.ones(wanted.shape[:-1])
    else:
        kept = target != ignore_index
        wanted = np.eye(classes)[np.where(kept, target, 0)]
        counts = np.where(kept, wanted @ each, 0)
    wanted = (1 - label_smoothing) * wanted + label_smoothing / classes
    loss = np.where(kept, -np.sum(wanted * each * logp, axis=-1), 0)
    if reduction == "mean":
        return np.sum(loss) / np.sum(counts)
    return np.sum(loss) if reduction == "sum" else loss


CROSS_ENTROPY_TRAINING = Operation(
    "cross_entropy_training",
    tensors=("logits", *_INDEX_TENSORS),
    statics=("reduction", "label_smoothing"),
    outputs=("out", "lse", "total"),
    rule=_training_rule,
    traits=_OF_INDICES,
    vjp={"logits": _training_vjp},
    body=_training,
    public=cross_entropy,
)
CROSS_ENTROPY = Operation(
    "cross_entropy",
    tensors=("logits", *_INDEX_TENSORS),
    statics=("reduction", "label_smoothing"),
    rule=partial(_index_rule, "cross_entropy"),
    traits=_OF_INDICES,
    body=_cross_entropy,
    training=CROSS_ENTROPY_TRAINING,
    public=cross_entropy,
    samples=partial(_index_samples, smooth=True),
    reference=_reference,
)
SOFT_CROSS_ENTROPY = Operation(
    "soft_cross_entropy",
    tensors=("logits", "target", "weight"),
    statics=("reduction", "label_smoothing"),
    rule=_soft_rule,
    traits=_TRAITS,
    body=_soft,
    public=cross_entropy,
    samples=_soft_samples,
    reference=_reference,
)


@guarded
def nll_loss(
    x: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-probability of the right class: `cross_entropy` after `log_softmax`.

    Args:
        x: (batch, classes, ...) or (classes,): log-probabilities.
        target: the right classes, integers in [0, classes) of the shape of `x` without its class
            axis.
        weight: (classes,): how much each class counts. It gets no gradient.
        ignore_index: class numbers equal to it do not count.
        reduction: `"mean"` divides by the weights that counted, `"sum"`, or `"none"` for a loss
            for each target.

    Raises:
        ShapeError: the shapes do not fit.
        OutOfRangeError: a class number is out of range.

    >>> import ingle.tensor as it
    >>> it.nll_loss(it.asarray([[-1.0, -2.0]]), it.asarray([1])).item()
    2.0
    """
    scores, right = as_floating(x, "nll_loss"), handle_of(target, "nll_loss", "target")
    op = NLL_LOSS.op(reduction=require_reduction("nll_loss", reduction))
    counts = class_weight("nll_loss", weight, scores)
    ignored = Scalar(ignored_number("nll_loss", ignore_index, right.dtype), right.dtype)
    return run(op, (scores, right, counts, ignored))[0]


def _nll(
    x: Tensor, target: Tensor, weight: Tensor | float, ignore_index: int, *, reduction: str
) -> Tensor:
    wide, classes = widened(x), x.shape[class_axis(x.shape)]
    safe, counts = valid_targets(target, weight, ignore_index, classes, wide.dtype)
    # An ignored target may have a probability of zero: 0 * inf would be NaN.
    loss = where(target == ignore_index, 0.0, -picked(wide, safe) * counts)
    return astype(combined(loss, sum(counts), reduction), x.dtype)


def _nll_reference(x: Any, target: Any, weight: Any = None, **options: Any) -> Any:
    # A score that is no distribution yet: give back what log_softmax takes away.
    axis = class_axis(x.shape)
    reduction, ignored = options.get("reduction", "mean"), options.get("ignore_index", -100)
    picked = np.take_along_axis(x, np.expand_dims(target % x.shape[axis], axis), axis)
    counts = np.where(target == ignored, 0, 1.0 if weight is None else weight[target])
    loss = -np.squeeze(picked, axis) * counts
    if reduction == "mean":
        return np.sum(loss) / np.sum(counts)
    return np.sum(loss) if reduction == "sum" else loss


NLL_LOSS = Operation(
    "nll_loss",
    tensors=("x", *_INDEX_TENSORS),
    statics=("reduction",),
    rule=partial(_index_rule, "nll_loss"),
    traits=replace(_TRAITS, indices_from_0="nll_loss"),
    body=_nll,
    public=nll_loss,
    samples=partial(_index_samples, smooth=False),
    reference=_nll_reference,
)
