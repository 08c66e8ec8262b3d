"""Convolutions of each channel by itself, in terms of what kernels have for these.

Forward and the gradient of the images are kernels themselves. The gradient of the weight is, for
each channel of each image, the sums of what taps see; these are then summed over the batch. Where
two or three features are made of each channel, too few for the rows of a product, the images are
repeated for these, so that there is a channel for each feature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.contract import Aval
from ingle.tensor.dispatch import run2
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.operation import Op
from ingle.tensor.ops.convolution import window_products as products
from ingle.tensor.ops.convolution.forward import CONV
from ingle.tensor.ops.convolution.gradients import CONV_INPUT_GRADIENT, CONV_WEIGHT_GRADIENT

ROOM = 4096
"""Elements of an image that the rows of windows which a kernel sums at once may span."""
MOST_IN_A_ROW = 64
"""Taps of a row of them that a kernel sums."""
BEHIND = 64
"""Places behind a row's end that a kernel may see."""
MOST_FEATURES = 3
"""Features of a channel for each of which it is repeated."""

Body = Callable[..., Tensor]


def sums_taps(op: Op, avals: Sequence[Aval]) -> bool:
    """Whether a device's nest has room for the windows of a `window_dot`."""
    given = op.attributes
    kernel, size = given["kernel"], given["size"]
    if len(kernel) > 2 or kernel[-1] > MOST_IN_A_ROW or 0 in avals[1].shape[2:]:
        return False
    each = zip(size, kernel, given["stride"], given["dilation"], strict=True)
    spans = [(s, abs(d) * (k - 1)) for _, k, s, d in each]
    step, far = spans[-1]
    across = (size[-1] - 1) * step + far + 1 + BEHIND * step
    down = 1 if len(spans) == 1 else spans[0][1] + 1
    return avals[0].dtype.name in ("float32", "float64") and down * across <= ROOM


def by_channels(op: Op, avals: Sequence[Aval]) -> Body | None:
    """A convolution, or a gradient, of channels by themselves, as kernels have it; None for others.

    None also where it is one of those kernels, and where a device's nest has no room for the sums
    of a weight's gradient.
    """
    made = _KINDS.get(op.operation.name)
    if made is None or any(0 in a.shape for a in avals) or not avals[0].dtype.is_floating:
        return None
    return made(avals, op.attributes)


def _forward(avals: Sequence[Aval], given: Mapping[str, Any]) -> Body | None:
    x, weight = avals
    if not _few_features(given["groups"], x.shape[1], weight.shape[0]):
        return None
    op = CONV.op(**{**given, "groups": weight.shape[0]})

    def body(x: Tensor, weight: Tensor) -> Tensor:
        return run2(op, _repeated(x, weight.shape[0])._handle, weight._handle)

    return body


def _of_images(avals: Sequence[Aval], given: Mapping[str, Any]) -> Body | None:
    g, weight = avals
    groups, features = given["groups"], weight.shape[0]
    if not _few_features(groups, groups * weight.shape[1], features):
        return None
    op = CONV_INPUT_GRADIENT.op(**{**given, "groups": features})
    wide = _wide(g)

    def body(g: Tensor, weight: Tensor) -> Tensor:
        parts = run2(op, g.astype(wide)._handle, weight.astype(wide)._handle)
        each = it.reshape(parts, (g.shape[0], groups, features // groups, *parts.shape[2:]))
        return it.sum(each, axis=2).astype(g.dtype)

    return body


def _of_weight(avals: Sequence[Aval], given: Mapping[str, Any]) -> Body | None:
    (x, g), channels = avals, avals[1].shape[1]
    itself = given["groups"] == x.shape[1] == channels > 1
    if not itself and not _few_features(given["groups"], x.shape[1], channels):
        return None
    start = tuple([-low for low, _ in given["padding"]])
    dot = products.WINDOW_DOT.op(
        kernel=given["kernel"], size=g.shape[2:], stride=given["stride"],
        dilation=given["dilation"], start=start,
    )  # fmt: skip
    places = (*g.shape[:2], math.prod(g.shape[2:]))
    wide = _wide(x)
    made = as_dtype(wide)
    if not sums_taps(dot, (Aval(places, made), Aval((*g.shape[:2], *x.shape[2:]), made))):
        return None

    def body(x: Tensor, g: Tensor) -> Tensor:
        image = x if itself else _repeated(x, channels)
        each = it.reshape(g.astype(wide), places)
        parts = run2(dot, each._handle, image.astype(wide)._handle)
        return it.reshape(it.sum(parts, axis=0), (channels, 1, *given["kernel"])).astype(x.dtype)

    return body


def _few_features(groups: int, channels: int, features: int) -> bool:
    """Whether each of some channels is a group, of a few features."""
    return groups == channels > 1 and groups < features <= MOST_FEATURES * groups


def _repeated(x: Tensor, features: int) -> Tensor:
    """Images with each channel as often as it has features."""
    batch, channels, *image = x.shape
    each = it.reshape(x, (batch, channels, 1, *image))
    wide = it.broadcast_to(each, (batch, channels, features // channels, *image))
    return it.reshape(wide, (batch, features, *image))


def _wide(of: Aval) -> str:
    return "float64" if of.dtype.itemsize == 8 else "float32"


_KINDS: dict[str, Callable[[Sequence[Aval], Mapping[str, Any]], Body | None]] = {
    CONV.name: _forward,
    CONV_INPUT_GRADIENT.name: _of_images,
    CONV_WEIGHT_GRADIENT.name: _of_weight,
}
