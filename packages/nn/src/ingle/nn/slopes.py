"""Leaky activations whose slope below zero is trained or drawn."""

from __future__ import annotations

from dataclasses import dataclass

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.argument_checks import number
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError
from ingle.tensor.other_names import also
from ingle.tensor.random import Generator

from ._arguments import size
from .module import Module
from .parameter import Parameter


class PReLU(Module):
    """`x` above zero and `weight * x` below, with a weight that is trained.

    Args:
        num_parameters: 1, or the number of channels, which are axis 1.
        init: the first value of each.
        device, dtype: of the weight.

    >>> import ingle.tensor as it
    >>> from ingle.nn import PReLU
    >>> PReLU()(it.asarray([-1.0, 2.0])).tolist()
    [-0.25, 2.0]
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        *,
        device: Device | str | None = None,
        dtype: object = None,
    ) -> None:
        self.num_parameters = size("PReLU", "num_parameters", num_parameters)
        self.weight = Parameter(it.full(num_parameters, float(init), dtype=dtype, device=device))

    def forward(self, x: TensorLike) -> Tensor:
        return it.prelu(x, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


@also(inplace=None)
@dataclass(eq=False, repr=False)
class RReLU(Module):
    """`x` above 0, below it `x` times a slope that is drawn for each element; Xu et al. (2015).

    After `eval()` the slope is the mean of both bounds.

    Args:
        lower, upper: between which slopes are drawn, evenly.
        generator: where they are drawn from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> from ingle.nn import RReLU
    >>> RReLU(0.25, 0.75).eval()(it.asarray([-2.0, 3.0])).tolist()
    [-1.0, 3.0]
    """

    lower: float = 1.0 / 8.0
    upper: float = 1.0 / 3.0
    generator: Generator | None = None

    def __post_init__(self) -> None:
        if not number("RReLU", "lower", self.lower) <= number("RReLU", "upper", self.upper):
            raise ArgumentError(f"RReLU: lower={self.lower} must be at most upper={self.upper}")

    def forward(self, x: TensorLike) -> Tensor:
        x = it.asarray(x)
        if not self.training:
            return it.leaky_relu(x, (self.lower + self.upper) / 2.0)
        slopes = it.random.uniform(
            x.shape, self.lower, self.upper, dtype=x.dtype, device=x.device,
            generator=self.generator,
        )  # fmt: skip
        return it.where(x < 0, x * slopes, x)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}"
