"""What max pooling's gradients are made of: scattering to the maxima, and selecting there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...contract import Aval, Shape
from ...dispatch import TensorLike, handle_of, run2
from ...dtypes import int32
from ...errors import DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._rules import REAL, as_shape
from ..convolution._windows import (
    Ints,
    Pairs,
    PerAxis,
    cropped,
    out_sizes,
    padded,
    padded_sizes,
    seen_by,
    taps,
)
from ..creation.filled import zeros
from ..elementwise.where import where
from ..movement.joining import stack
from ..movement.shapes import reshape
from ..movement.slicing import slice
from .max_pooling import pool_attributes

if TYPE_CHECKING:
    from ...tensor import Tensor

_STATICS = ("kernel", "stride", "padding", "dilation")


def max_pool_gradient(
    g: TensorLike, index: TensorLike, size: PerAxis, kernel_size: PerAxis, **options: Any
) -> Tensor:
    """Each element of g at the place that its window's maximum came from, zeros elsewhere.

    Args:
        g: (batch, channels, *out).
        index: int32 of the same shape: the tap that each maximum was found at.
        size: the image sizes of the pooling's input.
        kernel_size, **options: as for the pooling.
    """
    name = "max_pool_gradient"
    handles = handle_of(g, name, "g"), handle_of(index, name, "index")
    sizes = as_shape(size, name, "size")
    more = {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False, **options}
    attributes = pool_attributes(name, sizes, kernel_size, **more)
    return run2(MAX_POOL_GRADIENT.op(size=sizes, **attributes), *handles)


def _select(
    x: Tensor, index: Tensor, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> Tensor:
    op = MAX_POOL_SELECT.op(kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    return run2(op, x._handle, index._handle)


def _gradient_rule(
    g: Aval, index: Aval, *, size: Ints, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> Aval:
    name = "max_pool_gradient"
    out = out_sizes(name, size, kernel, stride, padding, dilation)
    if g.shape[2:] != out:
        raise ShapeError(f"{name}: g must end in {out} for size {size}, got shape {g.shape}")
    _check(name, g.shape, g, index)
    return Aval((*g.shape[:2], *size), g.dtype)


def _gradient_body(
    g: Tensor, index: Tensor, *, size: Ints, kernel: Ints, stride: Ints, padding: Pairs,
    dilation: Ints,
) -> Tensor:  # fmt: skip
    """Places of an image that lie a stride apart see the same taps; these make an image each.

    A tap of such an image is a part of g and index with a border around, so that all of its taps
    are added up at once.
    """
    whole = padded_sizes(size, padding)
    if 0 in g.shape:
        return zeros((*g.shape[:2], *size), dtype=g.dtype, device=g.device)
    counts = tuple([-(-n // s) for n, s in zip(whole, stride, strict=True)])
    reach = [d * (k - 1) // s for k, s, d in zip(kernel, stride, dilation, strict=True)]
    widths = tuple([(r, n - m) for r, n, m in zip(reach, counts, g.shape[2:], strict=True)])
    g, index = padded(g, widths), padded(index, widths, -1)
    parts: dict[Ints, Tensor] = {}
    for place, tap in enumerate(taps(kernel)):
        steps = [divmod(t * d, s) for t, s, d in zip(tap, stride, dilation, strict=True)]
        phase = tuple([rest for _, rest in steps])
        starts = 0, 0, *[r - far for r, (far, _) in zip(reach, steps, strict=True)]
        shown, chosen = (slice(v, starts, (*g.shape[:2], *counts)) for v in (g, index))
        share = where(chosen == place, shown, 0)
        parts[phase] = parts[phase] + share if phase in parts else share
    nothing = zeros((*g.shape[:2], *counts), dtype=g.dtype, device=g.device)
    return cropped(_interleaved(parts, nothing, stride, whole), padding)


def _interleaved(parts: dict[Ints, Tensor], nothing: Tensor, stride: Ints, size: Shape) -> Tensor:
    """Images whose places take turns along each image axis; what is missing is nothing."""
    lead, sizes = nothing.shape[:2], list(nothing.shape[2:])
    parts = {at: parts.get(at, nothing) for at in taps(stride)}
    for axis in reversed(range(len(stride))):
        joined = {}
        for before in dict.fromkeys([at[:axis] for at in parts]):
            turns = [parts[(*before, t)] for t in range(stride[axis])]
            inside = stack(turns, axis=3 + axis) if len(turns) > 1 else turns[0]
            sizes[axis] = nothing.shape[2 + axis] * stride[axis]
            joined[before] = reshape(inside, (*lead, *sizes))
        parts = joined
    whole = parts[()]
    return whole if whole.shape[2:] == size else slice(whole, (0,) * whole.ndim, (*lead, *size))


# In the rules v is the cotangent: g is an input of the operation.
def _gradient_vjp(
    v: Tensor, index: Tensor, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> Tensor:
    return _select(v, index, kernel, stride, padding, dilation)


MAX_POOL_GRADIENT = Operation(
    "max_pool_gradient",
    tensors=("g", "index"),
    statics=("size", *_STATICS),
    rule=_gradient_rule,
    traits=Traits("opaque"),
    vjp={"g": _gradient_vjp},
    body=_gradient_body,
    public=max_pool_gradient,
    samples=lambda draw: _samples(draw, True),
    reference="ingle.tensor.ops.pooling._reference:max_pool_gradient",
)


def max_pool_select(
    x: TensorLike, index: TensorLike, kernel_size: PerAxis, **options: Any
) -> Tensor:
    """The elements of images at the places that another pooling's maxima came from.

    Args:
        x: (batch, channels, *size).
        index: int32 (batch, channels, *out): the tap to read in each window.
        kernel_size, **options: as for the pooling.
    """
    name = "max_pool_select"
    handles = handle_of(x, name), handle_of(index, name, "index")
    more = {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False, **options}
    attributes = pool_attributes(name, handles[0].shape[2:], kernel_size, **more)
    return run2(MAX_POOL_SELECT.op(**attributes), *handles)


def _select_rule(
    x: Aval, index: Aval, *, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> Aval:
    name = "max_pool_select"
    out = out_sizes(name, x.shape[2:], kernel, stride, padding, dilation)
    _check(name, (*x.shape[:2], *out), x, index)
    return Aval(index.shape, x.dtype)


def _select_body(
    x: Tensor, index: Tensor, *, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> Tensor:
    image, out = padded(x, padding), index.shape[2:]
    found: Tensor | None = None
    for place, tap in enumerate(taps(kernel)):
        part = seen_by(image, tap, out, stride, dilation)
        found = part if found is None else where(index == place, part, found)
    assert found is not None
    return found


def _select_vjp(
    v: Tensor, index: Tensor, x_aval: Aval, kernel: Ints, stride: Ints, padding: Pairs,
    dilation: Ints,
) -> Tensor:  # fmt: skip
    return scatter_to_maxima(v, index, x_aval.shape[2:], kernel, stride, padding, dilation)


MAX_POOL_SELECT = Operation(
    "max_pool_select",
    tensors=("x", "index"),
    statics=_STATICS,
    rule=_select_rule,
    traits=Traits("opaque"),
    vjp={"x": _select_vjp},
    body=_select_body,
    public=max_pool_select,
    samples=lambda draw: _samples(draw, False),
    reference="ingle.tensor.ops.pooling._reference:max_pool_select",
)


def scatter_to_maxima(
    g: Tensor, index: Tensor, size: Shape, kernel: Ints, stride: Ints, padding: Pairs,
    dilation: Ints,
) -> Tensor:  # fmt: skip
    """`max_pool_gradient` with attributes that were checked before."""
    op = MAX_POOL_GRADIENT.op(
        size=size, kernel=kernel, stride=stride, padding=padding, dilation=dilation
    )
    return run2(op, g._handle, index._handle)


def _check(name: str, shape: Shape, values: Aval, index: Aval) -> None:
    if index.shape != shape or index.dtype is not int32:
        raise ShapeError(f"{name}: index must be int32 of shape {shape}, got {index}")
    if values.dtype.kind not in REAL:
        raise DTypeError(f"{name}: x must be real numbers, got {values.dtype}")


def _samples(draw: Draw, scatters: bool) -> Iterator[Sample]:
    cases: tuple[tuple[Shape, Shape, Shape, dict[str, Any]], ...] = (
        ((2, 3, 8, 8), (2, 3, 4, 4), (2, 2), {}),
        ((2, 1, 8, 5), (2, 1, 4, 2), (3, 2), {"stride": 2, "padding": (1, 0)}),
        ((3, 2, 8), (3, 2, 6), (3,), {"stride": 1}),
    )
    if not draw.dtype.is_floating:
        return
    for x, out, kernel, more in cases:
        # The middle of a window is never padding.
        middle, count = 0, 1
        for k in reversed(kernel):
            middle, count = middle + k // 2 * count, count * k
        index = draw.integers(out, 2, "int32") * 0 + middle
        if scatters:
            yield Sample((draw.array(out), index, x[2:], kernel), more)
        else:
            yield Sample((draw.array(x), index, kernel), more)
