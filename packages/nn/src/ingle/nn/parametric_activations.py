"""Activations that have options, as layers: each applies a function of `ingle.tensor`."""

from __future__ import annotations

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import TensorLike

from ._arguments import size
from .module import Module
from .parameter import Parameter


class LeakyReLU(Module):
    """`x` above zero and `negative_slope * x` below.

    >>> import ingle.tensor as it
    >>> from ingle.nn import LeakyReLU
    >>> LeakyReLU(0.5)(it.asarray([-2.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: TensorLike) -> Tensor:
        return it.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope!r}"


class ELU(Module):
    """`x` above zero and `alpha * (exp(x) - 1)` below.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ELU
    >>> ELU()(it.asarray([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: TensorLike) -> Tensor:
        return it.elu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha!r}"


class CELU(Module):
    """`x` above zero and `alpha * (exp(x / alpha) - 1)` below.

    >>> import ingle.tensor as it
    >>> from ingle.nn import CELU
    >>> CELU()(it.asarray([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: TensorLike) -> Tensor:
        return it.celu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha!r}"


class GELU(Module):
    """`x` times the normal distribution function of `x`; `"tanh"` approximates it.

    >>> import ingle.tensor as it
    >>> from ingle.nn import GELU
    >>> GELU()(it.asarray([0.0])).tolist()
    [0.0]
    """

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: TensorLike) -> Tensor:
        return it.gelu(x, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Hardtanh(Module):
    """`x` kept between two bounds.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Hardtanh
    >>> Hardtanh()(it.asarray([-3.0, 0.5])).tolist()
    [-1.0, 0.5]
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, x: TensorLike) -> Tensor:
        return it.hard_tanh(x, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val!r}, max_val={self.max_val!r}"


class Hardshrink(Module):
    """`x`, but 0 between `-lambd` and `lambd`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Hardshrink
    >>> Hardshrink()(it.asarray([-3.0, 0.25])).tolist()
    [-3.0, 0.0]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: TensorLike) -> Tensor:
        return it.hardshrink(x, self.lambd)

    def extra_repr(self) -> str:
        return f"lambd={self.lambd!r}"


class Softshrink(Module):
    """`x` moved towards 0 by `lambd`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Softshrink
    >>> Softshrink()(it.asarray([-3.0, 0.25])).tolist()
    [-2.5, 0.0]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: TensorLike) -> Tensor:
        return it.softshrink(x, self.lambd)

    def extra_repr(self) -> str:
        return f"lambd={self.lambd!r}"


class Softplus(Module):
    """`log(1 + exp(beta * x)) / beta`; `x` where `beta * x` is over the threshold.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Softplus
    >>> Softplus()(it.asarray([30.0])).tolist()
    [30.0]
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta = beta
        self.threshold = threshold

    def forward(self, x: TensorLike) -> Tensor:
        return it.softplus(x, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta!r}, threshold={self.threshold!r}"


class Threshold(Module):
    """`x` where it is over the threshold, else `value`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Threshold
    >>> Threshold(1.0, 9.0)(it.asarray([0.0, 2.0])).tolist()
    [9.0, 2.0]
    """

    def __init__(self, threshold: float, value: float) -> None:
        self.threshold = threshold
        self.value = value

    def forward(self, x: TensorLike) -> Tensor:
        return it.threshold(x, self.threshold, self.value)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold!r}, value={self.value!r}"


class GLU(Module):
    """The first half along an axis times the sigmoid of the second.

    >>> import ingle.tensor as it
    >>> from ingle.nn import GLU
    >>> GLU()(it.asarray([3.0, 0.0])).tolist()
    [1.5]
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: TensorLike) -> Tensor:
        return it.glu(x, axis=self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis!r}"


class Softmax(Module):
    """`exp(x)` over its sum along an axis.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Softmax
    >>> Softmax()(it.asarray([1.0, 1.0])).tolist()
    [0.5, 0.5]
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: TensorLike) -> Tensor:
        return it.softmax(x, axis=self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis!r}"


class Softmin(Module):
    """The softmax of `-x` along an axis.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Softmin
    >>> Softmin()(it.asarray([1.0, 1.0])).tolist()
    [0.5, 0.5]
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: TensorLike) -> Tensor:
        return it.softmin(x, axis=self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis!r}"


class LogSoftmax(Module):
    """The logarithm of the softmax along an axis.

    >>> import ingle.tensor as it
    >>> from ingle.nn import LogSoftmax
    >>> LogSoftmax()(it.asarray([7.0])).tolist()
    [0.0]
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: TensorLike) -> Tensor:
        return it.log_softmax(x, axis=self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis!r}"


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
