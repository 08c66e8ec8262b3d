"""Products of matrices with the windows of images: what convolution and its gradients come to.

A window at place p sees, at its tap t, the element `p * stride + t * dilation + start` of each
image axis, or zero where there is none. `dilation` and `start` may be negative, so that the
gradient of a convolution by its images is such a product, too (Dumoulin and Visin: A guide to
convolution arithmetic for deep learning, arXiv 1603.07285). Backends that can read windows where
the images lie compute these without writing the windows to memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, promote, run
from ...errors import ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from ..linear_algebra.products import matmul
from ..movement.joining import stack
from ..movement.padding import pad
from ..movement.shapes import permute_dims, reshape
from ..movement.slicing import slice
from ._windows import Ints, taps
from .forward import check_floats

if TYPE_CHECKING:
    from ...tensor import Tensor

_STATICS = ("kernel", "size", "stride", "dilation", "start", "groups")


@guarded
def window_product(
    a: TensorLike, x: TensorLike, kernel: Ints, size: Ints, *, stride: Ints, dilation: Ints,
    start: Ints, groups: int = 1,
) -> Tensor:  # fmt: skip
    """out[b, (g, f), p] = sum over c, t of a[g, f, (c, t)] * x[b, (g, c), window (p, t)].

    Args:
        a: (groups, features, channels * taps), a matrix for each group.
        x: (batch, groups * channels, *image).
        kernel: how many taps a window has along each image axis.
        size: how many windows there are along each image axis.
        stride, dilation, start: where windows and their taps lie; see above.

    Returns:
        (batch, groups * features, *size).

    >>> import ingle.tensor as it
    >>> from ingle.tensor.ops.convolution.window_products import window_product
    >>> x, a = it.asarray([[[1.0, 2.0, 4.0]]]), it.asarray([[[-1.0, 1.0]]])
    >>> window_product(a, x, (2,), (3,), stride=(1,), dilation=(1,), start=(-1,)).tolist()
    [[[1.0, 1.0, 2.0]]]
    """
    handle_of(x, "window_product")
    op = WINDOW_PRODUCT.op(
        kernel=tuple(kernel), size=tuple(size), stride=tuple(stride), dilation=tuple(dilation),
        start=tuple(start), groups=groups,
    )  # fmt: skip
    return run(op, promote("window_product", ("a", a), ("x", x)))[0]


def _product_rule(
    a: Aval, x: Aval, *, kernel: Ints, size: Ints, stride: Ints, dilation: Ints, start: Ints,
    groups: int,
) -> Aval:  # fmt: skip
    name = "window_product"
    channels = _channels(name, x, kernel, size, groups)
    if a.ndim != 3 or a.shape[0] != groups or a.shape[2] != channels * math.prod(kernel):
        raise ShapeError(
            f"{name}: for x {x.shape}, kernel {kernel} and groups={groups} a must be ({groups}, "
            f"features, {channels * math.prod(kernel)}), got {a.shape}"
        )
    return Aval((x.shape[0], groups * a.shape[1], *size), x.dtype)


def _product_body(
    a: Tensor, x: Tensor, *, kernel: Ints, size: Ints, stride: Ints, dilation: Ints, start: Ints,
    groups: int,
) -> Tensor:  # fmt: skip
    seen = _seen(x, kernel, size, stride, dilation, start, groups)
    return reshape(matmul(a, seen), (x.shape[0], groups * a.shape[1], *size))


WINDOW_PRODUCT = Operation(
    "window_product",
    tensors=("a", "x"),
    statics=_STATICS,
    rule=_product_rule,
    traits=Traits("contraction", family="windows", precision="low", bound="compute", layer=0),
    body=_product_body,
    public=window_product,
    samples=lambda draw: _samples(draw, False),
    reference="ingle.tensor.ops.convolution._reference:window_product",
)


@guarded
def window_outer(
    a: TensorLike, x: TensorLike, kernel: Ints, size: Ints, *, stride: Ints, dilation: Ints,
    start: Ints, groups: int = 1,
) -> Tensor:  # fmt: skip
    """out[(g, f), c, t] = sum over b, p of a[b, (g, f), p] * x[b, (g, c), window (p, t)].

    Args:
        a: (batch, groups * features, places), where places are all windows in row-major order.
        x: (batch, groups * channels, *image).
        kernel, size, stride, dilation, start: as for `window_product`.

    Returns:
        (groups * features, channels, *kernel).

    >>> import ingle.tensor as it
    >>> from ingle.tensor.ops.convolution.window_products import window_outer
    >>> x, a = it.asarray([[[1.0, 2.0, 4.0]]]), it.asarray([[[1.0, 1.0]]])
    >>> window_outer(a, x, (2,), (2,), stride=(1,), dilation=(1,), start=(0,)).tolist()
    [[[3.0, 6.0]]]
    """
    handle_of(x, "window_outer")
    op = WINDOW_OUTER.op(
        kernel=tuple(kernel), size=tuple(size), stride=tuple(stride), dilation=tuple(dilation),
        start=tuple(start), groups=groups,
    )  # fmt: skip
    return run(op, promote("window_outer", ("a", a), ("x", x)))[0]


def _outer_rule(
    a: Aval, x: Aval, *, kernel: Ints, size: Ints, stride: Ints, dilation: Ints, start: Ints,
    groups: int,
) -> Aval:  # fmt: skip
    name = "window_outer"
    channels = _channels(name, x, kernel, size, groups)
    expected = (x.shape[0], math.prod(size))
    if a.ndim != 3 or (a.shape[0], a.shape[2]) != expected or a.shape[1] % groups:
        raise ShapeError(
            f"{name}: for x {x.shape}, size {size} and groups={groups} a must be ({expected[0]}, "
            f"groups * features, {expected[1]}), got {a.shape}"
        )
    return Aval((a.shape[1], channels, *kernel), x.dtype)


def _outer_body(
    a: Tensor, x: Tensor, *, kernel: Ints, size: Ints, stride: Ints, dilation: Ints, start: Ints,
    groups: int,
) -> Tensor:  # fmt: skip
    seen = _seen(x, kernel, size, stride, dilation, start, groups)
    batch, _, rows, places = seen.shape
    features = a.shape[1] // groups
    # The images stand side by side along what is summed over.
    left = permute_dims(reshape(a, (batch, groups, features, places)), (1, 2, 0, 3))
    right = permute_dims(seen, (1, 0, 3, 2))
    out = matmul(
        reshape(left, (groups, features, batch * places)),
        reshape(right, (groups, batch * places, rows)),
    )
    return reshape(out, (groups * features, x.shape[1] // groups, *kernel))


WINDOW_OUTER = Operation(
    "window_outer",
    tensors=("a", "x"),
    statics=_STATICS,
    rule=_outer_rule,
    traits=Traits("contraction", family="windows", precision="low", bound="compute", layer=2),
    body=_outer_body,
    public=window_outer,
    samples=lambda draw: _samples(draw, True),
    reference="ingle.tensor.ops.convolution._reference:window_outer",
)


@guarded
def window_dot(
    a: TensorLike, x: TensorLike, kernel: Ints, size: Ints, *, stride: Ints, dilation: Ints,
    start: Ints,
) -> Tensor:  # fmt: skip
    """out[b, c, t] = sum over p of a[b, c, p] * x[b, c, window (p, t)].

    Summed over the batch it is the gradient of a weight that has each channel by itself.

    Args:
        a: (batch, channels, places), where places are all windows in row-major order.
        x: (batch, channels, *image).
        kernel, size, stride, dilation, start: as for `window_product`.

    Returns:
        (batch, channels, *kernel).

    >>> import ingle.tensor as it
    >>> from ingle.tensor.ops.convolution.window_products import window_dot
    >>> x, a = it.asarray([[[1.0, 2.0, 4.0]]]), it.asarray([[[1.0, 1.0]]])
    >>> window_dot(a, x, (2,), (2,), stride=(1,), dilation=(1,), start=(0,)).tolist()
    [[[3.0, 6.0]]]
    """
    handle_of(x, "window_dot")
    op = WINDOW_DOT.op(
        kernel=tuple(kernel), size=tuple(size), stride=tuple(stride), dilation=tuple(dilation),
        start=tuple(start),
    )  # fmt: skip
    return run(op, promote("window_dot", ("a", a), ("x", x)))[0]


def _dot_rule(
    a: Aval, x: Aval, *, kernel: Ints, size: Ints, stride: Ints, dilation: Ints, start: Ints
) -> Aval:
    name = "window_dot"
    _channels(name, x, kernel, size, 1)
    expected = (*x.shape[:2], math.prod(size))
    if a.shape != expected:
        raise ShapeError(
            f"{name}: for x {x.shape} and size {size} a must be {expected}, got {a.shape}"
        )
    return Aval((*x.shape[:2], *kernel), x.dtype)


def _dot_body(
    a: Tensor, x: Tensor, *, kernel: Ints, size: Ints, stride: Ints, dilation: Ints, start: Ints
) -> Tensor:
    batch, channels = x.shape[:2]
    seen = _seen(x, kernel, size, stride, dilation, start, channels)
    column = reshape(a, (batch, channels, a.shape[2], 1))
    return reshape(matmul(seen, column), (batch, channels, *kernel))


WINDOW_DOT = Operation(
    "window_dot",
    tensors=("a", "x"),
    statics=_STATICS[:-1],
    rule=_dot_rule,
    traits=Traits("contraction", precision="low", bound="compute"),
    body=_dot_body,
    public=window_dot,
    samples=lambda draw: _dot_samples(draw),
    reference="ingle.tensor.ops.convolution._reference:window_dot",
)


def _channels(name: str, x: Aval, kernel: Ints, size: Ints, groups: int) -> int:
    check_floats(name, "x", x.dtype)
    if x.ndim - 2 != len(kernel) or len(size) != len(kernel) or x.shape[1] % groups:
        raise ShapeError(
            f"{name}: x must be (batch, groups * channels, *image) with an image axis for each of "
            f"kernel {kernel} and size {size}, got {x.shape} for groups={groups}"
        )
    return x.shape[1] // groups


def _seen(
    x: Tensor, kernel: Ints, size: Ints, stride: Ints, dilation: Ints, start: Ints, groups: int
) -> Tensor:
    """The windows of images: (batch, groups, channels * taps, places)."""
    firsts, widths = [], []
    for n, k, m, s, d, begin in zip(
        x.shape[2:], kernel, size, stride, dilation, start, strict=True
    ):
        low = begin + min(0, d * (k - 1))
        high = begin + max(0, d * (k - 1)) + (m - 1) * s
        widths.append((max(0, -low), max(0, high - n + 1)))
        firsts.append(begin + max(0, -low))
    image = pad(x, ((0, 0), (0, 0), *widths))
    batch, channels = x.shape[0], x.shape[1] // groups
    places = math.prod(size)
    parts = []
    for tap in taps(kernel):
        first = [f + t * d for f, t, d in zip(firsts, tap, dilation, strict=True)]
        part = slice(image, (0, 0, *first), (*x.shape[:2], *size), (1, 1, *stride))
        parts.append(reshape(part, (batch, groups, channels, places)))
    return reshape(stack(parts, axis=3), (batch, groups, channels * len(parts), places))


_CASES: tuple[tuple[Any, ...], ...] = (
    # image, channels and features of a group, groups, kernel, size, stride, dilation, start
    ((6, 7), 3, 5, 1, (3, 3), (6, 7), (1, 1), (1, 1), (-1, -1)),
    ((8, 5), 1, 2, 2, (2, 3), (4, 3), (2, 2), (1, 1), (0, -1)),
    ((4, 4), 2, 3, 1, (3, 2), (6, 5), (1, 1), (-1, -1), (0, 0)),
    ((17,), 2, 2, 1, (3,), (6,), (2,), (3,), (-2,)),
    ((3, 4, 5), 2, 2, 1, (2, 1, 2), (3, 2, 2), (1, 2, 3), (1, 1, 2), (-1, 1, 0)),
)


def _samples(draw: Draw, outer: bool) -> Iterator[Sample]:
    if not draw.dtype.is_inexact:
        return
    for image, channels, features, groups, kernel, size, stride, dilation, start in _CASES:
        n = draw.size(2)
        x = draw.array((n, groups * channels, *image))
        shape = (groups, features, channels * math.prod(kernel))
        if outer:
            shape = (n, groups * features, math.prod(size))
        more = {"stride": stride, "dilation": dilation, "start": start, "groups": groups}
        yield Sample((draw.array(shape), x, kernel, size), more, condition=32)


def _dot_samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_inexact:
        return
    for image, channels, _, groups, kernel, size, stride, dilation, start in _CASES:
        n = draw.size(2)
        x = draw.array((n, groups * channels, *image))
        more = {"stride": stride, "dilation": dilation, "start": start}
        a = draw.array((*x.shape[:2], math.prod(size)))
        yield Sample((a, x, kernel, size), more, condition=32)
