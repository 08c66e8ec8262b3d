"""Normalisation by the root of the mean square, without a mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle, Scalar, Shape
from ...dispatch import TensorLike, handle_of, run
from ...dtype_functions import finfo
from ...errors import ShapeError
from ...operation import Operation
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_shape, widened
from ..elementwise.cast import astype
from ..elementwise.powers import rsqrt, square
from ..neural.linear import promote_present
from ..reductions.basic import sum
from .layer import TRAITS, Axes, affine, checked_eps, plus, require_float, statistics_dtype

if TYPE_CHECKING:
    from ...tensor import Tensor


def _rule(x: Aval, weight: Aval, *, axes: int, eps: float) -> Aval:
    require_float("rms_norm", x)
    return x


def _training_rule(x: Aval, weight: Aval, *, axes: int, eps: float) -> tuple[Aval, Aval]:
    rest: Shape = (*x.shape[: x.ndim - axes], *(1,) * axes)
    return _rule(x, weight, axes=axes, eps=eps), Aval(rest, statistics_dtype(x.dtype))


def _training(x: Tensor, weight: Tensor | float, *, axes: int, eps: float) -> tuple[Tensor, Tensor]:
    wide, last = widened(x), _last(x.ndim, axes)
    count = max(1, math.prod(x.shape[a] for a in last))
    rrms = rsqrt(sum(square(wide), axis=last, keepdims=True) / count + eps)
    return astype(affine(wide * rrms, weight, 0.0), x.dtype), rrms


def _vjp(
    g: tuple[Tensor | None, Tensor | None], x: Tensor, weight: Tensor | float, rrms: Tensor,
    axes: int, needs: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    dtype, last = x.dtype, _last(x.ndim, axes)
    count = max(1, math.prod(x.shape[a] for a in last))
    hat = widened(x) * rrms
    by_x: Tensor | None = None
    by_weight: Tensor | None = None
    if g[0] is not None:
        wide = widened(g[0])
        if needs[0]:
            scaled = affine(wide, weight, 0.0)
            along = sum(scaled * hat, axis=last, keepdims=True) / count
            by_x = (scaled - hat * along) * rrms
        if needs[1]:
            lead = tuple(range(x.ndim - axes))
            by_weight = astype(sum(wide * hat, axis=lead), dtype)
    if needs[0] and g[1] is not None:
        # rrms = (mean of x^2 + eps)^(-1/2), so that d rrms / d x = -rrms^2 * hat / count.
        by_x = plus(by_x, -g[1] * square(rrms) * hat / count)
    return None if by_x is None else astype(by_x, dtype), by_weight


def _samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    shapes: tuple[tuple[Shape, Shape], ...] = (
        ((17, 8), (8,)), ((2, 3, 5), (3, 5)), ((0, 3), (3,)), ((33,), (33,)),
    )  # fmt: skip
    for shape, over in shapes:
        yield Sample((draw.array(shape), over), {"eps": 1e-5}, condition=8)
        yield Sample((draw.array(shape), over, draw.array(over)), {"eps": 0.1}, condition=8)


def _training_reference(
    x: Any, normalized_shape: Any, weight: Any = 1.0, *, eps: float
) -> tuple[Any, Any]:
    axes = tuple(range(-len(normalized_shape), 0))
    count = max(1, math.prod(normalized_shape))  # of nothing the mean is 0 here
    rrms = 1 / np.sqrt(np.sum(x * x, axis=axes, keepdims=True) / count + eps)
    return x * rrms * weight, rrms


@guarded
def rms_norm(
    x: TensorLike,
    normalized_shape: int | Sequence[int],
    weight: TensorLike | None = None,
    *,
    eps: float | None = None,
) -> Tensor:
    """Scales to a mean square of 1 over the last axes (Zhang and Sennrich, arXiv 1910.07467).

    Args:
        x: (..., *normalized_shape), floats.
        normalized_shape: the sizes of the axes that are normalised together.
        weight: of this shape: what the result is multiplied by.
        eps: added to the mean square; the dtype's precision (`finfo(x.dtype).eps`) if not given.

    Raises:
        ShapeError: `x` does not end in `normalized_shape`, or weight differs from it.

    >>> import ingle.tensor as it
    >>> it.rms_norm(it.asarray([[3.0, -3.0]]), 2, eps=0.0).tolist()
    [[1.0, -1.0]]
    """
    return _rms(RMS_NORM, x, normalized_shape, weight, eps)[0]


def _reference(x: Any, normalized_shape: Any, weight: Any = 1.0, *, eps: float) -> Any:
    return _training_reference(x, normalized_shape, weight, eps=eps)[0]


def rms_norm_training(
    x: TensorLike,
    normalized_shape: int | Sequence[int],
    weight: TensorLike | None = None,
    *,
    eps: float | None = None,
) -> tuple[Tensor, ...]:
    """`rms_norm` with the inverse of the root of the mean square, its axes kept."""
    return _rms(RMS_NORM_TRAINING, x, normalized_shape, weight, eps)


RMS_NORM_TRAINING = Operation(
    "rms_norm_training",
    tensors=("x", "weight"),
    statics=("axes", "eps"),
    outputs=("out", "rrms"),
    rule=_training_rule,
    traits=TRAITS,
    vjp={("x", "weight"): _vjp},
    body=_training,
    public=rms_norm_training,
    samples=_samples,
    reference=_training_reference,
)
RMS_NORM = Operation(
    "rms_norm",
    tensors=("x", "weight"),
    statics=("axes", "eps"),
    rule=_rule,
    traits=TRAITS,
    body=lambda x, weight, *, axes, eps: _training(x, weight, axes=axes, eps=eps)[0],
    training=RMS_NORM_TRAINING,
    public=rms_norm,
    samples=_samples,
    reference=_reference,
)


def _rms(
    operation: Operation, x: TensorLike, normalized_shape: int | Sequence[int],
    weight: TensorLike | None, eps: float | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    name = "rms_norm"
    shape, have = as_shape(normalized_shape, name, "normalized_shape"), handle_of(x, name).shape
    if not shape or have[len(have) - len(shape) :] != shape or len(shape) > len(have):
        raise ShapeError(f"{name}: x must end in normalized_shape={shape}, got shape {have}")
    if weight is not None and handle_of(weight, name, "weight").shape != shape:
        raise ShapeError(
            f"{name}: weight must have normalized_shape={shape}, got shape "
            f"{handle_of(weight, name, 'weight').shape}"
        )
    operands: list[Handle | Scalar] = promote_present(name, ("x", x, None), ("weight", weight, 1.0))
    require_float(name, Aval(have, operands[0].dtype))
    small = finfo(operands[0].dtype).eps if eps is None else checked_eps(name, eps)
    return run(operation.op(axes=len(shape), eps=float(small)), operands)


def _last(ndim: int, axes: int) -> Axes:
    return tuple(range(ndim - axes, ndim))
