"""Conditions on values that nobody can read while a function is written down or batched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..contract import Handle
from ..errors import ArgumentError
from .elementwise.where import where
from .indexing.gathering import take
from .movement.shapes import reshape

if TYPE_CHECKING:
    from ..tensor import Tensor


def is_unread(handle: Handle) -> bool:
    """Whether there is no value, or one for each element of a batch."""
    base = handle.base()
    return base.abstract or base.shape != handle.shape


def required(x: Tensor, holds: Tensor, message: str) -> Tensor:
    """`x`, if a condition holds; where nobody can read that, a run in which it does not is an
    index out of range.

    Args:
        x: of any shape.
        holds: a 0-d bool.
        message: of the error.

    Raises:
        ArgumentError: it does not hold.
    """
    if is_unread(holds._handle):
        return take(reshape(x, (1, *x.shape)), where(holds, 0, 1), axis=0)
    if not bool(holds):
        raise ArgumentError(message)
    return x
