"""Convolutions of each channel by itself, in terms of what kernels have for these.

Forward and the gradient of the images are kernels themselves. The gradient of the weight is, for
each channel of each image, the sums of what taps see; these are then summed over the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.contract import Aval
from ingle.tensor.dispatch import run2
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.operation import Op
from ingle.tensor.ops.convolution import window_products as products
from ingle.tensor.ops.convolution.gradients import CONV_WEIGHT_GRADIENT

ROOM = 4096
"""Elements of an image that the rows of windows which a kernel sums at once may span."""
MOST_IN_A_ROW = 64
"""Taps of a row of them that a kernel sums."""
BEHIND = 64
"""Places behind a row's end that a kernel may see."""


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


def by_channels(op: Op, avals: Sequence[Aval]) -> Callable[..., Tensor] | None:
    """The gradient of a weight that has each channel by itself, as sums of each tap.

    None for all else, and where a device's nest has no room for that.
    """
    if op.operation is not CONV_WEIGHT_GRADIENT or any(0 in a.shape for a in avals):
        return None
    (x, g), given = avals, op.attributes
    floats = x.dtype.is_floating
    if not floats or not given["groups"] == x.shape[1] == g.shape[1] > 1:
        return None
    wide = "float64" if x.dtype.itemsize == 8 else "float32"
    start = tuple([-low for low, _ in given["padding"]])
    dot = products.WINDOW_DOT.op(
        kernel=given["kernel"], size=g.shape[2:], stride=given["stride"],
        dilation=given["dilation"], start=start,
    )  # fmt: skip
    places = (*g.shape[:2], math.prod(g.shape[2:]))
    made = as_dtype(wide)
    if not sums_taps(dot, (Aval(places, made), Aval(x.shape, made))):
        return None

    def body(x: Tensor, g: Tensor) -> Tensor:
        each = it.reshape(g.astype(wide), places)
        parts = run2(dot, each._handle, x.astype(wide)._handle)
        return it.reshape(it.sum(parts, axis=0), (x.shape[1], 1, *given["kernel"])).astype(x.dtype)

    return body
