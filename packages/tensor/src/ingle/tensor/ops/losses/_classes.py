"""Classes in scores and targets: their axis, checks, and what a loss takes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...contract import Aval, Handle, Scalar, Shape
from ...dispatch import TensorLike, handle_of
from ...dtypes import DType, int64, integer_range
from ...errors import DTypeError, ShapeError
from .._rules import as_int, widened
from ..elementwise.cast import astype
from ..elementwise.where import where
from ..indexing.gathering import take, take_along_axis
from ..movement.shapes import broadcast_to, reshape
from ..reductions.basic import sum
from ._pairs import reduced

if TYPE_CHECKING:
    from ...tensor import Tensor


def class_weight(name: str, weight: TensorLike | None, scores: Handle) -> Handle | Scalar:
    """The weight of each class as an operand: 1 where there is none."""
    if weight is None:
        return Scalar(1.0, scores.dtype)
    handle = handle_of(weight, name, "weight")
    classes = scores.shape[class_axis(scores.shape)] if scores.shape else 0
    if handle.shape != (classes,):
        raise ShapeError(
            f"{name}: weight must have one value for each of the {classes} classes, "
            f"got shape {handle.shape}"
        )
    return astype(weight, scores.dtype)._handle


def ignored_number(name: str, ignore_index: object, dtype: DType) -> int:
    """The class number whose targets do not count, as one that the dtype of targets can hold."""
    if not dtype.is_integer:
        raise DTypeError(
            f"{name}: target must hold class numbers (integers), got {dtype}; cast it with "
            "target.astype('int64')"
        )
    number, (least, most) = as_int(ignore_index, name, "ignore_index"), integer_range(dtype)
    # A number that the dtype cannot hold occurs nowhere, and neither does the largest one.
    return number if least <= number <= most else most


def class_axis(shape: Shape) -> int:
    """Which axis of scores the classes are on."""
    return 0 if len(shape) == 1 else 1


def without_classes(shape: Shape) -> Shape:
    """The shape of scores, and so of targets, without the axis of classes."""
    axis = class_axis(shape)
    return shape[:axis] + shape[axis + 1 :]


def check_targets(name: str, scores: Aval, target: Aval, expected: Shape) -> None:
    """Raises unless scores and targets fit each other."""
    argument = "x" if name == "nll_loss" else "logits"
    if not scores.dtype.is_floating:
        raise DTypeError(f"{name}: {argument} must be real scores, got {scores.dtype}")
    if scores.shape and target.dtype.is_floating and target.shape == without_classes(scores.shape):
        raise DTypeError(
            f"{name}: class numbers must be integers, got {target.dtype} target {target.shape}; "
            "cast them with target.astype('int64')"
        )
    if not scores.shape or target.shape != expected:
        raise ShapeError(
            f"{name}: scores must be (batch, classes, ...) or (classes,) and class numbers have "
            f"their shape without the classes, got scores {scores.shape} and {target.dtype} "
            f"target {target.shape}" + (f"; expected target {expected}" if scores.shape else "")
        )
    if not scores.shape[class_axis(scores.shape)]:
        raise ShapeError(f"{name}: {argument} must have at least one class, got {scores.shape}")


def spread_over_classes(values: Any, shape: Shape) -> Tensor:
    """A value for each target, to broadcast over the classes."""
    axis = class_axis(shape)
    rest = without_classes(shape)
    return reshape(broadcast_to(values, rest), (*rest[:axis], 1, *rest[axis:]))


def valid_targets(
    target: Tensor, weight: Tensor | float, ignore_index: int, classes: int, dtype: DType
) -> tuple[Tensor, Tensor]:
    """Class numbers with a valid one where they are ignored, and how much each target counts."""
    kept = target != ignore_index
    safe = astype(where(kept, target, 0), int64)
    # Indexing would count a negative class from the end: a number beyond it is refused.
    safe = where(safe < 0, classes, safe)
    if isinstance(weight, float):
        return safe, astype(kept, dtype)
    return safe, where(kept, take(widened(weight), safe, axis=0), 0.0)


def picked(scores: Tensor, classes: Tensor) -> Tensor:
    """The score of each target's class."""
    axis = class_axis(scores.shape)
    return reshape(
        take_along_axis(scores, spread_over_classes(classes, scores.shape), axis=axis),
        classes.shape,
    )


def combined(loss: Tensor, total: Tensor, reduction: str) -> Tensor:
    """Losses of all targets by the reduction; a mean is by how much they count together."""
    return sum(loss) / total if reduction == "mean" else reduced(loss, reduction)
