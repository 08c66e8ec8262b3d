"""Power-average pooling: the p-norm of each window."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...dispatch import TensorLike
from ...errors import ArgumentError, DTypeError
from .._guarding import guarded
from ..convolution._windows import PerAxis, out_sizes
from ..elementwise.powers import pow
from ..elementwise.where import where
from .average_pooling import avg_pool1d, avg_pool2d, avg_pool3d
from .max_pooling import images_of, pool_attributes

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def lp_pool1d(
    x: TensorLike,
    norm_type: float,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of each window of sequences; see `lp_pool2d` for the arguments.

    Args:
        x: (batch, channels, length), or without the batch.

    >>> import ingle.tensor as it
    >>> it.lp_pool1d(it.asarray([[3.0, 4.0, 6.0, 8.0]]), 2, 2).tolist()
    [[5.0, 10.0]]
    """
    return _power(1, x, norm_type, kernel_size, stride, ceil_mode)


@guarded
def lp_pool2d(
    x: TensorLike,
    norm_type: float,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of each window of pictures: (sum of x^p)^(1/p).

    Args:
        x: (batch, channels, height, width), or without the batch; floats.
        norm_type: the power p, not 0; the result is NaN where the sum is
            negative, and its gradient is NaN where the sum is 0.
        kernel_size: the window's size, for all image axes or for each.
        stride: how far the window moves; its size if not given.
        ceil_mode: whether a last window that reaches over the border counts; what it has of the
            image is then scaled up to a whole window.

    Raises:
        ShapeError: ranks do not fit, or the window is larger than the image.

    >>> import ingle.tensor as it
    >>> it.lp_pool2d(it.ones((1, 4, 4)), 2, 2).tolist()
    [[[2.0, 2.0], [2.0, 2.0]]]
    """
    return _power(2, x, norm_type, kernel_size, stride, ceil_mode)


@guarded
def lp_pool3d(
    x: TensorLike,
    norm_type: float,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of each window of volumes; see `lp_pool2d` for the arguments.

    Args:
        x: (batch, channels, depth, height, width), or without the batch.

    >>> import ingle.tensor as it
    >>> it.lp_pool3d(it.ones((2, 3, 4, 4, 4)), 3, 2).shape
    (2, 3, 2, 2, 2)
    """
    return _power(3, x, norm_type, kernel_size, stride, ceil_mode)


def _power(
    rank: int, x: TensorLike, norm_type: float, kernel_size: PerAxis, stride: PerAxis | None,
    ceil_mode: bool,
) -> Tensor:  # fmt: skip
    name = f"lp_pool{rank}d"
    if not isinstance(norm_type, (int, float)) or not norm_type:
        raise ArgumentError(f"{name}: norm_type must be a number other than 0, got {norm_type!r}")
    images, _ = images_of(name, rank, x)
    if not images.dtype.is_floating:
        raise DTypeError(f"{name}: x must be floats, got {images.dtype}; cast it to float32")
    size = images.shape[2:]
    statics = pool_attributes(name, size, kernel_size, stride, 0, 1, ceil_mode)
    out_sizes(name, size, **statics)
    pool = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}[rank]
    mean = pool(pow(x, norm_type), kernel_size, stride=stride, ceil_mode=ceil_mode)
    total = mean * math.prod(statics["kernel"])
    if norm_type < 0 or norm_type == 1:
        return pow(total, 1 / norm_type)
    # The root's slope at 0 is infinite: a window of zeros has a gradient of 0, as a norm has.
    none = total == 0
    return where(none, 0, pow(where(none, 1, total), 1 / norm_type))
