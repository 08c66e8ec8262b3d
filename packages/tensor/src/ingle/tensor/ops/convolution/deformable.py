"""Convolution whose windows bend: each tap is read at a place that an offset moves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...contract import Aval, Handle, Scalar
from ...dispatch import TensorLike, handle_of, run
from ...errors import DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import widened
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..images._sampling import sampled
from ..linear_algebra.products import matmul
from ..movement.shapes import permute_dims, reshape
from ..movement.slicing import slice_axis
from ..neural.linear import promote_present
from ._windows import Ints, Pairs, PerAxis, out_sizes, per_axis
from .forward import check_bias

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def deform_conv2d(
    x: TensorLike,
    offset: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    *,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    mask: TensorLike | None = None,
) -> Tensor:
    """Convolves pictures with windows whose elements are moved, each by an offset of its own.

    Dai et al., arXiv 1703.06211; with a mask Zhu et al., arXiv 1811.11168. Between the elements
    values are interpolated linearly; beyond the picture are zeros.

    Args:
        x: (batch, channels, height, width), floats.
        offset: (batch, bands * taps * 2, out height, out width): for each band of channels and
            each tap of the kernel, in row-major order, how far down and how far to the right it
            is moved. The number of bands follows from the shape; it divides the channels.
        weight: (features, channels / groups, kernel height, kernel width); the number of groups
            follows from the shapes.
        bias: (features,), added to the result.
        stride, padding, dilation: as for `conv2d`.
        mask: (batch, bands * taps, out height, out width): what each tap is multiplied by.

    Returns:
        (batch, features, out height, out width), in the promoted dtype.

    Raises:
        ShapeError: shapes do not fit.

    >>> import ingle.tensor as it
    >>> x = it.reshape(it.arange(9.0), (1, 1, 3, 3))
    >>> half = it.full((1, 2, 1, 1), 0.5)
    >>> it.deform_conv2d(x, half, it.ones((1, 1, 1, 1)), stride=3).tolist()
    [[[[2.0]]]]
    """
    name = "deform_conv2d"
    given = {"x": x, "offset": offset, "weight": weight}
    for argument, value in given.items():
        shape = handle_of(value, name, argument).shape
        if len(shape) != 4:
            raise ShapeError(f"{name}: {argument} must have 4 axes, got shape {shape}")
    if bias is not None:
        check_bias(name, bias, handle_of(weight, name, "weight").shape[0])
    around = per_axis(padding, 2, name, "padding", least=0)
    op = DEFORM_CONV.op(
        stride=per_axis(stride, 2, name, "stride"),
        padding=tuple((p, p) for p in around),
        dilation=per_axis(dilation, 2, name, "dilation"),
    )
    operands: list[Handle | Scalar] = promote_present(
        name, ("x", x, None), ("offset", offset, None), ("weight", weight, None),
        ("bias", bias, 0.0), ("mask", mask, 1.0),
    )  # fmt: skip
    return run(op, operands)[0]


def _rule(
    x: Aval, offset: Aval, weight: Aval, bias: Aval, mask: Aval, *, stride: Ints, padding: Pairs,
    dilation: Ints,
) -> Aval:  # fmt: skip
    name = "deform_conv2d"
    if not x.dtype.is_floating:
        raise DTypeError(f"{name}: x must be floats, got {x.dtype}; cast with x.astype('float32')")
    (batch, channels, *size), (features, each, *kernel) = x.shape, weight.shape
    if not each or not channels or channels % each or features % (channels // each or 1):
        raise ShapeError(
            f"{name}: weight must be (features, channels / groups, *kernel) with groups that "
            f"divide the {channels} channels of x {x.shape} and the features, got {weight.shape}"
        )
    out = out_sizes(name, tuple(size), tuple(kernel), stride, padding, dilation)
    taps = math.prod(kernel)
    bands = offset.shape[1] // (2 * taps)
    if offset.shape != (batch, 2 * bands * taps, *out) or not bands or channels % bands:
        raise ShapeError(
            f"{name}: offset must be ({batch}, bands * {2 * taps}, {out[0]}, {out[1]}) with bands "
            f"that divide the {channels} channels of x {x.shape}, got {offset.shape}"
        )
    if mask.shape not in ((), (batch, bands * taps, *out)):
        raise ShapeError(
            f"{name}: mask must be {(batch, bands * taps, *out)} for offset {offset.shape}, got "
            f"{mask.shape}"
        )
    return Aval((batch, features, *out), x.dtype)


def _body(
    x: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | float, mask: Tensor | float, *,
    stride: Ints, padding: Pairs, dilation: Ints,
) -> Tensor:  # fmt: skip
    (batch, channels), (features, each), out = x.shape[:2], weight.shape[:2], offset.shape[2:]
    taps, groups = math.prod(weight.shape[2:]), channels // each
    bands = offset.shape[1] // (2 * taps)
    planes = reshape(widened(x), (batch * bands, channels // bands, *x.shape[2:]))
    moved = reshape(widened(offset), (batch * bands, taps, 2, *out))
    places = []
    for axis in range(2):
        regular = _regular(axis, weight.shape[2:], out, stride, padding, dilation, moved)
        by = reshape(slice_axis(moved, 2, axis, 1), (batch * bands, taps, *out))
        places.append(by + regular)
    seen = sampled(planes, places, "bilinear", "zeros", False)
    if not isinstance(mask, float):
        seen = seen * reshape(widened(mask), (batch * bands, taps, *out, 1))
    # (batch * bands, taps, *out, channels / bands) to a matrix for each group.
    columns = permute_dims(seen, (0, 4, 1, 2, 3))
    columns = reshape(columns, (batch, groups, each * taps, math.prod(out)))
    matrices = reshape(widened(weight), (groups, features // groups, each * taps))
    result = reshape(matmul(matrices, columns), (batch, features, *out))
    if not isinstance(bias, float):
        result = result + reshape(widened(bias), (features, 1, 1))
    return astype(result, x.dtype)


def _regular(
    axis: int, kernel: Ints, out: Ints, stride: Ints, padding: Pairs, dilation: Ints, like: Tensor
) -> Tensor:
    """Where the taps would lie without offsets: (taps, 1 or out height, 1 or out width)."""
    steps = arange(out[axis], dtype=like.dtype, device=like.device) * stride[axis]
    taps = arange(math.prod(kernel), device=like.device)
    number = taps // kernel[1] if axis == 0 else taps % kernel[1]
    inside = astype(number, like.dtype) * dilation[axis] - padding[axis][0]
    shape = (1, out[0], 1) if axis == 0 else (1, 1, out[1])
    return reshape(inside, (-1, 1, 1)) + reshape(steps, shape)


def _samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    cases: tuple[tuple[Ints, Ints, int, Ints, dict[str, Any]], ...] = (
        ((2, 2, 5, 5), (3, 2, 3, 3), 1, (3, 3), {}),
        ((1, 4, 5, 3), (2, 2, 2, 3), 2, (3, 2), {"stride": (2, 2), "padding": (1, 1)}),
        ((1, 2, 8, 5), (2, 2, 2, 2), 1, (6, 3), {"dilation": 2}),
        ((0, 2, 3, 3), (2, 2, 2, 2), 1, (2, 2), {}),
    )
    for (batch, *image), weight, bands, out, more in cases:
        shape = (draw.size(batch), *image)
        taps = weight[2] * weight[3] * bands
        # Away from whole numbers, where the interpolation has kinks.
        whole = draw.integers((shape[0], 2 * taps, *out), 3) - 1
        offset = (whole + draw.rng.choice([0.25, 0.75], whole.shape)).astype(draw.dtype.dtype)
        x, w = draw.array(shape), draw.array(weight)
        yield Sample((x, offset, w), more, condition=64)
        mask = draw.array((shape[0], taps, *out), low=0.0, high=1.0)
        extra = {**more, "mask": mask}
        yield Sample((x, offset, w, draw.array(weight[:1])), extra, condition=64)


DEFORM_CONV = Operation(
    "deform_conv2d",
    tensors=("x", "offset", "weight", "bias", "mask"),
    statics=("stride", "padding", "dilation"),
    rule=_rule,
    traits=Traits("contraction", precision="low", bound="compute"),
    body=_body,
    public=deform_conv2d,
    samples=_samples,
    reference="ingle.tensor.ops.images._sampling_reference:deform_conv2d",
)
