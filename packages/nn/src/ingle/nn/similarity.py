"""Layers of two inputs: similarity, distance, and the bilinear form."""

from __future__ import annotations

import math

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ShapeError
from ingle.tensor.other_names import also
from ingle.tensor.random import Generator

from ._arguments import make, size
from .init import Init, Uniform
from .module import Module
from .parameter import Parameter


@also(dim="axis")
class CosineSimilarity(Module):
    """The cosine of the angle between vectors along an axis.

    Args:
        axis: of the vectors.
        eps: the least product of lengths that is divided by.

    >>> import ingle.tensor as it
    >>> from ingle.nn import CosineSimilarity
    >>> CosineSimilarity()(it.asarray([[1.0, 0.0]]), it.asarray([[2.0, 0.0]])).tolist()
    [1.0]
    """

    def __init__(self, axis: int = 1, eps: float = 1e-8) -> None:
        self.axis, self.eps = axis, eps

    def forward(self, x1: TensorLike, x2: TensorLike) -> Tensor:
        return it.cosine_similarity(x1, x2, axis=self.axis, eps=self.eps)

    def extra_repr(self) -> str:
        return f"axis={self.axis}, eps={self.eps}"


@also(keepdim="keepdims")
class PairwiseDistance(Module):
    """The p-norm of the difference of vectors along the last axis.

    Args:
        p: of the norm.
        eps: added to each difference.
        keepdims: whether the axis stays, with one element.

    >>> import ingle.tensor as it
    >>> from ingle.nn import PairwiseDistance
    >>> PairwiseDistance(eps=0.0)(it.asarray([[3.0, 4.0]]), it.zeros((1, 2))).tolist()
    [5.0]
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False) -> None:
        self.p, self.eps, self.keepdims = p, eps, keepdims

    def forward(self, x1: TensorLike, x2: TensorLike) -> Tensor:
        return it.pairwise_distance(x1, x2, p=self.p, eps=self.eps, keepdims=self.keepdims)

    def extra_repr(self) -> str:
        return f"p={self.p}, eps={self.eps}, keepdims={self.keepdims}"


class Bilinear(Module):
    """`x1 @ weight[k] @ x2 + bias[k]` over the last axes, for each output k.

    Args:
        in1_features, in2_features: the sizes of the last axes of both inputs.
        out_features: the size of the last axis of the output.
        bias: whether there is a bias.
        weight_init, bias_init: first values; uniform within 1 / sqrt(in1_features) if not given.
        device, dtype: of the parameters.
        generator: of the first values.

    Raises:
        ShapeError: an input of a wrong size, when called.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Bilinear
    >>> Bilinear(3, 4, 2)(it.ones((5, 3)), it.ones((5, 4))).shape
    (5, 2)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        weight_init: Init | None = None,
        bias_init: Init | None = None,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        self.in1_features = size("Bilinear", "in1_features", in1_features)
        self.in2_features = size("Bilinear", "in2_features", in2_features)
        self.out_features = size("Bilinear", "out_features", out_features)
        bound, place = 1.0 / math.sqrt(in1_features), (dtype, device, generator)
        within = Uniform(-bound, bound)
        shape = (out_features, in1_features, in2_features)
        self.weight = make(weight_init, within, shape, *place)
        self.bias: Parameter | None = None
        if bias:
            self.bias = make(bias_init, within, (out_features,), *place)

    def forward(self, x1: TensorLike, x2: TensorLike) -> Tensor:
        x1, x2 = it.asarray(x1), it.asarray(x2)
        if (x1.shape[-1:], x2.shape[-1:]) != ((self.in1_features,), (self.in2_features,)):
            raise ShapeError(
                f"Bilinear: the last axes must be in1_features={self.in1_features} and "
                f"in2_features={self.in2_features}, got shapes {x1.shape} and {x2.shape}"
            )
        return it.bilinear(x1, x2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
