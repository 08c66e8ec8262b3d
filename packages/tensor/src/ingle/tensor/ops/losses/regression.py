"""Losses that compare a prediction with a target of the same shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Scalar, Shape
from ...dispatch import TensorLike, handle_of, promote, run
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import broadcast_shapes, widened
from ..elementwise.arithmetic import abs
from ..elementwise.cast import astype
from ..elementwise.exponential import exp, log, log1p
from ..elementwise.extrema import maximum
from ..elementwise.powers import square
from ..elementwise.smooth_activations import softplus
from ..elementwise.where import where
from ..movement.shapes import broadcast_to
from ..neural.linear import promote_present
from ..reductions.basic import sum

if TYPE_CHECKING:
    from ...tensor import Tensor

REDUCTIONS = ("mean", "sum", "none")


def _rule(name: str, x: Aval, target: Aval, *others: Aval, reduction: str) -> Aval:
    if not x.dtype.is_floating:
        raise DTypeError(f"{name}: x must be floats, got {x.dtype}; cast with x.astype('float32')")
    for other in others:
        if broadcast_shapes(name, x.shape, other.shape, arguments=("x", "weight")) != x.shape:
            raise ShapeError(
                f"{name}: weight must broadcast to x of shape {x.shape}, got {other.shape}"
            )
    return Aval(x.shape if reduction == "none" else (), x.dtype)


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The loss of each element, their sum or their mean (NaN for none)."""
    if reduction == "none":
        return loss
    total = sum(loss)
    return total if reduction == "sum" else total / float(loss.size)


def _body(value: Callable[..., Any], *operands: Any, reduction: str) -> Tensor:
    wide = [o if isinstance(o, float) else widened(o) for o in operands]
    return astype(reduced(value(*wide), reduction), operands[0].dtype)


def _loss(
    name: str,
    public: Callable[..., Any],
    value: Callable[..., Any],
    *,
    reference: Callable[..., Any],
    others: tuple[str, ...] = (),
    vjp: Any = None,
    samples: Callable[[Draw], Iterator[Sample]] | None = None,
) -> Operation:
    """A loss whose body is `value` for each element, and then the reduction."""
    return Operation(
        name,
        tensors=("x", "target", *others),
        statics=("reduction",),
        rule=partial(_rule, name),
        traits=Traits("opaque", precision="high"),
        vjp=vjp,
        body=partial(_body, value),
        public=public,
        samples=samples or _samples,
        reference=partial(_reference, reference),
    )


def _reference(
    value: Callable[..., Any], *operands: Any, reduction: str = "mean", **more: Any
) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = value(*operands, **more)
        if reduction == "none":
            return loss
        return np.sum(loss) if reduction == "sum" else np.mean(loss)


def _samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    for shape in map(draw.shape, ((3, 5), (17,), ())):
        for reduction in REDUCTIONS:
            # At least 1/4 apart from each other, from the kink at 0 and from that at 1.
            distance = draw.rng.choice([-1.75, -0.5, 0.5, 1.75], shape)
            x = draw.array(shape)
            target = np.asarray(x + distance, x.dtype)
            yield Sample((x, target), {"reduction": reduction}, condition=8)
    yield Sample((draw.array((0, 3)), draw.array((0, 3))), {"reduction": "sum"})


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
    return _compare(_MSE, x, target, reduction)


