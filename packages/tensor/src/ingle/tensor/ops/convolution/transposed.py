"""Transposed convolution: what a convolution's gradient does to its images, as a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...dispatch import TensorLike, handle_of, promote_tensors, run
from ...errors import ArgumentError, ShapeError
from .._guarding import guarded
from ..elementwise.cast import astype
from ..movement.padding import pad
from ..movement.shapes import reshape
from ._windows import Ints, PerAxis, per_axis
from .forward import check_bias, check_floats, window_attributes
from .gradients import CONV_INPUT_GRADIENT

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def conv_transpose1d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    *,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    output_padding: PerAxis = 0,
    groups: int = 1,
    dilation: PerAxis = 1,
) -> Tensor:
    """Spreads each element of sequences over a kernel; see `conv_transpose2d` for the arguments.

    Args:
        x: (batch, channels, length), or without the batch.
        weight: (channels, features / groups, kernel).

    >>> import ingle.tensor as it
    >>> x = it.asarray([[[1.0, 2.0]]])
    >>> it.conv_transpose1d(x, it.asarray([[[1.0, 10.0]]]), stride=2).tolist()
    [[[1.0, 10.0, 2.0, 20.0]]]
    """
    options = (stride, padding, output_padding, groups, dilation)
    return _transposed(1, x, weight, bias, *options)


@guarded
def conv_transpose2d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    *,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    output_padding: PerAxis = 0,
    groups: int = 1,
    dilation: PerAxis = 1,
) -> Tensor:
    """Spreads each element of pictures over a kernel and adds up what overlaps.

    It is the transpose of the linear map `conv2d(·, weight)` with the same stride, padding and
    dilation (Dumoulin and Visin, arXiv 1603.07285): where that made images smaller, this makes
    them larger.

    Args:
        x: (batch, channels, height, width), or without the batch.
        weight: (channels, features / groups, kernel height, kernel width).
        bias: (features,), added to the result.
        stride: how far apart neighbours are spread, for all image axes or for each.
        padding: how many elements are cut off on each side of the result.
        output_padding: how many are kept in addition at each axis' end; below the stride or the
            dilation. Several sizes are made equal by a stride: this chooses among them.
        groups: into how many groups channels and features are cut.
        dilation: the distance between a kernel's elements.

    Returns:
        (batch, features, *out) with out = (size - 1) * stride - 2 * padding
        + dilation * (kernel - 1) + output_padding + 1.

    Raises:
        ShapeError: ranks or channels do not fit, or nothing is left of an axis.
        ArgumentError: output_padding is not below the stride or the dilation.

    >>> import ingle.tensor as it
    >>> it.conv_transpose2d(it.ones((2, 4, 7, 7)), it.ones((4, 3, 2, 2)), stride=2).shape
    (2, 3, 14, 14)
    """
    options = (stride, padding, output_padding, groups, dilation)
    return _transposed(2, x, weight, bias, *options)


@guarded
def conv_transpose3d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    *,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    output_padding: PerAxis = 0,
    groups: int = 1,
    dilation: PerAxis = 1,
) -> Tensor:
    """Spreads each element of volumes over a kernel; see `conv_transpose2d` for the arguments.

    Args:
        x: (batch, channels, depth, height, width), or without the batch.
        weight: (channels, features / groups, *kernel) with a kernel of three sizes.

    >>> import ingle.tensor as it
    >>> it.conv_transpose3d(it.ones((1, 1, 2, 2, 2)), it.ones((1, 5, 3, 3, 3))).shape
    (1, 5, 4, 4, 4)
    """
    options = (stride, padding, output_padding, groups, dilation)
    return _transposed(3, x, weight, bias, *options)


def _transposed(
    rank: int, x: TensorLike, weight: TensorLike, bias: TensorLike | None, stride: PerAxis,
    padding: PerAxis, output_padding: PerAxis, groups: int, dilation: PerAxis,
) -> Tensor:  # fmt: skip
    name = f"conv_transpose{rank}d"
    image, kernel = handle_of(x, name).shape, handle_of(weight, name, "weight").shape
    if len(kernel) != rank + 2 or len(image) not in (rank + 1, rank + 2):
        raise ShapeError(
            f"{name}: needs x of {rank + 2} axes (batch, channels, *size) and weight of {rank + 2} "
            f"(channels, features / groups, *kernel), got {image} and {kernel}"
        )
    if len(image) == rank + 1:
        options = (stride, padding, output_padding, groups, dilation)
        out = _transposed(rank, reshape(x, (1, *image)), weight, bias, *options)
        return reshape(out, out.shape[1:])
    attributes = window_attributes(name, kernel[2:], stride, padding, dilation, groups)
    _check_channels(name, image, kernel, attributes["groups"])
    steps, spread = attributes["stride"], attributes["dilation"]
    more = per_axis(output_padding, rank, name, "output_padding", least=0)
    if any(m >= s and m >= d for m, s, d in zip(more, steps, spread, strict=True)):
        raise ArgumentError(
            f"{name}: output_padding={output_padding!r} must be below the stride {steps} or the "
            f"dilation {spread}"
        )
    if bias is not None:
        check_bias(name, bias, kernel[1] * attributes["groups"])
        a, b, c = promote_tensors(name, ("x", x), ("weight", weight), ("bias", bias))
        check_floats(name, "x", a.dtype)
        out = _spread(name, a, b, more, **attributes)
        return out + astype(reshape(c, (-1, *(1,) * rank)), out.dtype)
    a, b = promote_tensors(name, ("x", x), ("weight", weight))
    check_floats(name, "x", a.dtype)
    return _spread(name, a, b, more, **attributes)


def _check_channels(name: str, image: Ints, kernel: Ints, groups: int) -> None:
    if image[1] != kernel[0] or kernel[0] % groups:
        raise ShapeError(
            f"{name}: weight must be (channels, features / groups, *kernel) with the {image[1]} "
            f"channels of x {image}, which groups={groups} divides; got weight {kernel}"
        )


def _spread(
    name: str, x: Tensor, weight: Tensor, more: Ints, stride: Ints,
    padding: Sequence[tuple[int, int]], dilation: Ints, groups: int,
) -> Tensor:  # fmt: skip
    reach = [
        (n - 1) * s + d * (k - 1) + 1 if n else 0
        for n, s, d, k in zip(x.shape[2:], stride, dilation, weight.shape[2:], strict=True)
    ]
    size = [r - low - high + m for r, (low, high), m in zip(reach, padding, more, strict=True)]
    if min(x.shape[2:], default=1) < 1 or min(size, default=1) < 1:
        raise ShapeError(
            f"{name}: for x {x.shape}, weight {weight.shape}, stride {stride} and padding "
            f"{tuple(low for low, _ in padding)} the result would have image sizes {tuple(size)}; "
            "use less padding"
        )
    if all(m < s for m, s in zip(more, stride, strict=True)):
        op = CONV_INPUT_GRADIENT.op(
            size=tuple(size), stride=stride, padding=tuple(padding), dilation=dilation,
            groups=groups,
        )  # fmt: skip
        return run(op, (x._handle, weight._handle))[0]
    # A convolution of an image as long as this would have one more window: nothing was spread
    # from there.
    none = ((0, 0),) * len(size)
    whole = CONV_INPUT_GRADIENT.op(
        size=tuple(reach), stride=stride, padding=none, dilation=dilation, groups=groups
    )
    out = run(whole, (x._handle, weight._handle))[0]
    sides = [(-low, m - high) for (low, high), m in zip(padding, more, strict=True)]
    return pad(out, ((0, 0), (0, 0), *sides))
