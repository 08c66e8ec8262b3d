"""Images in other sizes: interpolate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...contract import Aval, Handle
from ...dispatch import TensorLike, handle_of, run1
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_shape, widened
from ..convolution._windows import Ints, PerAxis, per_axis
from ..elementwise.cast import astype
from ..pooling.adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from ._resampling import Grid, Table, resampled, scale_of, table, transposed

if TYPE_CHECKING:
    from ...tensor import Tensor

Factors = tuple[float | None, ...]
_METHODS: dict[str, tuple[str, tuple[int, ...]]] = {
    "nearest": ("nearest", (1, 2, 3)),
    "nearest-exact": ("nearest-exact", (1, 2, 3)),
    "linear": ("linear", (1,)),
    "bilinear": ("linear", (2,)),
    "trilinear": ("linear", (3,)),
    "bicubic": ("cubic", (2,)),
    "lanczos": ("lanczos", (1, 2, 3)),
    "area": ("area", (1, 2, 3)),
}
"""For each mode the method along an axis, and the numbers of image axes that it is for."""


@guarded
def interpolate(
    x: TensorLike,
    size: PerAxis | None = None,
    scale_factor: float | Sequence[float] | None = None,
    *,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Images in another size, by interpolation along each image axis.

    Args:
        x: (batch, channels, *size) with one to three image axes. Floats; any dtype for the
            nearest modes.
        size: the image sizes of the result, for all image axes or for each.
        scale_factor: instead of `size`: how many times as large; the size is rounded down.
        mode: `"nearest"` takes the element that the result's lower border falls into (as PyTorch
            always did), `"nearest-exact"` that under its centre. `"linear"`, `"bilinear"` and
            `"trilinear"` are for one, two and three image axes; `"bicubic"` (Keys 1981, with
            a = -0.75, or -0.5 with `antialias`) for two; `"lanczos"` (three lobes) for any.
            `"area"` is `adaptive_avg_pool`.
        align_corners: whether the centres of the corner elements fall together, instead of the
            images' outer borders; for linear and cubic modes only. With `antialias` it only changes
            how far results lie apart, as in PyTorch.
        recompute_scale_factor: whether positions follow from the rounded size, instead of from
            `scale_factor`.
        antialias: whether filters widen where images get smaller, so that every element counts;
            for `"bilinear"`, `"bicubic"` and `"lanczos"`.

    Returns:
        (batch, channels, *size of the result), in the dtype of `x`.

    Raises:
        ArgumentError: not one of `size` and `scale_factor` is given, or options do not go together.
        ShapeError: the rank does not fit the mode, or an image has no elements.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[[1.0, 3.0]]])
    >>> it.interpolate(x, scale_factor=2, mode="linear").tolist()
    [[[1.0, 1.5, 2.5, 3.0]]]
    >>> it.interpolate(x, 3, mode="linear", align_corners=True).tolist()
    [[[1.0, 2.0, 3.0]]]
    """
    handle = handle_of(x, "interpolate")
    rank = len(handle.shape) - 2
    method = _method(mode, rank, handle, align_corners, antialias)
    wanted, factors = _sizes(handle.shape[2:], size, scale_factor)
    if recompute_scale_factor:
        if scale_factor is None:
            raise ArgumentError("interpolate: recompute_scale_factor needs scale_factor, got None")
        factors = (None,) * rank
    if method == "area":
        area = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[rank - 1]
        return area(x, wanted)
    op = INTERPOLATE.op(
        size=wanted, method=method, factors=factors, corners=bool(align_corners),
        antialias=bool(antialias),
    )  # fmt: skip
    return run1(op, handle)


def _rule(
    x: Aval, *, size: Ints, method: str, factors: Factors, corners: bool, antialias: bool
) -> Aval:
    return Aval((*x.shape[:2], *size), x.dtype)


def _grids(image: Ints, size: Ints, factors: Factors, corners: bool) -> Iterator[tuple[int, Grid]]:
    """The axes along which something changes, those that shrink first."""
    each = enumerate(zip(image, size, factors, strict=True), 2)
    grids = [(a, Grid(n, m, scale_of(n, m, f, corners), corners)) for a, (n, m, f) in each]
    changed = [(a, g) for a, g in grids if g.size != g.wanted or g.scale != 1.0]
    return iter(sorted(changed, key=lambda item: item[1].wanted / item[1].size))


def _body(
    x: Tensor, *, size: Ints, method: str, factors: Factors, corners: bool, antialias: bool
) -> Tensor:
    weighed = not method.startswith("nearest")
    out = widened(x) if weighed else x
    for axis, grid in _grids(x.shape[2:], size, factors, corners):
        out = resampled(out, axis, table(method, grid, antialias))
    return astype(out, x.dtype) if weighed else out


