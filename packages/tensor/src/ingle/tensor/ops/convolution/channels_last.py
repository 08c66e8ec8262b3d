"""Convolution and the gradient of its images with results that have the channels as last axis.

Libraries for devices with matrix units are at their best on images whose pixels lie in memory with
all channels side by side. Plans ask for these in place of `conv` and `conv_input_gradient` where a
device computes them whole. The operands have their usual axes, in whatever order they lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, promote, run, run2
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from ..movement.shapes import permute_dims
from . import _reference
from ._windows import Ints, PerAxis, per_axis
from .forward import CONV, Padding, window_attributes
from .gradients import CONV_INPUT_GRADIENT, image_axes

if TYPE_CHECKING:
    from ...tensor import Tensor

_TRAITS = Traits("contraction", precision="low", bound="compute")


def to_last(rank: int) -> Ints:
    """The order of axes that puts the second one last.

    >>> to_last(4), from_last(4)
    ((0, 2, 3, 1), (0, 3, 1, 2))
    """
    return (0, *range(2, rank), 1)


def from_last(rank: int) -> Ints:
    """The order of axes that puts the last one second."""
    return (0, rank - 1, *range(1, rank - 1))


def _rule(of: Operation, *avals: Aval, **statics: Any) -> Aval:
    found = of.rule(*avals, **statics)
    assert isinstance(found, Aval)
    return Aval(tuple([found.shape[a] for a in to_last(found.ndim)]), found.dtype)


def _body(of: Operation, a: Tensor, weight: Tensor, **statics: Any) -> Tensor:
    found = run2(of.op(**statics), a._handle, weight._handle)
    return permute_dims(found, to_last(found.ndim))


def _samples(of: Operation, draw: Draw) -> Iterator[Sample]:
    assert of.samples is not None
    for sample in of.samples(draw):
        if of is CONV_INPUT_GRADIENT or len(sample.args) == 2:  # a bias is another operation
            yield sample


def _conv_reference(*args: Any, **more: Any) -> Any:
    return np.moveaxis(_reference.conv(*args, **more), 1, -1)


def _gradient_reference(*args: Any, **more: Any) -> Any:
    return np.moveaxis(_reference.conv_input_gradient(*args, **more), 1, -1)


@guarded
def conv_channels_last(
    x: TensorLike, weight: TensorLike, *, stride: PerAxis = 1, padding: Padding = 0,
    dilation: PerAxis = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """`conv` whose result has the channels last.

    Args:
        x: (batch, channels, *size).
        weight: (features, channels / groups, *kernel).
        stride, padding, dilation, groups: as for `conv`.

    Returns:
        (batch, *out, features).

    >>> import ingle.tensor as it
    >>> from ingle.tensor.ops.convolution.channels_last import conv_channels_last
    >>> conv_channels_last(it.ones((1, 1, 4, 4)), it.ones((2, 1, 3, 3))).shape
    (1, 2, 2, 2)
    """
    name = "conv_channels_last"
    kernel = image_axes(name, x, weight, "weight")
    attributes = window_attributes(name, kernel, stride, padding, dilation, groups)
    operands = promote(name, ("x", x), ("weight", weight))
    return run(CONV_CHANNELS_LAST.op(**attributes), operands)[0]


CONV_CHANNELS_LAST = Operation(
    "conv_channels_last",
    tensors=CONV.tensors,
    statics=CONV.statics,
    rule=lambda *avals, **statics: _rule(CONV, *avals, **statics),
    traits=_TRAITS,
    body=lambda x, weight, **statics: _body(CONV, x, weight, **statics),
    public=conv_channels_last,
    samples=lambda draw: _samples(CONV, draw),
    reference=_conv_reference,
)


@guarded
def conv_input_gradient_channels_last(
    g: TensorLike, weight: TensorLike, size: PerAxis, *, stride: PerAxis = 1, padding: Padding = 0,
    dilation: PerAxis = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """`conv_input_gradient` whose result has the channels last.

    Args:
        g: (batch, features, *out).
        weight: (features, channels / groups, *kernel).
        size, stride, padding, dilation, groups: as for `conv_input_gradient`.

    Returns:
        (batch, *size, channels).

    >>> import ingle.tensor as it
    >>> from ingle.tensor.ops.convolution.channels_last import conv_input_gradient_channels_last
    >>> g, weight = it.ones((1, 2, 2, 2)), it.ones((2, 1, 3, 3))
    >>> conv_input_gradient_channels_last(g, weight, 4).shape
    (1, 4, 4, 1)
    """
    name = "conv_input_gradient_channels_last"
    kernel = image_axes(name, g, weight, "weight")
    attributes = window_attributes(name, kernel, stride, padding, dilation, groups)
    attributes["size"] = per_axis(size, len(kernel), name, "size", 0)
    operands = promote(name, ("g", g), ("weight", weight))
    return run(CONV_INPUT_GRADIENT_CHANNELS_LAST.op(**attributes), operands)[0]


CONV_INPUT_GRADIENT_CHANNELS_LAST = Operation(
    "conv_input_gradient_channels_last",
    tensors=CONV_INPUT_GRADIENT.tensors,
    statics=CONV_INPUT_GRADIENT.statics,
    rule=lambda *avals, **statics: _rule(CONV_INPUT_GRADIENT, *avals, **statics),
    traits=_TRAITS,
    body=lambda g, weight, **statics: _body(CONV_INPUT_GRADIENT, g, weight, **statics),
    public=conv_input_gradient_channels_last,
    samples=lambda draw: _samples(CONV_INPUT_GRADIENT, draw),
    reference=_gradient_reference,
)
CHANNELS_LAST = {
    CONV: CONV_CHANNELS_LAST, CONV_INPUT_GRADIENT: CONV_INPUT_GRADIENT_CHANNELS_LAST,
}  # fmt: skip
"""What gives the same with the channels last."""
