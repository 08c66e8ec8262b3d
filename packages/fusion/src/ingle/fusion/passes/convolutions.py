"""Convolutions and their gradients as products of matrices with the windows of images.

A device that has a template for such products is asked before a convolution is written out in terms
of its body. Forward, the gradient of the images and that of the weight are then one operation of
the graph each, with what follows as its epilogue:

- forward: the weight times the windows of the images;
- gradient of the images: the weight, features and channels exchanged, times the windows of g, whose
  taps go backwards. With a stride, places between the windows' see other taps: each such *phase*
  is a product of its own with a part of the weight, so that nothing is multiplied by zeros. Where
  the images are small beside the weight, or have few channels, the weight stays as
  it lies: its transpose times g gives what each tap adds;
- gradient of the weight: g times the windows of the images, over all places. Where that is a small
  matrix, *pieces* of the batch are summed side by side, and then these. How many pieces there are
  follows from the problem alone, and so do the bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.contract import Aval
from ingle.tensor.dispatch import run1
from ingle.tensor.operation import Op
from ingle.tensor.ops.convolution import window_products as products
from ingle.tensor.ops.convolution._windows import cropped, padded, padded_sizes, put_back
from ingle.tensor.ops.convolution.forward import CONV
from ingle.tensor.ops.convolution.gradients import CONV_INPUT_GRADIENT, CONV_WEIGHT_GRADIENT
from ingle.tensor.ops.convolution.unfolding import FOLD

from .taps_in_padding import bands, pays

SIDE_BY_SIDE = 8
"""Parts of a gradient of a weight that are worth computing side by side."""
COLUMNS = 64
"""Columns of a matrix that are not worth dividing."""
FEW_WINDOWS, FEW_FOR_MANY, MANY_ROWS = 64, 256, 128
"""Windows of an image from which on it is worth a product of its own; the second number where the
left matrix has so many rows that making the windows costs little beside the product.
"""
MOST_AXES = 3
"""Image axes that windows have at most."""
MOST_TAPS = 27
"""Taps that are added one by one: each is some operations of the graph."""
_BATCH_SECOND = 1, 0, 2, 3, 4


class _Costs(NamedTuple):
    """When a gradient of images is one product whose taps are added up, not one with windows.

    Attributes:
        adding, packing: multiplications in whose time an element is added to an image, and one of a
            window is packed or copied.
        rows: that keep the multipliers busy: fewer take as long.
        thirds: of the time of the product with windows up to which adding is chosen.
    """

    adding: int
    packing: int
    rows: int
    thirds: int


TAP_BY_TAP = _Costs(330, 24, 16, 2)
FOLDED = _Costs(60, 12, 8, 3)
"""By some operations a tap, and by the one kernel that adds up all taps."""


class WindowProblem(NamedTuple):
    """What a device is asked about a product with windows.

    Attributes:
        dtype: of the operands.
        rank: how many image axes there are.
        groups: independent products, the batch not counted.
        m: rows of the left matrix, for each group.
        n: its windows, or their taps in all channels of a group.
        k: what is summed over, the batch not counted.
    """

    dtype: str
    rank: int
    groups: int
    m: int
    n: int
    k: int


def window_problem(op: Op, avals: Sequence[Aval]) -> WindowProblem | None:
    """The product that a convolution or one of its gradients comes to; None for all else."""
    of = _BODIES.get(op.operation.name)
    if of is None or any(0 in a.shape for a in avals):
        return None
    if op.operation is CONV_WEIGHT_GRADIENT:
        x, g = avals
        groups, kernel = op.attributes["groups"], op.attributes["kernel"]
        taps = x.shape[1] // groups * math.prod(kernel)
        sizes = g.shape[1] // groups, taps, math.prod(g.shape[2:])
    elif op.operation is CONV:
        _, weight = avals
        groups, kernel = op.attributes["groups"], weight.shape[2:]
        windows = math.prod(op.operation.rule(*avals, **op.attributes).shape[2:])  # type: ignore[union-attr]
        sizes = weight.shape[0] // groups, windows, math.prod(weight.shape[1:])
    else:
        _, weight = avals
        groups, kernel = op.attributes["groups"], weight.shape[2:]
        size = op.attributes["size"]
        taps = weight.shape[0] // groups * math.prod(kernel)
        sizes = weight.shape[1], math.prod(size), taps
        if 0 in size:
            return None
    return WindowProblem(avals[0].dtype.name, len(kernel), groups, *sizes)


def problem_of(op: Op, avals: Sequence[Aval]) -> WindowProblem:
    """The problem of a product with windows."""
    a, x = avals
    groups, kernel = op.attributes["groups"], op.attributes["kernel"]
    places, channels = math.prod(op.attributes["size"]), x.shape[1] // groups
    taps = channels * math.prod(kernel)
    if op.operation is products.WINDOW_PRODUCT:
        return WindowProblem(a.dtype.name, len(kernel), groups, a.shape[1], places, taps)
    return WindowProblem(a.dtype.name, len(kernel), groups, a.shape[1] // groups, taps, places)


def by_windows(op: Op, avals: Sequence[Aval], folds: bool = False) -> Callable[..., Tensor] | None:
    """A convolution or a gradient in terms of products with windows.

    None where that takes the body first: where both stride and dilation are more than 1.

    Args:
        folds: whether the device adds up windows in one kernel.
    """
    if op.operation is CONV_INPUT_GRADIENT:
        steps = zip(op.attributes["stride"], op.attributes["dilation"], strict=True)
        if any(s > 1 and d > 1 for s, d in steps):
            return None
        return partial(_of_images, folds=folds, **op.attributes)
    body = _BODIES[op.operation.name]
    return lambda *tensors: body(*tensors, **op.attributes)


def _forward(
    x: Tensor, weight: Tensor, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Tensor:
    features, kernel = weight.shape[0] // groups, weight.shape[2:]
    out = tuple(
        [
            (n + low + high - d * (k - 1) - 1) // s + 1
            for n, k, s, (low, high), d in zip(
                x.shape[2:], kernel, stride, padding, dilation, strict=True
            )
        ]
    )
    matrices = it.reshape(weight, (groups, features, math.prod(weight.shape[1:])))
    start = tuple([-low for low, _ in padding])
    return _product(matrices, x, kernel, out, stride, dilation, start, groups)


def _product(
    matrices: Tensor, x: Tensor, kernel: Ints, size: Ints, stride: Ints, spread: Ints, start: Ints,
    groups: int,
) -> Tensor:  # fmt: skip
    """A product with the windows of images, without the taps in padding where these are many."""
    first = zip(x.shape[2:], kernel, size, stride, spread, start, strict=True)
    divided = bands(*next(first))
    if len(divided) == 1 or not pays(divided, kernel[0], math.prod(size[1:])):
        return _whole_product(matrices, x, kernel, size, stride, spread, start, groups)
    features, channels = matrices.shape[1], x.shape[1] // groups
    weight = it.reshape(matrices, (groups, features, channels, kernel[0], math.prod(kernel[1:])))
    parts = []
    for band in divided:
        windows, seen = (band.windows, *size[1:]), (band.taps, *kernel[1:])
        if not band.taps:
            shape = (x.shape[0], groups * features, *windows)
            parts.append(it.zeros(shape, dtype=x.dtype, device=x.device))
            continue
        part = weight[:, :, :, band.tap : band.tap + band.taps]
        part = it.reshape(part, (groups, features, channels * math.prod(seen)))
        begin = (start[0] + band.first * stride[0] + band.tap * spread[0], *start[1:])
        parts.append(_whole_product(part, x, seen, windows, stride, spread, begin, groups))
    return it.concat(parts, axis=2)


def _whole_product(
    matrices: Tensor, x: Tensor, kernel: Ints, size: Ints, stride: Ints, spread: Ints, start: Ints,
    groups: int,
) -> Tensor:  # fmt: skip
    """A product with the windows of images; with those of all images at once, if each has few.

    The batch is then one more image axis, so that the left matrix is read once and not for each
    image. The sums are the same.
    """
    if not _at_once(x, kernel, size, matrices.shape[1]):
        return products.window_product(
            matrices, x, kernel, size, stride=stride, dilation=spread, start=start, groups=groups
        )
    made = products.window_product(
        matrices, _side_by_side(x), (1, *kernel), (x.shape[0], *size), stride=(1, *stride),
        dilation=(1, *spread), start=(0, *start), groups=groups,
    )  # fmt: skip
    return it.permute_dims(it.reshape(made, made.shape[1:]), _BATCH_SECOND[: made.ndim - 1])


def _at_once(x: Tensor, kernel: Ints, size: Ints, rows: int) -> bool:
    """Whether the windows of all images are the columns of one matrix."""
    few = FEW_FOR_MANY if rows >= MANY_ROWS else FEW_WINDOWS
    return len(kernel) < MOST_AXES and x.shape[0] > 1 and math.prod(size) < few


def _side_by_side(x: Tensor) -> Tensor:
    """A batch of images as one image with an axis more; a view."""
    turned = it.permute_dims(x, _BATCH_SECOND[: x.ndim])
    return it.reshape(turned, (1, *turned.shape))


def _of_weight(
    x: Tensor, g: Tensor, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Tensor:
    batch, channels = x.shape[:2]
    features, out = g.shape[1], g.shape[2:]
    pieces = _pieces(batch, groups * -(-channels // groups * math.prod(kernel) // COLUMNS))
    rest = batch // pieces
    # Each piece takes every so many images, so that its channels are like those of a group.
    x = it.reshape(x, (rest, pieces * channels, *x.shape[2:]))
    g = it.reshape(g, (rest, pieces * features, math.prod(out)))
    start = tuple([-low for low, _ in padding])
    made = products.window_outer(
        g, x, kernel, out, stride=stride, dilation=dilation, start=start, groups=pieces * groups
    )
    if pieces == 1:
        return made
    return it.sum(it.reshape(made, (pieces, features, channels // groups, *kernel)), axis=0)


def _pieces(batch: int, parts: int) -> int:
    """Into how many pieces a batch is cut whose gradient has so many parts already."""
    for pieces in range(1, batch + 1):
        if batch % pieces == 0 and (pieces * parts >= SIDE_BY_SIDE or pieces == batch):
            return pieces
    return 1


class _Phase(NamedTuple):
    """Places of an image axis that see the same taps of a kernel.

    Attributes:
        first: the first of these taps; every `stride`th follows.
        taps: how many there are.
        start: where the first place's first tap reads.
    """

    first: int
    taps: int
    start: int


def _phases(kernel: int, stride: int, low: int) -> list[_Phase]:
    """The phases of an image axis, in the order of their first places."""
    found = []
    for place in range(stride):
        first = (place + low) % stride
        found.append(_Phase(first, max(0, -((first - kernel) // stride)), (place + low) // stride))
    return found


def _of_images(
    g: Tensor, weight: Tensor, size: Ints, stride: Ints, padding: Pairs, dilation: Ints,
    groups: int, folds: bool,
) -> Tensor:  # fmt: skip
    kernel = weight.shape[2:]
    # Of half types the sums would be rounded.
    wide = weight.dtype.itemsize > 2
    folds = folds and wide and len(kernel) <= 2 and all(s == 1 for s in stride)
    may_add = folds or (wide and math.prod(kernel) <= MOST_TAPS)
    if may_add and _adding_pays(g, weight, size, stride, groups, FOLDED if folds else TAP_BY_TAP):
        return _added_up(g, weight, size, stride, padding, dilation, groups, folds)
    lows = [low for low, _ in padding]
    if all(s == 1 for s in stride):
        spread = tuple([-d for d in dilation])
        return _exchanged(g, weight, size, spread, tuple(lows), groups)
    phases = [_phases(*of) for of in zip(kernel, stride, lows, strict=True)]
    counts = tuple([-(-n // s) for n, s in zip(size, stride, strict=True)])
    parts = {}
    for at in product(*[range(s) for s in stride]):
        chosen = [of[k] for of, k in zip(phases, at, strict=True)]
        if all(p.taps for p in chosen):
            begins = (0, 0, *[p.first for p in chosen])
            sizes = (*weight.shape[:2], *[p.taps for p in chosen])
            part = it.slice(weight, begins, sizes, (1, 1, *stride))
            spread = tuple([-d if s == 1 else -1 for s, d in zip(stride, dilation, strict=True)])
            start = tuple([p.start for p in chosen])
            parts[at] = _exchanged(g, part, counts, spread, start, groups)
        else:
            shape = (g.shape[0], weight.shape[1] * groups, *counts)
            parts[at] = it.zeros(shape, dtype=g.dtype, device=g.device)
    whole = _interleaved(parts, stride, counts)
    shape = (g.shape[0], weight.shape[1] * groups, *size)
    return whole if whole.shape == shape else it.slice(whole, (0,) * whole.ndim, shape)


def _adding_pays(
    g: Tensor, weight: Tensor, size: Ints, stride: Ints, groups: int, costs: _Costs
) -> bool:
    """Whether what each tap adds costs less than the windows of g.

    Where windows are few, moving the weight costs more than anything. Else windows of all places
    are packed for as many rows as there are channels, and what taps add goes through memory.
    """
    features, channels, out = weight.shape[0] // groups, weight.shape[1], math.prod(g.shape[2:])
    if 2 * g.shape[0] * out <= features:
        return True
    taps = math.prod(weight.shape[2:])
    rows = max(channels, costs.rows)
    windows = math.prod(size) * features * taps // math.prod(stride) * (rows + costs.packing)
    added = out * channels * taps * (features + costs.adding)
    return 3 * added <= costs.thirds * windows


def _added_up(
    g: Tensor, weight: Tensor, size: Ints, stride: Ints, padding: Pairs, dilation: Ints,
    groups: int, folds: bool,
) -> Tensor:  # fmt: skip
    """The gradient of images as one product for all taps, which are then added where they lie."""
    batch, features, *out = g.shape
    channels, kernel = weight.shape[1], weight.shape[2:]
    taps = channels * math.prod(kernel)
    matrices = it.reshape(weight, (groups, features // groups, taps))
    columns = it.reshape(g, (batch, groups, features // groups, math.prod(out)))
    columns = it.reshape(
        it.permute_dims(columns, (1, 2, 0, 3)), (groups, features // groups, batch * math.prod(out))
    )
    made = it.permute_dims(matrices, (0, 2, 1)) @ columns
    if math.prod(out) == 1 and all(d == 1 for d in dilation):  # Nothing falls on each other.
        taken = it.reshape(made, (groups * channels, *kernel, batch))
        taken = it.permute_dims(taken, (1 + len(kernel), *range(1 + len(kernel))))
        around = zip(size, kernel, padding, strict=True)
        return padded(taken, tuple([(-low, n + low - k) for n, k, (low, _) in around]))
    if folds:
        columns = it.reshape(made, (groups * taps, batch, math.prod(out)))
        op = FOLD.op(size=size, kernel=kernel, stride=stride, padding=padding, dilation=dilation)
        return run1(op, it.permute_dims(columns, (1, 0, 2))._handle)
    parts = it.reshape(made, (groups * channels, math.prod(kernel), batch, *out))
    whole = padded_sizes(size, padding)
    total = None
    for number, tap in enumerate(product(*map(range, kernel))):
        part = it.permute_dims(parts[:, number], _BATCH_SECOND[: 2 + len(out)])
        placed = put_back(part, tap, whole, stride, dilation)
        total = placed if total is None else total + placed
    assert total is not None, "a kernel has taps"
    return cropped(total, padding)


def _exchanged(
    g: Tensor, weight: Tensor, size: Ints, spread: Ints, start: Ints, groups: int
) -> Tensor:
    """The gradient of images for windows without a stride."""
    features, channels, kernel = weight.shape[0] // groups, weight.shape[1], weight.shape[2:]
    taps = math.prod(kernel)
    of_groups = it.reshape(weight, (groups, features, channels, taps))
    matrices = it.reshape(
        it.permute_dims(of_groups, (0, 2, 1, 3)), (groups, channels, features * taps)
    )
    ones = (1,) * len(kernel)
    return _product(matrices, g, kernel, size, ones, spread, start, groups)


def _interleaved(parts: dict[Ints, Tensor], stride: Ints, counts: Ints) -> Tensor:
    """Images whose places take turns, along the last image axis first."""
    sizes = list(counts)
    for axis in reversed(range(len(stride))):
        joined = {}
        for at in dict.fromkeys([key[:axis] for key in parts]):
            taken = [parts[(*at, k)] for k in range(stride[axis])]
            inside = it.stack(taken, axis=3 + axis) if len(taken) > 1 else taken[0]
            sizes[axis] = counts[axis] * stride[axis]
            joined[at] = it.reshape(inside, (*inside.shape[:2], *sizes))
        parts = joined
    return parts[()]


Ints = tuple[int, ...]
Pairs = tuple[Ints, ...]
_BODIES: dict[str, Callable[..., Tensor]] = {
    CONV.name: _forward,
    CONV_INPUT_GRADIENT.name: _of_images,
    CONV_WEIGHT_GRADIENT.name: _of_weight,
}
