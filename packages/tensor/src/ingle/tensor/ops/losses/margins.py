"""Losses that want scores or distances apart by a margin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dispatch import TensorLike, as_floating, handle_of, wrap
from ...dtypes import int64
from ...errors import ArgumentError, DTypeError, ShapeError
from .._guarding import guarded
from .._rules import broadcast_shapes
from ..elementwise.activations import relu
from ..elementwise.cast import astype
from ..elementwise.extrema import minimum
from ..elementwise.powers import sqrt, square
from ..elementwise.smooth_activations import logsigmoid, softplus
from ..elementwise.where import where
from ..indexing.gathering import take, take_along_axis
from ..indexing.one_hot import one_hot
from ..linear_algebra.similarity import pairwise_distance
from ..movement.shapes import broadcast_to, reshape
from ..reductions.basic import any as any_of
from ..reductions.basic import sum as reduce_sum
from ..scans.cumulative import cumulative_sum
from ._pairs import reduced, require_reduction

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def hinge_embedding_loss(
    x: TensorLike, target: TensorLike, *, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """`x` where the target is 1, `max(0, margin - x)` where it is -1.

    Args:
        x: distances, float.
        target: of the same shape: 1 for what should be close, -1 for what should be far.
        margin: how far.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each element.

    >>> import ingle.tensor as it
    >>> it.hinge_embedding_loss(it.asarray([0.5, 0.25]), it.asarray([1.0, -1.0])).item()
    0.625
    """
    distances, signs = _floats("hinge_embedding_loss", ("x", x), ("target", target))
    _same("hinge_embedding_loss", distances, signs)
    far, near = where(signs == 1, 0, relu(margin - distances)), where(signs == -1, 0, distances)
    return _reduced("hinge_embedding_loss", far + near, reduction)


@guarded
def margin_ranking_loss(
    x1: TensorLike,
    x2: TensorLike,
    target: TensorLike,
    *,
    margin: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """`max(0, margin - target * (x1 - x2))`: which of two scores should be the larger one.

    Args:
        x1, x2: scores, float; they broadcast.
        target: 1 if `x1` should be larger, -1 if `x2` should.
        margin: by how much.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each element.

    >>> import ingle.tensor as it
    >>> x1, x2 = it.asarray([2.0, 0.0]), it.asarray([1.0, 1.0])
    >>> it.margin_ranking_loss(x1, x2, it.asarray([1.0, 1.0])).item()
    0.5
    """
    name = "margin_ranking_loss"
    a, b, signs = _floats(name, ("x1", x1), ("x2", x2), ("target", target))
    broadcast_shapes(name, a.shape, b.shape, signs.shape, arguments=("x1", "x2", "target"))
    return _reduced(name, relu(margin - signs * (a - b)), reduction)


@guarded
def cosine_embedding_loss(
    x1: TensorLike,
    x2: TensorLike,
    target: TensorLike,
    *,
    margin: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """`1 - cos` where the target is 1, `max(0, cos - margin)` where it is -1.

    Args:
        x1, x2: vectors along the last axis, (batch, features) or (features,), float.
        target: (batch,) or a 0-d tensor: 1 for vectors that should be alike, -1 for others.
        margin: the cosine from which on vectors that should differ do not.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each pair.

    Raises:
        ShapeError: sizes that do not fit one another.

    >>> import ingle.tensor as it
    >>> x1, x2 = it.asarray([[1.0, 0.0]]), it.asarray([[0.0, 2.0]])
    >>> it.cosine_embedding_loss(x1, x2, it.asarray([1.0])).item()
    1.0
    """
    name = "cosine_embedding_loss"
    a, b, signs = _floats(name, ("x1", x1), ("x2", x2), ("target", target))
    if a.shape != b.shape or a.ndim not in (1, 2) or signs.shape != a.shape[:-1]:
        raise ShapeError(
            f"{name}: needs x1 and x2 of one shape (batch, features) or (features,) and a target "
            f"without the features, got {a.shape}, {b.shape} and {signs.shape}"
        )
    tiny = 1e-12  # as in PyTorch
    squares = [reduce_sum(square(x), axis=-1) + tiny for x in (a, b)]
    cosine = reduce_sum(a * b, axis=-1) / sqrt(squares[0] * squares[1])
    alike, apart = where(signs == 1, 1 - cosine, 0), where(signs == -1, relu(cosine - margin), 0)
    return _reduced(name, alike + apart, reduction)


@guarded
def triplet_margin_loss(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`max(0, d(anchor, positive) - d(anchor, negative) + margin)`.

    Schroff, Kalenichenko, Philbin: FaceNet (arXiv 1503.03832).

    Args:
        anchor, positive, negative: vectors along the last axis, float.
        margin: by how much the negative should be farther away.
        p, eps: of the distance; see `pairwise_distance`.
        swap: take the distance of positive and negative instead where it is smaller (Balntas et
            al.: Learning local feature descriptors with triplets, 2016).
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each triplet.

    Raises:
        ShapeError: operands of different numbers of axes, or without any.

    >>> import ingle.tensor as it
    >>> a, b, c = it.asarray([[0.0, 0.0]]), it.asarray([[3.0, 4.0]]), it.asarray([[0.0, 2.0]])
    >>> it.triplet_margin_loss(a, b, c, eps=0.0).item()
    4.0
    """
    name = "triplet_margin_loss"
    a, b, c = _floats(name, ("anchor", anchor), ("positive", positive), ("negative", negative))
    if not a.ndim == b.ndim == c.ndim or not a.ndim:
        raise ShapeError(
            f"{name}: anchor, positive and negative need the same number of axes, at least one, "
            f"got {a.shape}, {b.shape} and {c.shape}"
        )
    near, far = (pairwise_distance(a, x, p=p, eps=eps) for x in (b, c))
    if swap:
        far = minimum(far, pairwise_distance(b, c, p=p, eps=eps))
    return _reduced(name, relu(near - far + margin), reduction)


