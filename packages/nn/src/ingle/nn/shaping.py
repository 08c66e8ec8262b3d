"""Layers that change the shape alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.argument_checks import whole
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import AxisError, ShapeError
from ingle.tensor.other_names import also

from .module import Module


@also(start_dim="start_axis", end_dim="end_axis")
class Flatten(Module):
    """Joins the axes from `start_axis` to `end_axis` into one.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Flatten
    >>> Flatten()(it.ones((8, 3, 4, 5))).shape
    (8, 60)
    """

    def __init__(self, start_axis: int = 1, end_axis: int = -1) -> None:
        self.start_axis = start_axis
        self.end_axis = end_axis

    def forward(self, x: TensorLike) -> Tensor:
        x = it.asarray(x)
        axes = []
        for name, axis in (("start_axis", self.start_axis), ("end_axis", self.end_axis)):
            axis = whole("Flatten", name, axis)
            if not -x.ndim <= axis < x.ndim:
                raise AxisError(
                    f"Flatten: {name}={axis} is out of range for shape {x.shape} with {x.ndim} axes"
                )
            axes.append(axis % x.ndim)
        start, end = axes
        if start > end:
            raise AxisError(f"Flatten: start_axis={start} lies after end_axis={end} of {x.shape}")
        joined = math.prod(x.shape[start : end + 1])
        return it.reshape(x, (*x.shape[:start], joined, *x.shape[end + 1 :]))

    def extra_repr(self) -> str:
        return f"start_axis={self.start_axis}, end_axis={self.end_axis}"


@also(dim="axis", unflattened_size="sizes")
class Unflatten(Module):
    """Splits one axis into several of the given sizes.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Unflatten
    >>> Unflatten(1, (3, 4))(it.ones((8, 12))).shape
    (8, 3, 4)
    """

    def __init__(self, axis: int, sizes: Sequence[int]) -> None:
        self.axis = axis
        self.sizes = tuple(sizes)

    def forward(self, x: TensorLike) -> Tensor:
        x = it.asarray(x)
        if not -x.ndim <= self.axis < x.ndim:
            raise AxisError(f"Unflatten: axis={self.axis} is out of range for shape {x.shape}")
        axis = self.axis % x.ndim
        if math.prod(self.sizes) != x.shape[axis]:
            raise ShapeError(
                f"Unflatten: sizes {self.sizes} hold {math.prod(self.sizes)} elements, axis {axis} "
                f"of shape {x.shape} has {x.shape[axis]}"
            )
        return it.reshape(x, (*x.shape[:axis], *self.sizes, *x.shape[axis + 1 :]))

    def extra_repr(self) -> str:
        return f"axis={self.axis}, sizes={self.sizes}"
