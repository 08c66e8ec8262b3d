"""Sliding windows, which convolution and pooling share: arguments, sizes, pieces.

A window at output position o sees, at its tap t, the padded element `o * stride + t * dilation`
of each image axis. Images are (batch, channels, *size).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...contract import Shape
from ...dispatch import Number
from ...errors import ArgumentError, ShapeError
from .._rules import MOST, as_ints
from ..creation.filled import zeros
from ..movement.padding import pad
from ..movement.slicing import slice, slice_update

if TYPE_CHECKING:
    from ...tensor import Tensor

Ints = tuple[int, ...]
Pairs = tuple[Ints, ...]
"""For each image axis how much is added before and after."""
PerAxis = int | Sequence[int]


def per_axis(value: object, rank: int, name: str, argument: str, least: int = 1) -> Ints:
    """One integer for all image axes, or one for each; none below `least`."""
    found = as_ints(value, name, argument)
    if len(found) == 1 and not isinstance(value, Sequence):
        found *= rank
    if len(found) != rank or any(not least <= n <= MOST for n in found):
        raise ArgumentError(
            f"{name}: {argument} must be an integer or {rank} of them, none below {least} or "
            f"above {MOST}, got {value!r}"
        )
    return found


def out_sizes(
    name: str, size: Shape, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints,
    argument: str = "kernel_size",
) -> Shape:  # fmt: skip
    """How many windows fit along each image axis; a `ShapeError` where none does."""
    out = []
    for axis, (n, k, s, (low, high), d) in enumerate(
        zip(size, kernel, stride, padding, dilation, strict=True)
    ):
        span = d * (k - 1) + 1
        if not k > 0 or span > n + low + high:
            raise ShapeError(
                f"{name}: along image axis {axis} the window spans {max(0, span)} elements "
                f"({argument} {k}, dilation {d}), but the input has {n} and padding {low} + "
                f"{high}; the window must have elements and fit: use another kernel or padding"
            )
        out.append((n + low + high - span) // s + 1)
    return tuple(out)


def padded(x: Tensor, padding: Pairs, value: Number = 0) -> Tensor:
    """Images with a border of one value; negative widths cut off instead."""
    return pad(x, ((0, 0), (0, 0), *padding), value=value)


def cropped(x: Tensor, padding: Pairs) -> Tensor:
    """Images without a border of the given widths."""
    return padded(x, tuple((-low, -high) for low, high in padding))


def taps(kernel: Ints) -> Iterator[Ints]:
    """The positions inside of a window, in row-major order."""
    return itertools.product(*map(range, kernel))


def seen_by(x: Tensor, tap: Ints, out: Shape, stride: Ints, dilation: Ints) -> Tensor:
    """What one tap of every window sees of padded images: (batch, channels, *out)."""
    starts = (t * d for t, d in zip(tap, dilation, strict=True))
    return slice(x, (0, 0, *starts), (*x.shape[:2], *out), (1, 1, *stride))


def put_back(g: Tensor, tap: Ints, size: Shape, stride: Ints, dilation: Ints) -> Tensor:
    """The transpose of `seen_by`: zeros of the padded size with g where the tap was."""
    starts = (t * d for t, d in zip(tap, dilation, strict=True))
    empty = zeros((*g.shape[:2], *size), dtype=g.dtype, device=g.device)
    return slice_update(empty, g, (0, 0, *starts), (1, 1, *stride))


def padded_sizes(size: Shape, padding: Pairs) -> Shape:
    """The sizes of the image axes with their borders."""
    return tuple(n + low + high for n, (low, high) in zip(size, padding, strict=True))