@guarded
def soft_margin_loss(x: TensorLike, target: TensorLike, *, reduction: str = "mean") -> Tensor:
    """`log(1 + exp(-target * x))`, without overflow.

    Args:
        x: scores, float.
        target: of the same shape: 1 or -1.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each element.

    >>> import ingle.tensor as it
    >>> it.soft_margin_loss(it.asarray([-1000.0]), it.asarray([1.0])).item()
    1000.0
    """
    scores, signs = _floats("soft_margin_loss", ("x", x), ("target", target))
    _same("soft_margin_loss", scores, signs)
    return _reduced("soft_margin_loss", softplus(-(signs * scores)), reduction)


@guarded
def multi_margin_loss(
    x: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    *,
    p: int = 1,
    margin: float = 1.0,
    reduction: str = "mean",
) -> Tensor:
    """The mean over all wrong classes of `max(0, margin - x[right] + x[wrong]) ** p`.

    Args:
        x: scores, (batch, classes) or (classes,), float.
        target: the right classes, integers in [0, classes), (batch,) or 0-d.
        weight: (classes,): what an example of each class counts.
        p: 1 or 2.
        margin: by how much the right class should lead.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each example.

    Raises:
        ArgumentError: `p` is neither 1 nor 2.
        ShapeError: sizes that do not fit one another.

    >>> import ingle.tensor as it
    >>> it.multi_margin_loss(it.asarray([[0.0, 2.0, 1.5]]), it.asarray([1])).item()
    0.1666666716337204
    """
    name = "multi_margin_loss"
    scores, classes = _scores(name, x), _class_numbers(name, target)
    if p not in (1, 2):
        raise ArgumentError(f"{name}: p must be 1 or 2, got {p!r}")
    if classes.shape != scores.shape[:-1]:
        raise ShapeError(
            f"{name}: target must have the shape {scores.shape[:-1]}, got {classes.shape}"
        )
    count = scores.shape[-1]
    # An index below 0 would count from the end: a number beyond the classes is refused instead.
    places = where(classes < 0, count, classes)
    right = take_along_axis(scores, reshape(places, (*places.shape, 1)), axis=-1)
    lack = relu(margin - right + scores)
    lack = square(lack) if p == 2 else lack
    if weight is not None:
        (each,) = _floats(name, ("weight", weight))
        if each.shape != (count,):
            raise ShapeError(f"{name}: weight must have shape {(count,)}, got {each.shape}")
        lack = lack * reshape(take(astype(each, lack.dtype), places, axis=0), (*places.shape, 1))
    wrong = where(one_hot(places, count, dtype="bool"), 0, lack)
    return _reduced(name, reduce_sum(wrong, axis=-1) / count, reduction)