def _gradient(
    g: Tensor, x_aval: Aval, size: Ints, method: str, factors: Factors, corners: bool,
    antialias: bool,
) -> Tensor:  # fmt: skip
    out = widened(g)
    for axis, grid in reversed(list(_grids(x_aval.shape[2:], size, factors, corners))):
        back: Table = transposed(method, grid, antialias)
        out = resampled(out, axis, back)
    return astype(out, g.dtype)


def _samples(draw: Draw) -> Iterator[Sample]:
    cases: tuple[tuple[Ints, dict[str, Any]], ...] = (
        ((2, 3, 5, 8), {"size": (8, 3)}),
        ((1, 2, 5), {"scale_factor": 2.5, "mode": "nearest-exact"}),
    )
    for shape, more in cases:
        yield Sample((draw.array(shape),), more)
    if not draw.dtype.is_floating:
        return
    for shape, more in (
        ((2, 3, 5), {"size": 8, "mode": "linear"}),
        ((2, 1, 5, 8), {"size": (8, 3), "mode": "bilinear", "align_corners": True}),
        ((1, 2, 3, 2, 5), {"size": (2, 3, 5), "mode": "trilinear"}),
        ((1, 2, 5, 8), {"scale_factor": (1.7, 0.6), "mode": "bicubic"}),
        ((1, 2, 8, 17), {"size": (5, 3), "mode": "bicubic", "antialias": True}),
        ((1, 2, 17, 3), {"size": (3, 5), "mode": "bilinear", "antialias": True}),
        ((1, 2, 8, 5), {"size": (3, 8), "mode": "lanczos"}),
        ((1, 2, 17), {"size": 5, "mode": "lanczos", "antialias": True}),
        ((0, 2, 5), {"size": 3, "mode": "linear"}),
    ):
        yield Sample((draw.array(shape),), more, condition=8)


INTERPOLATE = Operation(
    "interpolate",
    tensors=("x",),
    statics=("size", "method", "factors", "corners", "antialias"),
    rule=_rule,
    traits=Traits("opaque", precision="high"),
    vjp={"x": _gradient},
    body=_body,
    public=interpolate,
    samples=_samples,
    reference="ingle.tensor.ops.images._interpolation_reference:interpolate",
)


def _method(
    mode: str, rank: int, x: Handle, align_corners: bool | None, antialias: bool
) -> str:  # fmt: skip
    if mode not in _METHODS:
        known = ", ".join(map(repr, _METHODS))
        raise ArgumentError(f"interpolate: mode={mode!r} is none of {known}")
    method, ranks = _METHODS[mode]
    if rank not in ranks:
        raise ShapeError(
            f"interpolate: for mode {mode!r} x must be (batch, channels, *size) with "
            f"{' or '.join(map(str, ranks))} image axes, got shape {x.shape}"
        )
    if align_corners is not None and method not in ("linear", "cubic"):
        raise ArgumentError(
            f"interpolate: align_corners={align_corners} is for linear and cubic modes, "
            f"got mode={mode!r}"
        )
    if antialias and mode not in ("bilinear", "bicubic", "lanczos"):
        raise ArgumentError(
            f"interpolate: antialias is for 'bilinear', 'bicubic' and 'lanczos', got mode={mode!r}"
        )
    if 0 in x.shape[2:]:
        raise ShapeError(f"interpolate: an image axis of x {x.shape} has no elements")
    if not method.startswith("nearest") and not x.dtype.is_floating:
        raise DTypeError(
            f"interpolate: for mode {mode!r} x must be floats, got {x.dtype}; cast it to float32"
        )
    return method


def _sizes(
    image: Ints, size: PerAxis | None, scale_factor: float | Sequence[float] | None
) -> tuple[Ints, Factors]:
    if (size is None) == (scale_factor is None):
        raise ArgumentError(
            f"interpolate: give one of size and scale_factor, got size={size!r} and "
            f"scale_factor={scale_factor!r}"
        )
    rank = len(image)
    if scale_factor is None:
        return per_axis(size, rank, "interpolate", "size"), (None,) * rank
    many = isinstance(scale_factor, Sequence)
    factors: Any = tuple(scale_factor) if many else (scale_factor,) * rank  # type: ignore[arg-type]
    if len(factors) != rank or not all(
        isinstance(f, (int, float)) and 0 < f < math.inf for f in factors
    ):
        raise ArgumentError(
            f"interpolate: scale_factor must be a positive number, or one for each of the {rank} "
            f"image axes, got {scale_factor!r}"
        )
    sizes = (math.floor(n * f) for n, f in zip(image, factors, strict=True))
    wanted = as_shape(tuple(sizes), "interpolate", "scale_factor")
    if min(wanted) < 1:
        raise ArgumentError(
            f"interpolate: scale_factor={scale_factor!r} leaves nothing of the image sizes {image}"
        )
    return wanted, tuple(float(f) for f in factors)
