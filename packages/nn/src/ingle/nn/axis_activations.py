"""Activations over an axis: softmax and its kin, and gates that halve an axis."""

from __future__ import annotations

from dataclasses import dataclass

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ShapeError
from ingle.tensor.other_names import also

from .activations import _Activation
from .linear import Linear
from .module import Module


@also(dim="axis")
@dataclass(eq=False, repr=False)
class GLU(_Activation):
    """The first half along an axis times the sigmoid of the second.

    >>> import ingle.tensor as it
    >>> from ingle.nn import GLU
    >>> GLU()(it.asarray([3.0, 0.0])).tolist()
    [1.5]
    """

    _function = staticmethod(it.glu)
    axis: int = -1


@also(dim="axis")
@dataclass(eq=False, repr=False)
class Softmax(_Activation):
    """`exp(x)` over its sum along an axis.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Softmax
    >>> Softmax()(it.asarray([1.0, 1.0])).tolist()
    [0.5, 0.5]
    """

    _function = staticmethod(it.softmax)
    axis: int = -1


@also(dim="axis")
@dataclass(eq=False, repr=False)
class Softmin(_Activation):
    """The softmax of `-x` along an axis.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Softmin
    >>> Softmin()(it.asarray([1.0, 1.0])).tolist()
    [0.5, 0.5]
    """

    _function = staticmethod(it.softmin)
    axis: int = -1


@also(dim="axis")
@dataclass(eq=False, repr=False)
class LogSoftmax(_Activation):
    """The logarithm of the softmax along an axis.

    >>> import ingle.tensor as it
    >>> from ingle.nn import LogSoftmax
    >>> LogSoftmax()(it.asarray([7.0])).tolist()
    [0.0]
    """

    _function = staticmethod(it.log_softmax)
    axis: int = -1


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W).

    >>> import ingle.tensor as it
    >>> from ingle.nn import Softmax2d
    >>> Softmax2d()(it.zeros((1, 2, 1, 1))).tolist()
    [[[[0.5]], [[0.5]]]]
    """

    def forward(self, x: TensorLike) -> Tensor:
        x = it.asarray(x)
        if x.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: x must have 3 or 4 axes, got shape {x.shape}")
        return it.softmax(x, axis=-3)


class SwiGLU(Module):
    """`silu(x @ A) * (x @ B)` with two linear layers; Shazeer (arXiv 2002.05202).

    Args:
        in_features, out_features: the sizes of the last axis.
        bias: whether the layers have biases.

    >>> import ingle.tensor as it
    >>> from ingle.nn import SwiGLU
    >>> SwiGLU(8, 16)(it.ones((2, 8))).shape
    (2, 16)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = False) -> None:
        self.linear_inner = Linear(in_features, out_features, bias)
        self.linear_outer = Linear(in_features, out_features, bias)

    def forward(self, x: TensorLike) -> Tensor:
        gated: Tensor = it.silu(self.linear_inner(x)) * self.linear_outer(x)
        return gated
