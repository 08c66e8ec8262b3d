"""Single elements of images by their position in row-major order of the image axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...contract import Shape
from ...dtypes import int64
from ..creation.filled import zeros
from ..creation.ranges import arange
from ..indexing.gathering import take_along_axis
from ..indexing.linear_index import ravel_index
from ..indexing.scattering import scatter_add, scatter_set
from ..movement.shapes import reshape

if TYPE_CHECKING:
    from ...tensor import Tensor


def read_at(x: Tensor, index: Tensor) -> Tensor:
    """The elements of images (batch, channels, *size) at positions (batch, channels, *out)."""
    flat = reshape(x, (*x.shape[:2], math.prod(x.shape[2:])))
    places = reshape(index, (*index.shape[:2], math.prod(index.shape[2:])))
    return reshape(take_along_axis(flat, places, axis=-1), index.shape)


def add_at(g: Tensor, index: Tensor, size: Shape) -> Tensor:
    """The transpose of `read_at`: images of zeros to which g is added at the positions."""
    return _written(scatter_add, g, index, size)


def write_at(x: Tensor, index: Tensor, size: Shape) -> Tensor:
    """Images of zeros with x at the positions; of several for one place the last stays."""
    return _written(scatter_set, x, index, size)


def _written(scatter: Callable[..., Tensor], x: Tensor, index: Tensor, size: Shape) -> Tensor:
    planes, places = math.prod(x.shape[:2]), math.prod(size)
    plane = reshape(arange(planes, dtype=int64, device=x.device), (planes, 1))
    each = reshape(index, (planes, math.prod(index.shape[2:])))
    where = ravel_index([plane, each], (planes, places), axes=(1, 2), called="max_unpool")
    flat = zeros((planes * places,), dtype=x.dtype, device=x.device)
    out = scatter(flat, reshape(where, (x.size,)), reshape(x, (x.size,)), axis=0)
    return reshape(out, (*x.shape[:2], *size))