@guarded
def multilabel_margin_loss(x: TensorLike, target: TensorLike, *, reduction: str = "mean") -> Tensor:
    """The sum over right and wrong classes of `max(0, 1 - x[right] + x[wrong])`, by their number.

    Args:
        x: scores, (batch, classes) or (classes,), float.
        target: integers of the same shape: the right classes, and behind them -1.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each example.

    >>> import ingle.tensor as it
    >>> x, target = it.asarray([0.0, 2.0, 1.5]), it.asarray([1, -1, 0])
    >>> it.multilabel_margin_loss(x, target).item()
    0.1666666716337204
    """
    name = "multilabel_margin_loss"
    scores, classes = _scores(name, x), _class_numbers(name, target)
    _same(name, scores, classes)
    count = scores.shape[-1]
    ended = cumulative_sum(astype(classes < 0, int64), axis=-1) > 0
    kept = one_hot(where(ended, 0, classes), count, dtype="bool") & ~reshape(
        ended, (*ended.shape, 1)
    )
    is_right = reshape(any_of(kept, axis=-2), (*scores.shape[:-1], 1, count))
    right = take_along_axis(scores, where(ended, 0, classes), axis=-1)
    lack = relu(1 - reshape(right, (*right.shape, 1)) + reshape(
        scores, (*scores.shape[:-1], 1, count)
    ))  # fmt: skip
    counted = broadcast_to(reshape(~ended, (*ended.shape, 1)) & ~is_right, lack.shape)
    each = reduce_sum(where(counted, lack, 0), axis=(-2, -1)) / count
    return _reduced(name, each, reduction)


@guarded
def multilabel_soft_margin_loss(
    x: TensorLike, target: TensorLike, weight: TensorLike | None = None, *, reduction: str = "mean"
) -> Tensor:
    """The mean over classes of the binary cross-entropy of logits.

    Args:
        x: logits, (..., classes), float.
        target: of the same shape, in [0, 1].
        weight: multiplies the loss of each element; broadcasts.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each example.

    Raises:
        ShapeError: `x` has no axis of classes.

    >>> import ingle.tensor as it
    >>> x, target = it.asarray([[1000.0, 0.0]]), it.asarray([[0.0, 1.0]])
    >>> it.multilabel_soft_margin_loss(x, target).item()
    500.3465881347656
    """
    name = "multilabel_soft_margin_loss"
    logits, wanted = _floats(name, ("x", x), ("target", target))
    _same(name, logits, wanted)
    if not logits.ndim:
        raise ShapeError(f"{name}: x must have an axis of classes, got a 0-d tensor")
    each = -(wanted * logsigmoid(logits) + (1 - wanted) * logsigmoid(-logits))
    if weight is not None:
        (factors,) = _floats(name, ("weight", weight))
        broadcast_shapes(name, each.shape, factors.shape, arguments=("x", "weight"))
        each = each * factors
    return _reduced(name, reduce_sum(each, axis=-1) / float(logits.shape[-1]), reduction)


def _floats(name: str, *operands: tuple[str, TensorLike]) -> list[Tensor]:
    """The operands as real float tensors."""
    found = []
    for argument, x in operands:
        handle = as_floating(x, name, argument)
        if not handle.dtype.is_floating:
            raise DTypeError(f"{name}: {argument} must be real, got {handle.dtype}")
        found.append(wrap(handle))
    return found


def _same(name: str, x: Tensor, target: Tensor) -> None:
    if x.shape != target.shape:
        raise ShapeError(
            f"{name}: x and target must have one shape, got {x.shape} and {target.shape}"
        )


def _scores(name: str, x: TensorLike) -> Tensor:
    (scores,) = _floats(name, ("x", x))
    if scores.ndim not in (1, 2) or not scores.shape[-1]:
        raise ShapeError(
            f"{name}: x must be (batch, classes) or (classes,) of at least one class, got shape "
            f"{scores.shape}"
        )
    return scores


def _class_numbers(name: str, target: TensorLike) -> Tensor:
    handle = handle_of(target, name, "target")
    if not handle.dtype.is_integer:
        raise DTypeError(
            f"{name}: target must hold class numbers (integers), got {handle.dtype}; cast it with "
            "target.astype('int64')"
        )
    return astype(wrap(handle), int64)


def _reduced(name: str, loss: Tensor, reduction: str) -> Tensor:
    return reduced(loss, require_reduction(name, reduction))
