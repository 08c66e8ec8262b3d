"""Unit tensors, and derivatives put together from the passes that were seeded with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..contract import Shape
from .movement.axes import moveaxis
from .movement.shapes import reshape
from .movement.triangular import eye

if TYPE_CHECKING:
    from ..tensor import Tensor


def unit_tensors(like: Tensor) -> Tensor:
    """For each element a tensor of the shape of `like` that is 1 there and 0 elsewhere, stacked."""
    identity = eye(like.size, dtype=like.dtype, device=like.device)
    return reshape(identity, (like.size, *like.shape))


def assembled(passes: Tensor, axis: int, shape: Shape) -> Tensor:
    """Derivatives of a shape from those by one element each, stacked along the first axis.

    The axis says where in the result the elements are: in front (0) or at the end (-1).
    """
    return reshape(moveaxis(passes, 0, axis), shape)
