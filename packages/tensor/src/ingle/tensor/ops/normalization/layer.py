"""Normalisation over the last axes, and what it shares with that over batches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle, Scalar, Shape
from ...dispatch import TensorLike, run
from ...dtypes import DType, float32
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Op, Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_shape, widened
from ..elementwise.cast import astype
from ..elementwise.powers import rsqrt, square
from ..movement.shapes import broadcast_to
from ..neural.linear import promote_present
from ..reductions.basic import sum
from .gradients import layer_norm_gradient

if TYPE_CHECKING:
    from ...tensor import Tensor


def _layer_training_rule(
    x: Aval, weight: Aval, bias: Aval, *, axes: int, eps: float
) -> tuple[Aval, ...]:
    require_float("layer_norm", x)
    rest: Shape = (*x.shape[: len(x.shape) - axes], *(1,) * axes)
    statistic = Aval(rest, statistics_dtype(x.dtype))
    return x, statistic, statistic


def _layer_training(
    x: Tensor, weight: Tensor | float, bias: Tensor | float, *, axes: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    hat, mean, var = normalized(x, _last(x.ndim, axes), eps)
    return astype(affine(hat, weight, bias), x.dtype), mean, rsqrt(var + eps)


def _layer_vjp(
    g: tuple[Tensor | None, Tensor | None, Tensor | None], x: Tensor, weight: Tensor | float,
    mean: Tensor, rstd: Tensor, axes: int, needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    by_x = by_weight = by_bias = None
    if g[0] is not None:
        by_x, by_weight, by_bias = layer_norm_gradient(g[0], x, weight, mean, rstd, axes)
    if needs[0] and (g[1] is not None or g[2] is not None):
        last = _last(x.ndim, axes)
        count = max(1, math.prod(x.shape[a] for a in last))
        more = None if g[1] is None else broadcast_to(g[1] / count, x.shape)
        # rstd = (var + eps)^(-1/2), so that d rstd / d x = -rstd^2 * hat / count.
        hat = (widened(x) - mean) * rstd
        more = plus(more, None if g[2] is None else -g[2] * square(rstd) * hat / count)
        by_x = plus(by_x, None if more is None else astype(more, x.dtype))
    return by_x, by_weight if needs[1] else None, by_bias if needs[2] else None


def _layer_samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    shapes: tuple[tuple[Shape, Shape], ...] = (
        ((17, 8), (8,)), ((2, 3, 5), (3, 5)), ((0, 3), (3,)), ((33,), (33,)),
    )  # fmt: skip
    for shape, over in shapes:
        yield Sample((draw.array(shape), over), condition=32)
        yield Sample((draw.array(shape), over, draw.array(over), draw.array(over)), condition=32)


def _layer_reference(
    x: Any, normalized_shape: Any, weight: Any = 1.0, bias: Any = 0.0, *, eps: float = 1e-5
) -> Any:
    mean, var = _moments(x, normalized_shape)
    return (x - mean) / np.sqrt(var + eps) * weight + bias


def _layer_training_reference(x: Any, normalized_shape: Any, *rest: Any, eps: float = 1e-5) -> Any:
    mean, var = _moments(x, normalized_shape)
    return _layer_reference(x, normalized_shape, *rest, eps=eps), mean, 1 / np.sqrt(var + eps)


TRAITS = Traits("opaque", precision="high")


@guarded
def layer_norm(
    x: TensorLike,
    normalized_shape: int | Sequence[int],
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """Shifts and scales to mean 0 and variance 1 over the last axes (Ba et al., arXiv 1607.06450).

    Args:
        x: (..., *normalized_shape), floats.
        normalized_shape: the sizes of the axes that are normalised together.
        weight, bias: of this shape: what the result is multiplied by and what is added.
        eps: added to the variance, which is the mean of squares (no correction).

    Raises:
        ShapeError: `x` does not end in `normalized_shape`, or weight or bias differ from it.

    >>> import ingle.tensor as it
    >>> it.layer_norm(it.asarray([[1.0, 3.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    return _layer(LAYER_NORM, x, normalized_shape, weight, bias, eps)[0]


def _layer_rule(x: Aval, weight: Aval, bias: Aval, *, axes: int, eps: float) -> Aval:
    require_float("layer_norm", x)
    return x


def _layer_norm(
    x: Tensor, weight: Tensor | float, bias: Tensor | float, *, axes: int, eps: float
) -> Tensor:
    return _layer_training(x, weight, bias, axes=axes, eps=eps)[0]


def layer_norm_training(
    x: TensorLike,
    normalized_shape: int | Sequence[int],
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    *,
    eps: float = 1e-5,
) -> tuple[Tensor, ...]:
    """`layer_norm` with the mean and the inverse of the standard deviation, their axes kept."""
    return _layer(LAYER_NORM_TRAINING, x, normalized_shape, weight, bias, eps)


LAYER_NORM_TRAINING = Operation(
    "layer_norm_training",
    tensors=("x", "weight", "bias"),
    statics=("axes", "eps"),
    outputs=("out", "mean", "rstd"),
    rule=_layer_training_rule,
    traits=TRAITS,
    vjp={("x", "weight", "bias"): _layer_vjp},
    body=_layer_training,
    public=layer_norm_training,
    samples=_layer_samples,
    reference=_layer_training_reference,
)
LAYER_NORM = Operation(
    "layer_norm",
    tensors=("x", "weight", "bias"),
    statics=("axes", "eps"),
    rule=_layer_rule,
    traits=TRAITS,
    body=_layer_norm,
    training=LAYER_NORM_TRAINING,
    public=layer_norm,
    samples=_layer_samples,
    reference=_layer_reference,
)


def norm_operands(
    name: str, x: TensorLike, weight: TensorLike | None, bias: TensorLike | None
) -> list[Handle | Scalar]:
    return promote_present(name, ("x", x, None), ("weight", weight, 1.0), ("bias", bias, 0.0))


def checked_eps(name: str, eps: object) -> float:
    if not isinstance(eps, (int, float)) or eps < 0:
        raise ArgumentError(f"{name}: eps must be a number that is not negative, got {eps!r}")
    return float(eps)


def statistics_dtype(dtype: DType) -> DType:
    return float32 if dtype.itemsize == 2 else dtype


def require_float(name: str, x: Aval) -> None:
    if not x.dtype.is_floating:
        raise DTypeError(f"{name}: x must be floats, got {x.dtype}; cast with x.astype('float32')")


Axes = tuple[int, ...]


def normalized(x: Tensor, axes: Axes, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """x with mean 0 and variance 1 over axes, the mean and the variance, with those axes kept.

    Squares of what the mean leaves, not a difference of squares, which would cancel.
    """
    wide = widened(x)
    count = max(1, math.prod(x.shape[a] for a in axes))
    mean = sum(wide, axis=axes, keepdims=True) / count
    off = wide - mean
    var = sum(square(off), axis=axes, keepdims=True) / count
    return off * rsqrt(var + eps), mean, var


def affine(y: Tensor, weight: Tensor | float, bias: Tensor | float) -> Tensor:
    """`y * weight + bias`, where a number stands for what is missing."""
    if not isinstance(weight, float):
        y = y * widened(weight)
    return y if isinstance(bias, float) else y + widened(bias)


def plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


def _layer(
    operation: Operation, x: TensorLike, normalized_shape: int | Sequence[int],
    weight: TensorLike | None, bias: TensorLike | None, eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    shape = as_shape(normalized_shape, "layer_norm", "normalized_shape")
    operands = norm_operands("layer_norm", x, weight, bias)
    have = operands[0].shape
    if not shape or have[len(have) - len(shape) :] != shape or len(shape) > len(have):
        raise ShapeError(
            f"layer_norm: x must end in normalized_shape={shape}, got shape {have}"
        )  # fmt: skip
    for given, argument, place in ((weight, "weight", 1), (bias, "bias", 2)):
        if given is not None and operands[place].shape != shape:
            raise ShapeError(
                f"layer_norm: {argument} must have normalized_shape={shape}, got shape "
                f"{operands[place].shape}"
            )
    return run(_layer_op(operation, len(shape), checked_eps("layer_norm", eps)), operands)


@lru_cache(maxsize=1024)
def _layer_op(operation: Operation, axes: int, eps: float) -> Op:
    return operation.op(axes=axes, eps=eps)


def _last(ndim: int, axes: int) -> Axes:
    return tuple(range(ndim - axes, ndim))


def _moments(x: Any, normalized_shape: Shape) -> tuple[Any, Any]:
    axes = tuple(range(-len(normalized_shape), 0))
    if not math.prod(normalized_shape):  # of nothing, where NumPy has NaN
        nothing = np.sum(x, axis=axes, keepdims=True)
        return nothing, nothing
    return np.mean(x, axis=axes, keepdims=True), np.var(x, axis=axes, keepdims=True)
