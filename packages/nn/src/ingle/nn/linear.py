"""Dense layers, and the layer that does nothing."""

from __future__ import annotations

import math
from typing import Any

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.random import Generator

from ._arguments import make, size
from .init import Init, KaimingUniform, Uniform
from .module import Module
from .parameter import Parameter


class Linear(Module):
    """`x @ weight.T + bias` over the last axis, for any number of axes before it.

    Args:
        in_features: the size of the last axis of the input, at least 0.
        out_features: the size of the last axis of the output.
        bias: whether there is a bias.
        weight_init: for shape (out_features, in_features); uniform within 1 / sqrt(in_features)
            if not given, as in PyTorch.
        bias_init: for shape (out_features,); the same range if not given.
        device, dtype: of the parameters.
        generator: of the first values.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Linear
    >>> Linear(3, 2)(it.ones((5, 4, 3))).shape
    (5, 4, 2)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        weight_init: Init | None = None,
        bias_init: Init | None = None,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        self.in_features = size("Linear", "in_features", in_features, 0)
        self.out_features = size("Linear", "out_features", out_features, 0)
        bound = 1.0 / math.sqrt(max(1, in_features))
        place = (dtype, device, generator)
        self.weight = make(
            weight_init, KaimingUniform(math.sqrt(5.0)), (out_features, in_features), *place
        )
        self.bias: Parameter | None = None
        if bias:
            self.bias = make(bias_init, Uniform(-bound, bound), (out_features,), *place)

    def forward(self, x: TensorLike) -> Tensor:
        return it.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Identity(Module):
    """Returns what it gets; takes and ignores any arguments, to stand in for another layer.

    >>> from ingle.nn import Identity
    >>> Identity(54, unused=True)(3)
    3
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def forward(self, x: Any) -> Any:
        return x
