"""Operators and methods that tensors and cells share: each is a room's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import ops
from .errors import AxisError, OperandError

if TYPE_CHECKING:
    from .contract import Shape
    from .tensor import Tensor

Binary = Callable[[Any, Any], "Tensor"]


def _operator(function: Callable[..., Tensor], mirror: str) -> Binary:
    """`self OP other`; leaves it to `other` if that is a stranger with an operator of its own."""

    def method(self: Any, other: Any) -> Tensor:
        try:
            return function(self, other)
        except OperandError:
            if isinstance(other, np.ndarray) or not hasattr(type(other), mirror):
                raise
            return NotImplemented

    return method


def _mirrored(function: Callable[..., Tensor]) -> Binary:
    def method(self: Any, other: Any) -> Tensor:
        return function(other, self)

    return method


class Operators:
    """What can be done with a tensor or a cell."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> Shape: ...

    __add__ = _operator(ops.add, "__radd__")
    __radd__ = _mirrored(ops.add)
    __sub__ = _operator(ops.subtract, "__rsub__")
    __rsub__ = _mirrored(ops.subtract)
    __mul__ = _operator(ops.multiply, "__rmul__")
    __rmul__ = _mirrored(ops.multiply)
    __truediv__ = _operator(ops.divide, "__rtruediv__")
    __rtruediv__ = _mirrored(ops.divide)
    __matmul__ = _operator(ops.matmul, "__rmatmul__")
    __rmatmul__ = _mirrored(ops.matmul)
    __neg__ = ops.negative

    astype = ops.astype
    broadcast_to = ops.broadcast_to
    max = ops.max
    min = ops.min
    sum = ops.sum

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return ops.equal(self, other)  # type: ignore[arg-type]

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape, given as one tuple or as several sizes."""
        return ops.reshape(self, shape[0] if len(shape) == 1 else shape)  # type: ignore[arg-type]

    @property
    def T(self) -> Tensor:  # noqa: N802 (the standard's name)
        """The transpose of a matrix."""
        if len(self.shape) != 2:
            raise AxisError(
                f"T: needs 2 axes, got shape {self.shape}; use x.mT or permute_dims(x, axes)"
            )
        return ops.permute_dims(self, (1, 0))  # type: ignore[arg-type]

    @property
    def mT(self) -> Tensor:  # noqa: N802 (the standard's name)
        """The last two axes swapped: the transpose of each matrix of a stack."""
        n = len(self.shape)
        if n < 2:
            raise AxisError(f"mT: needs at least 2 axes, got shape {self.shape}")
        return ops.permute_dims(self, (*range(n - 2), n - 1, n - 2))  # type: ignore[arg-type]
