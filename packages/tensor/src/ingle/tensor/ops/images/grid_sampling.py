"""Images at the places of a grid: grid_sample, and affine_grid, which makes grids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, promote, run
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_shape, widened
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..movement.shapes import reshape
from ..movement.slicing import slice_axis
from ._sampling import out_of, sampled

if TYPE_CHECKING:
    from ...tensor import Tensor

_MODES = ("bilinear", "nearest", "bicubic")
_BORDERS = ("zeros", "border", "reflection")


@guarded
def grid_sample(
    x: TensorLike,
    grid: TensorLike,
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """Reads images at the places of a grid (Jaderberg et al., arXiv 1506.02025).

    Args:
        x: (batch, channels, height, width), or with a depth in front of the height; floats.
        grid: (batch, *out, 2) with pairs (x, y), or (batch, *out, 3) with triples (x, y, z), where
            `out` has as many sizes: places from -1 (left, top, front) to 1. A NaN is a place far
            to the left.
        mode: `"bilinear"` (for volumes, trilinear), `"nearest"` or `"bicubic"` (pictures only).
        padding_mode: what lies beyond the image: `"zeros"`, its `"border"`, or its `"reflection"`.
        align_corners: whether -1 and 1 are the centres of the corner elements, instead of the
            image's outer borders.

    Returns:
        (batch, channels, *out), in the promoted dtype.

    Raises:
        ShapeError: ranks or batches differ, the grid's last axis is not of the image's rank, or
            an image has no elements.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[[[1.0, 3.0], [5.0, 7.0]]]])
    >>> it.grid_sample(x, it.zeros((1, 1, 1, 2))).tolist()
    [[[[4.0]]]]
    """
    name = "grid_sample"
    for argument, value, known in (
        ("mode", mode, _MODES), ("padding_mode", padding_mode, _BORDERS),
    ):  # fmt: skip
        if value not in known:
            listed = ", ".join(map(repr, known))
            raise ArgumentError(f"{name}: {argument}={value!r} is none of {listed}")
    op = GRID_SAMPLE.op(mode=mode, border=padding_mode, corners=bool(align_corners))
    return run(op, promote(name, ("x", x), ("grid", grid)))[0]


def _rule(x: Aval, grid: Aval, *, mode: str, border: str, corners: bool) -> Aval:
    name, rank = "grid_sample", x.ndim - 2
    if rank not in (2, 3) or grid.ndim != x.ndim or grid.shape[-1] != rank:
        raise ShapeError(
            f"{name}: x must be (batch, channels, *size) with 2 or 3 image axes and grid "
            f"(batch, *out, axes), got {x.shape} and {grid.shape}"
        )
    if x.shape[0] != grid.shape[0]:
        raise ShapeError(
            f"{name}: x {x.shape} and grid {grid.shape} must have the same batch, their first axis"
        )
    if not x.dtype.is_floating:
        raise DTypeError(f"{name}: x must be floats, got {x.dtype}; cast with x.astype('float32')")
    if mode == "bicubic" and rank != 2:
        raise ShapeError(f"{name}: mode 'bicubic' is for pictures, got x of shape {x.shape}")
    if 0 in x.shape[2:]:
        raise ShapeError(f"{name}: an image axis of x {x.shape} has no elements")
    return Aval((*x.shape[:2], *grid.shape[1:-1]), x.dtype)


def _body(x: Tensor, grid: Tensor, *, mode: str, border: str, corners: bool) -> Tensor:
    wide, size, out = widened(grid), x.shape[2:], grid.shape[1:-1]
    places = []
    for axis, n in enumerate(size):
        # The last axis of the image comes first in the grid.
        at = reshape(slice_axis(wide, wide.ndim - 1, len(size) - 1 - axis, 1), grid.shape[:-1])
        places.append((at + 1) * ((n - 1) / 2) if corners else ((at + 1) * n - 1) / 2)
    found = sampled(widened(x), places, mode, border, corners)
    return astype(out_of(found, (*x.shape[:2], *out)), x.dtype)


def _samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    cases: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
        ((2, 3, 5, 8), (3, 5), {}),
        ((1, 2, 5, 3), (2, 3), {"padding_mode": "border", "align_corners": True}),
        ((1, 2, 3, 5), (3, 2), {"padding_mode": "reflection"}),
        ((1, 2, 5, 5), (2, 3), {"mode": "bicubic", "padding_mode": "reflection"}),
        ((1, 2, 5, 8), (2, 3), {"mode": "bicubic", "align_corners": True}),
        ((2, 2, 3, 2, 5), (1, 2, 3), {"padding_mode": "border"}),
        ((2, 2, 5, 8), (2, 3), {"mode": "nearest"}),
        ((0, 2, 5, 8), (2, 3), {}),
    )
    for written, places, more in cases:
        shape, out = draw.shape(written[:2]) + draw.shape(written[2:], least=2), draw.shape(places)
        corners, rank = more.get("align_corners", False), len(out)
        sizes = np.array(shape[:1:-1])
        # Places a quarter and more away from where weights have kinks, and exact in half types.
        whole = draw.rng.integers(-1, sizes + 1, (shape[0], *out, rank))
        at = whole + draw.rng.choice([0.25, 0.75], whole.shape)
        grid = at * 2 / (sizes - 1) - 1 if corners else (at * 2 + 1) / sizes - 1
        smooth = (0,) if more.get("mode") == "nearest" else (0, 1)
        given = np.asarray(grid, draw.dtype.dtype)
        far = 64 if draw.dtype.itemsize > 2 else 512
        yield Sample((draw.array(shape), given), more, gradient=smooth, condition=far)


GRID_SAMPLE = Operation(
    "grid_sample",
    tensors=("x", "grid"),
    statics=("mode", "border", "corners"),
    rule=_rule,
    traits=Traits("opaque", precision="high", indexes_inside=True),
    body=_body,
    public=grid_sample,
    samples=_samples,
    reference="ingle.tensor.ops.images._sampling_reference:grid_sample",
)


@guarded
def affine_grid(theta: TensorLike, size: Sequence[int], *, align_corners: bool = False) -> Tensor:
    """The places that affine maps take the elements of a regular grid to, for `grid_sample`.

    Args:
        theta: (batch, 2, 3), or (batch, 3, 4) for volumes: maps of (x, y, 1) or (x, y, z, 1).
        size: (batch, channels, *out) of the images to be made.
        align_corners: as for `grid_sample`.

    Returns:
        (batch, *out, 2), or (batch, *out, 3).

    Raises:
        ShapeError: theta's shape and size do not fit.

    >>> import ingle.tensor as it
    >>> identity = it.asarray([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> it.affine_grid(identity, (1, 1, 1, 2), align_corners=True).tolist()
    [[[[-1.0, 0.0], [1.0, 0.0]]]]
    """
    name = "affine_grid"
    handle = handle_of(theta, name, "theta")
    shape = as_shape(size, name, "size")
    rank = len(shape) - 2
    if rank not in (2, 3) or handle.shape != (shape[0], rank, rank + 1):
        raise ShapeError(
            f"{name}: for size (batch, channels, *out) with 2 or 3 image axes theta must be "
            f"(batch, axes, axes + 1), got {handle.shape} for size {shape}"
        )
    if not handle.dtype.is_floating:
        raise DTypeError(f"{name}: theta must be floats, got {handle.dtype}; cast it first")
    op = AFFINE_GRID.op(size=shape[2:], corners=bool(align_corners))
    return run(op, (handle,))[0]


def _affine_rule(theta: Aval, *, size: tuple[int, ...], corners: bool) -> Aval:
    return Aval((theta.shape[0], *size, len(size)), theta.dtype)


def _affine_body(theta: Tensor, *, size: tuple[int, ...], corners: bool) -> Tensor:
    """Each coordinate of the places times a column of theta: products of two or three terms."""
    wide, rank = widened(theta), len(size)
    columns = (theta.shape[0], *(1,) * rank, rank)
    out = reshape(wide[..., rank], columns)
    for column, axis in enumerate(reversed(range(rank))):
        n = size[axis]
        at = arange(n, dtype=wide.dtype, device=theta.device)
        line = at * (2 / max(1, n - 1)) - int(n > 1) if corners else (at * 2 + 1) / n - 1
        places = reshape(line, (n, *(1,) * (rank - axis)))
        out = out + places * reshape(wide[..., column], columns)
    return astype(out, theta.dtype)


def _affine_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        n, *size = draw.shape((2, 3, 5, 8))
        yield Sample((draw.array((n, 2, 3)), (n, *size)), condition=8)
        more = {"align_corners": True}
        yield Sample((draw.array((1, 3, 4)), draw.shape((1, 1, 2, 1, 3))), more, condition=8)
        yield Sample((draw.array((0, 2, 3)), (0, 3, 2, 2)))


AFFINE_GRID = Operation(
    "affine_grid",
    tensors=("theta",),
    statics=("size", "corners"),
    rule=_affine_rule,
    traits=Traits("opaque", precision="high"),
    body=_affine_body,
    public=affine_grid,
    samples=_affine_samples,
    reference="ingle.tensor.ops.images._sampling_reference:affine_grid",
)