_MSE = _loss(
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
    return _compare(_L1, x, target, reduction)


_L1 = _loss(
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

    >>> import ingle.tensor as it
    >>> it.smooth_l1_loss(it.asarray([1.0, 4.0]), it.asarray([0.0, 0.0])).item()
    2.0
    """
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    if not beta:
        return _compare(_L1, x, target, reduction)
    return _compare(_SMOOTH_L1, x, target, reduction, beta)


def _smooth_l1(x: Tensor, target: Tensor, beta: float) -> Tensor:
    off = x - target
    near = abs(off) < beta
    return where(near, square(where(near, off, 0)) * (0.5 / beta), abs(off) - 0.5 * beta)


def _smooth_l1_reference(x: Any, target: Any, beta: float = 1.0) -> Any:
    from scipy.special import huber

    return huber(beta, x - target) / beta


_SMOOTH_L1 = _loss(
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

    >>> import ingle.tensor as it
    >>> it.huber_loss(it.asarray([1.0, 4.0]), it.asarray([0.0, 0.0])).item()
    2.0
    """
    if delta <= 0:
        raise ArgumentError(f"huber_loss: delta must be positive, got {delta}")
    return _compare(_HUBER, x, target, reduction, delta)


def _huber(x: Tensor, target: Tensor, delta: float) -> Tensor:
    # Of the difference itself: that of its absolute value has no second derivative at 0. And
    # beyond, the square's derivative would be infinite, which is NaN times 0.
    off = x - target
    near = abs(off) <= delta
    return where(near, square(where(near, off, 0)) * 0.5, (abs(off) - 0.5 * delta) * delta)


def _huber_reference(x: Any, target: Any, delta: float = 1.0) -> Any:
    from scipy.special import huber

    return huber(delta, x - target)


_HUBER = _loss("huber_loss", huber_loss, _huber, others=("delta",), reference=_huber_reference)


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
        return _compare(operation, x, target, reduction)
    total = _compare(operation, x, target, "sum")
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


_KL = _loss("kl_div", kl_div, _kl, reference=_kl_reference, samples=_distributions)
_KL_LOG = _loss(
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
        x: probabilities, in [0, 1]; NaN comes out for others.
        target: of the same shape, in [0, 1].
        weight: multiplies the loss of each element; broadcasts.
        reduction: `"mean"`, `"sum"`, or `"none"` for a loss for each element.

    >>> import ingle.tensor as it
    >>> it.binary_cross_entropy(it.asarray([1.0, 0.0]), it.asarray([1.0, 1.0])).item()
    50.0
    """
    return _weighted(_BCE, reduction, ("x", x), ("target", target), ("weight", weight))


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
        by_x = astype(each * (x - target) / maximum(x * (1.0 - x), 1e-12), dtype)
    if needs[1]:
        odds = maximum(log1p(-x), -100.0) - maximum(log(x), -100.0)
        by_target = astype(each * odds, dtype)
    return by_x, by_target


def _bce_reference(x: Any, target: Any, weight: Any = 1.0) -> Any:
    yes, no = np.maximum(np.log(x), -100), np.maximum(np.log1p(-x), -100)
    return -weight * (target * yes + (1 - target) * no)


_BCE = _loss(
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
    return _weighted(
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


_BCE_LOGITS = _loss(
    "binary_cross_entropy_with_logits",
    binary_cross_entropy_with_logits,
    _bce_logits,
    others=("weight", "pos_weight"),
    reference=_bce_logits_reference,
    samples=partial(_probabilities, logits=True),
)


def require_reduction(name: str, reduction: object, known: tuple[str, ...] = REDUCTIONS) -> str:
    """One of the reductions; an `ArgumentError` that lists them for anything else."""
    if reduction not in known:
        raise ArgumentError(
            f"{name}: reduction must be one of {', '.join(map(repr, known))}, got {reduction!r}"
        )
    return str(reduction)


def unreduced(g: Tensor, shape: Shape, reduction: str) -> Tensor:
    """The cotangent of each element's loss from that of the reduced one."""
    if reduction == "none":
        return g
    count = 1
    for n in shape:
        count *= n
    return broadcast_to(g / float(count) if reduction == "mean" and count else g, shape)


def _same_shape(name: str, x: TensorLike, target: TensorLike) -> None:
    a, b = handle_of(x, name).shape, handle_of(target, name, "target").shape
    if a != b:
        raise ShapeError(
            f"{name}: x and target must have one shape, got {a} and {b}; broadcasting would "
            "compare each with each: reshape or broadcast_to one of them if that is meant"
        )


def _compare(
    operation: Operation, x: TensorLike, target: TensorLike, reduction: str, *numbers: float
) -> Tensor:
    name = operation.name
    _same_shape(name, x, target)
    op = operation.op(reduction=require_reduction(name, reduction))
    a, b = promote(name, ("x", x), ("target", target))
    return run(op, (a, b, *[Scalar(float(n), a.dtype) for n in numbers]))[0]


def _weighted(
    operation: Operation, reduction: str, *operands: tuple[str, TensorLike | None]
) -> Tensor:
    name = operation.name
    x, target = operands[0][1], operands[1][1]
    _same_shape(name, x, target)  # type: ignore[arg-type]
    op = operation.op(reduction=require_reduction(name, reduction))
    given = [(n, v, 1.0 if i > 1 else None) for i, (n, v) in enumerate(operands)]
    return run(op, promote_present(name, *given))[0]
