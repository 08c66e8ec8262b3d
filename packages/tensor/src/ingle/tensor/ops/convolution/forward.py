"""Convolution of any number of image axes, of which conv1d, conv2d and conv3d are cases."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, promote, run, wrap
from ...dtypes import DType
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._batching import conv_batch
from .._guarding import guarded
from .._rules import INEXACT, as_int, conj
from ..elementwise.cast import astype
from ..linear_algebra.products import matmul
from ..movement.padding import pad
from ..movement.shapes import permute_dims, reshape
from ._windows import Ints, Pairs, PerAxis, out_sizes, padded, per_axis, seen_by, taps

if TYPE_CHECKING:
    from ...tensor import Tensor

_BORDERS = ("reflect", "replicate", "circular")
Padding = int | str | Sequence[int] | Sequence[tuple[int, int]]


@guarded
def conv(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> Tensor:
    """Slides a kernel over images of any rank: at each place a weighted sum of what it covers.

    out[b, o, p] = bias[o] + sum over c, t of weight[o, c, t] * x[b, c, p * stride + t * dilation],
    which is a cross-correlation, as everywhere in deep learning.

    Args:
        x: (batch, channels, *size), or without the batch.
        weight: (features, channels / groups, *kernel); its rank says how many image axes there are.
        bias: (features,), added to the result.
        stride: how far the window moves, for all image axes or for each.
        padding: zeros around the image: a number for all sides, one for each axis, a pair
            (before, after) for each axis, `"valid"` for none, or `"same"` for as many as keep
            the size (for stride 1).
        dilation: the distance between the elements that a window sees.
        groups: into how many groups channels and features are cut; a group of features sees only
            its group of channels.
        padding_mode: what the padding is made of: `"zeros"`, `"reflect"`, `"replicate"` or
            `"circular"`; see `pad`.

    Returns:
        (batch, features, *out) with out = (size + padding - dilation * (kernel - 1) - 1) // stride
        + 1, in the promoted dtype.

    Raises:
        ShapeError: ranks, channels or groups do not fit, or the kernel is larger than the image.

    >>> import ingle.tensor as it
    >>> it.conv(it.ones((1, 1, 4, 4)), it.ones((2, 1, 3, 3))).shape
    (1, 2, 2, 2)
    """
    rank = len(handle_of(weight, "conv", "weight").shape) - 2
    if rank < 1:
        raise ShapeError(
            f"conv: weight must be (features, channels / groups, *kernel), got "
            f"{handle_of(weight, 'conv', 'weight').shape}"
        )
    options = (stride, padding, dilation, groups, padding_mode)
    return _conv(f"conv{rank}d", rank, x, weight, bias, *options)


def _rule(
    x: Aval, weight: Aval, *, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Aval:
    name = f"conv{x.ndim - 2}d"
    check_floats(name, "x", x.dtype)
    features, channels = weight.shape[:2]
    if x.shape[1] != channels * groups:
        last = x.shape[-1] == channels * groups
        raise ShapeError(
            f"{name}: x {x.shape} has {x.shape[1]} channels, but weight {weight.shape} with "
            f"groups={groups} takes {channels} * {groups} = {channels * groups}"
            + ("; channels come before sizes: moveaxis(x, -1, 1)" if last else "")
        )
    if features % groups:
        raise ShapeError(
            f"{name}: the {features} features of weight {weight.shape} cannot be cut into "
            f"groups={groups} of equal size"
        )
    out = out_sizes(name, x.shape[2:], weight.shape[2:], stride, padding, dilation, "weight")
    return Aval((x.shape[0], features, *out), x.dtype)


def _body(
    x: Tensor, weight: Tensor, *, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Tensor:
    """One matrix product for each tap of the kernel, with all that this tap sees."""
    if weight.shape[1] == 1 and groups == weight.shape[0] > 1:
        return _depthwise(x, weight, stride, padding, dilation)
    kernel = weight.shape[2:]
    out = out_sizes("conv", x.shape[2:], kernel, stride, padding, dilation)
    image = padded(x, padding)
    batch, features, channels = x.shape[0], weight.shape[0] // groups, weight.shape[1]
    places = 1
    for n in out:
        places *= n
    # (taps, groups, features, channels): a matrix for each tap and group.
    rank = len(kernel)
    by_tap = permute_dims(
        reshape(weight, (groups, features, channels, *kernel)), (*range(3, 3 + rank), 0, 1, 2)
    )
    total: Tensor | None = None
    for place, tap in enumerate(taps(kernel)):
        seen = seen_by(image, tap, out, stride, dilation)
        flat = reshape(seen, (batch, groups, channels, places))
        product = matmul(_matrix(by_tap, place, rank), flat)
        total = product if total is None else total + product
    if total is None:
        raise ShapeError(f"conv: the kernel of weight {weight.shape} has no elements")
    return reshape(total, (batch, groups * features, *out))


def _depthwise(
    x: Tensor, weight: Tensor, stride: Ints, padding: Pairs, dilation: Ints
) -> Tensor:  # fmt: skip
    """Each channel by itself: products of numbers, which one kernel adds up, or a few if there are
    many."""
    from ..movement.slicing import slice_axis

    kernel, dtype = weight.shape[2:], x.dtype
    out = out_sizes("conv", x.shape[2:], kernel, stride, padding, dilation)
    image = padded(x, padding)
    if dtype.itemsize == 2:  # summed in float32, rounded once
        image, weight = image.astype("float32"), weight.astype("float32")
    # (taps, channels, 1, ...): what a tap multiplies all images by.
    columns = reshape(weight, (weight.shape[0], math.prod(kernel)))
    factors = reshape(permute_dims(columns, (1, 0)), (*columns.shape[::-1], *(1,) * len(kernel)))
    shares = [
        slice_axis(factors, 0, place, 1) * seen_by(image, tap, out, stride, dilation)
        for place, tap in enumerate(taps(kernel))
    ]
    total = shares[0]
    for share in shares[1:]:
        total = total + share
    return total.astype(dtype)


def _matrix(by_tap: Tensor, place: int, rank: int) -> Tensor:
    from ..movement.slicing import slice_axis

    matrices = by_tap.shape[rank:]
    flat = reshape(by_tap, (math.prod(by_tap.shape[:rank]), *matrices))
    return reshape(slice_axis(flat, 0, place, 1), matrices)


def _input_rule(
    g: Tensor, weight: Tensor, x_aval: Aval, stride: Ints, padding: Pairs, dilation: Ints,
    groups: int,
) -> Tensor:  # fmt: skip
    from .gradients import input_gradient

    return input_gradient(g, conj(weight), x_aval.shape[2:], stride, padding, dilation, groups)


def _weight_rule(
    g: Tensor, x: Tensor, weight_aval: Aval, stride: Ints, padding: Pairs, dilation: Ints,
    groups: int,
) -> Tensor:  # fmt: skip
    from .gradients import weight_gradient

    return weight_gradient(conj(x), g, weight_aval.shape[2:], stride, padding, dilation, groups)


def _samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_inexact:
        return
    shapes: tuple[tuple[Ints, Ints, dict[str, Any]], ...] = (
        ((2, 3, 8, 8), (5, 3, 3, 3), {}),
        ((2, 1, 8, 5), (3, 1, 5, 5), {"padding": 2}),
        ((3, 2, 17), (2, 2, 3), {"stride": 2, "padding": ((0, 1),), "dilation": 3}),
        ((2, 4, 5, 8), (2, 2, 2, 3), {"groups": 2, "stride": (2, 1), "padding": (1, 2)}),
        ((1, 3, 5, 5), (3, 1, 3, 3), {"groups": 3, "padding": "same"}),
        ((1, 2, 3, 5, 3), (3, 2, 2, 2, 1), {"padding": (1, 0, 0), "dilation": (1, 2, 1)}),
        ((0, 2, 5, 5), (3, 2, 3, 3), {}),
    )
    for x, weight, more in shapes:
        yield Sample((draw.array(x), draw.array(weight)), more, condition=8)
    yield Sample((draw.array((2, 2, 5)), draw.array((3, 2, 1)), draw.array((3,))), condition=8)


CONV = Operation(
    "conv",
    tensors=("x", "weight"),
    statics=("stride", "padding", "dilation", "groups"),
    rule=_rule,
    traits=Traits("contraction", family="conv", precision="low", bound="compute", layer=1),
    vjp={"x": _input_rule, "weight": _weight_rule},
    body=_body,
    batch=conv_batch,
    public=conv,
    samples=_samples,
    reference="ingle.tensor.ops.convolution._reference:conv",
)


@guarded
def conv1d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> Tensor:
    """Slides a kernel over sequences; see `conv` for the arguments.

    Args:
        x: (batch, channels, length), or without the batch.
        weight: (features, channels / groups, kernel).

    >>> import ingle.tensor as it
    >>> x = it.asarray([[[1.0, 2.0, 4.0]]])
    >>> it.conv1d(x, it.asarray([[[-1.0, 1.0]]])).tolist()
    [[[1.0, 2.0]]]
    """
    options = (stride, padding, dilation, groups, padding_mode)
    return _conv("conv1d", 1, x, weight, bias, *options)


@guarded
def conv2d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> Tensor:
    """Slides a kernel over pictures; see `conv` for the arguments.

    Args:
        x: (batch, channels, height, width), or without the batch.
        weight: (features, channels / groups, kernel height, kernel width).

    >>> import ingle.tensor as it
    >>> it.conv2d(it.ones((8, 1, 28, 28)), it.ones((32, 1, 5, 5)), padding="same").shape
    (8, 32, 28, 28)
    """
    options = (stride, padding, dilation, groups, padding_mode)
    return _conv("conv2d", 2, x, weight, bias, *options)


@guarded
def conv3d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> Tensor:
    """Slides a kernel over volumes; see `conv` for the arguments.

    Args:
        x: (batch, channels, depth, height, width), or without the batch.
        weight: (features, channels / groups, *kernel) with a kernel of three sizes.

    >>> import ingle.tensor as it
    >>> it.conv3d(it.ones((1, 2, 4, 4, 4)), it.ones((3, 2, 2, 2, 2)), stride=2).shape
    (1, 3, 2, 2, 2)
    """
    options = (stride, padding, dilation, groups, padding_mode)
    return _conv("conv3d", 3, x, weight, bias, *options)


def _conv(
    name: str, rank: int, x: TensorLike, weight: TensorLike, bias: TensorLike | None,
    stride: PerAxis, padding: Padding, dilation: PerAxis, groups: int, padding_mode: str,
) -> Tensor:  # fmt: skip
    image, kernel = handle_of(x, name), handle_of(weight, name, "weight")
    if len(kernel.shape) != rank + 2 or len(image.shape) not in (rank + 1, rank + 2):
        raise ShapeError(
            f"{name}: needs x of {rank + 2} axes (batch, channels, *size) and weight of {rank + 2} "
            f"(features, channels / groups, *kernel), got {image.shape} and {kernel.shape}"
        )
    if len(image.shape) == rank + 1:
        one = reshape(x, (1, *image.shape))
        options = (stride, padding, dilation, groups, padding_mode)
        out = _conv(name, rank, one, weight, bias, *options)
        return reshape(out, out.shape[1:])
    attributes = window_attributes(name, kernel.shape[2:], stride, padding, dilation, groups)
    x, attributes = _with_border(name, x, padding_mode, attributes)
    if bias is None:
        return run(CONV.op(**attributes), promote(name, ("x", x), ("weight", weight)))[0]
    check_bias(name, bias, kernel.shape[0])
    a, b, c = promote(name, ("x", x), ("weight", weight), ("bias", bias))
    shift = reshape(wrap(c), (kernel.shape[0], *(1,) * rank))  # type: ignore[arg-type]
    out = run(CONV.op(**attributes), (a, b))[0]
    return out + astype(shift, out.dtype)  # which in mixed precision is the narrower one


def check_bias(name: str, bias: TensorLike, features: int) -> None:
    """Raises `ShapeError` unless the bias has one value for each feature."""
    shape = handle_of(bias, name, "bias").shape
    if shape != (features,):
        raise ShapeError(
            f"{name}: bias must have one value for each of the {features} features of weight, "
            f"got shape {shape}"
        )


def _with_border(
    name: str, x: TensorLike, mode: str, attributes: dict[str, Any]
) -> tuple[TensorLike, dict[str, Any]]:
    """The images with a border that is not of zeros, and the attributes without padding."""
    if mode == "zeros":
        return x, attributes
    if mode not in _BORDERS:
        raise ArgumentError(
            f"{name}: padding_mode={mode!r} is none of 'zeros', {', '.join(map(repr, _BORDERS))}"
        )
    pairs = attributes["padding"]
    bordered = pad(x, ((0, 0), (0, 0), *pairs), mode=mode)  # type: ignore[arg-type]
    return bordered, {**attributes, "padding": ((0, 0),) * len(pairs)}


def window_attributes(
    name: str, kernel: Ints, stride: object, padding: object, dilation: object, groups: object
) -> dict[str, Any]:
    """The static attributes of a convolution from what the user wrote."""
    rank = len(kernel)
    count = as_int(groups, name, "groups")
    if count < 1:
        raise ArgumentError(f"{name}: groups must be at least 1, got {count}")
    steps = per_axis(stride, rank, name, "stride")
    spread = per_axis(dilation, rank, name, "dilation")
    return {
        "stride": steps,
        "padding": _pairs(name, padding, kernel, steps, spread),
        "dilation": spread,
        "groups": count,
    }


def _pairs(name: str, padding: object, kernel: Ints, stride: Ints, dilation: Ints) -> Pairs:
    rank = len(kernel)
    named = padding if isinstance(padding, str) else None
    if named == "valid":
        return ((0, 0),) * rank
    if named == "same":
        if any(s != 1 for s in stride):
            raise ArgumentError(
                f"{name}: padding='same' keeps the size only for stride 1, got stride={stride}; "
                "give the padding as numbers"
            )
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return tuple((t // 2, t - t // 2) for t in total)
    if isinstance(padding, str):
        raise ArgumentError(
            f"{name}: padding must be 'same', 'valid' or numbers, got {padding!r}"
        )  # fmt: skip
    if isinstance(padding, Sequence) and any(isinstance(p, Sequence) for p in padding):
        if len(padding) != rank:
            raise ArgumentError(
                f"{name}: padding needs a pair for each of the {rank} image axes, got {padding!r}"
            )
        return tuple(per_axis(tuple(p), 2, name, "a pair of padding", least=0) for p in padding)
    return tuple((p, p) for p in per_axis(padding, rank, name, "padding", least=0))


def check_floats(name: str, argument: str, dtype: DType) -> None:
    """Refuses images of integers or bools."""
    if dtype.kind not in INEXACT:
        raise DTypeError(
            f"{name}: {argument} must be floats, got {dtype}; cast with "
            f"{argument}.astype('float32')"
        )
