"""Channels rearranged to pixels and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dispatch import TensorLike, handle_of
from ...errors import ArgumentError, ShapeError
from .._guarding import guarded
from .._rules import as_int
from ..movement.shapes import permute_dims, reshape

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def pixel_shuffle(x: TensorLike, upscale_factor: int) -> Tensor:
    """Blocks of channels laid out as pixels (Shi et al., arXiv 1609.05158).

    Args:
        x: (..., channels * upscale_factor², height, width).
        upscale_factor: how many times as high and wide the result is.

    Returns:
        (..., channels, height * upscale_factor, width * upscale_factor).

    Raises:
        ShapeError: the square of the factor does not divide the channels.

    >>> import ingle.tensor as it
    >>> it.pixel_shuffle(it.reshape(it.arange(4), (4, 1, 1)), 2).tolist()
    [[[0, 1], [2, 3]]]
    """
    name = "pixel_shuffle"
    (*lead, channels, height, width), r = _checked(name, x, upscale_factor, "upscale_factor")
    if channels % (r * r):
        raise ShapeError(
            f"{name}: upscale_factor={r} needs channels (axis -3) that {r * r} divides, got shape "
            f"{handle_of(x, name).shape}"
        )
    n, c = len(lead), channels // (r * r)
    blocks = reshape(x, (*lead, c, r, r, height, width))
    mixed = permute_dims(blocks, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return reshape(mixed, (*lead, c, height * r, width * r))


@guarded
def pixel_unshuffle(x: TensorLike, downscale_factor: int) -> Tensor:
    """Blocks of pixels laid out as channels: the inverse of `pixel_shuffle`.

    Args:
        x: (..., channels, height * downscale_factor, width * downscale_factor).
        downscale_factor: how many times lower and narrower the result is.

    Returns:
        (..., channels * downscale_factor², height, width).

    Raises:
        ShapeError: the factor does not divide height and width.

    >>> import ingle.tensor as it
    >>> it.pixel_unshuffle(it.asarray([[[0, 1], [2, 3]]]), 2).tolist()
    [[[0]], [[1]], [[2]], [[3]]]
    """
    name = "pixel_unshuffle"
    (*lead, c, height, width), r = _checked(name, x, downscale_factor, "downscale_factor")
    if height % r or width % r:
        raise ShapeError(
            f"{name}: downscale_factor={r} must divide height and width (axes -2 and -1), got "
            f"shape {handle_of(x, name).shape}"
        )
    n = len(lead)
    blocks = reshape(x, (*lead, c, height // r, r, width // r, r))
    mixed = permute_dims(blocks, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return reshape(mixed, (*lead, c * r * r, height // r, width // r))


@guarded
def channel_shuffle(x: TensorLike, groups: int) -> Tensor:
    """Channels dealt out anew, so that each group has some of every group before.

    Zhang et al., arXiv 1707.01083.

    Args:
        x: (batch, channels, *size).
        groups: how many groups of channels there are.

    Raises:
        ShapeError: the groups do not divide the channels.

    >>> import ingle.tensor as it
    >>> it.channel_shuffle(it.reshape(it.arange(4), (1, 4, 1)), 2).tolist()
    [[[0], [2], [1], [3]]]
    """
    name = "channel_shuffle"
    shape, count = handle_of(x, name).shape, as_int(groups, name, "groups")
    if len(shape) < 2 or count < 1 or shape[1] % count:
        raise ShapeError(
            f"{name}: x must be (batch, channels, *size) with channels that groups={count} "
            f"divides, got shape {shape}"
        )
    grouped = reshape(x, (shape[0], count, shape[1] // count, *shape[2:]))
    return reshape(permute_dims(grouped, (0, 2, 1, *range(3, len(shape) + 1))), shape)


def _checked(name: str, x: TensorLike, factor: object, argument: str) -> tuple[list[int], int]:
    shape, r = handle_of(x, name).shape, as_int(factor, name, argument)
    if len(shape) < 3:
        raise ShapeError(f"{name}: x must be (..., channels, height, width), got shape {shape}")
    if r < 1:
        raise ArgumentError(f"{name}: {argument} must be at least 1, got {r}")
    return list(shape), r
