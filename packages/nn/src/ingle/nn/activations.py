"""Activations as layers: each applies a function of `ingle.tensor`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.other_names import also

from .module import Module


def _thresholded_relu(x: TensorLike, alpha: float) -> Tensor:
    return it.threshold(x, alpha, 0.0)


@dataclass(eq=False, repr=False)
class _Activation(Module):
    """Calls a function with options, which are the fields of a dataclass under the same names."""

    _function: ClassVar[Callable[..., Tensor]]

    def _options(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def forward(self, x: TensorLike) -> Tensor:
        return self._function(x, **self._options())

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self._options().items())


@also(inplace=None)
class ReLU(_Activation):
    """`max(x, 0)`; see `ingle.tensor.relu`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ReLU
    >>> ReLU()(it.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    _function = staticmethod(it.relu)


@also(inplace=None)
class ReLU6(_Activation):
    """`x` kept between 0 and 6; see `ingle.tensor.relu6`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ReLU6
    >>> ReLU6()(it.asarray([-1.0, 9.0])).tolist()
    [0.0, 6.0]
    """

    _function = staticmethod(it.relu6)


@also(inplace=None)
class SELU(_Activation):
    """Keeps mean 0 and variance 1; see `ingle.tensor.selu`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import SELU
    >>> SELU()(it.asarray([0.0])).tolist()
    [0.0]
    """

    _function = staticmethod(it.selu)


class Sigmoid(_Activation):
    """`1 / (1 + exp(-x))`; see `ingle.tensor.sigmoid`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Sigmoid
    >>> Sigmoid()(it.asarray([0.0])).tolist()
    [0.5]
    """

    _function = staticmethod(it.sigmoid)


class LogSigmoid(_Activation):
    """`log(sigmoid(x))`; see `ingle.tensor.logsigmoid`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import LogSigmoid
    >>> LogSigmoid()(it.asarray([-100.0])).tolist()
    [-100.0]
    """

    _function = staticmethod(it.logsigmoid)


@also(inplace=None)
class SiLU(_Activation):
    """`x * sigmoid(x)`; see `ingle.tensor.silu`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import SiLU
    >>> SiLU()(it.asarray([0.0])).tolist()
    [0.0]
    """

    _function = staticmethod(it.silu)


@also(inplace=None)
class Mish(_Activation):
    """`x * tanh(softplus(x))`; see `ingle.tensor.mish`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Mish
    >>> Mish()(it.asarray([0.0])).tolist()
    [0.0]
    """

    _function = staticmethod(it.mish)


class Tanh(_Activation):
    """The hyperbolic tangent; see `ingle.tensor.tanh`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Tanh
    >>> Tanh()(it.asarray([0.0])).tolist()
    [0.0]
    """

    _function = staticmethod(it.tanh)


class Tanhshrink(_Activation):
    """`x - tanh(x)`; see `ingle.tensor.tanhshrink`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Tanhshrink
    >>> Tanhshrink()(it.asarray([0.0])).tolist()
    [0.0]
    """

    _function = staticmethod(it.tanhshrink)


class Softsign(_Activation):
    """`x / (1 + |x|)`; see `ingle.tensor.softsign`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Softsign
    >>> Softsign()(it.asarray([1.0, -3.0])).tolist()
    [0.5, -0.75]
    """

    _function = staticmethod(it.softsign)


@also(inplace=None)
class Hardsigmoid(_Activation):
    """`x / 6 + 1/2` kept between 0 and 1; see `ingle.tensor.hardsigmoid`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Hardsigmoid
    >>> Hardsigmoid()(it.asarray([0.0, 9.0])).tolist()
    [0.5, 1.0]
    """

    _function = staticmethod(it.hardsigmoid)


@also(inplace=None)
class Hardswish(_Activation):
    """`x * hardsigmoid(x)`; see `ingle.tensor.hardswish`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Hardswish
    >>> Hardswish()(it.asarray([3.0, 5.0])).tolist()
    [3.0, 5.0]
    """

    _function = staticmethod(it.hardswish)


@also(inplace=None)
@dataclass(eq=False, repr=False)
class LeakyReLU(_Activation):
    """`x` above zero and `negative_slope * x` below.

    >>> import ingle.tensor as it
    >>> from ingle.nn import LeakyReLU
    >>> LeakyReLU(0.5)(it.asarray([-2.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    _function = staticmethod(it.leaky_relu)
    negative_slope: float = 0.01


@also(inplace=None)
@dataclass(eq=False, repr=False)
class ELU(_Activation):
    """`x` above zero and `alpha * (exp(x) - 1)` below.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ELU
    >>> ELU()(it.asarray([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    _function = staticmethod(it.elu)
    alpha: float = 1.0


@also(inplace=None)
@dataclass(eq=False, repr=False)
class CELU(_Activation):
    """`x` above zero and `alpha * (exp(x / alpha) - 1)` below.

    >>> import ingle.tensor as it
    >>> from ingle.nn import CELU
    >>> CELU()(it.asarray([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    _function = staticmethod(it.celu)
    alpha: float = 1.0


@dataclass(eq=False, repr=False)
class GELU(_Activation):
    """`x` times the normal distribution function of `x`; `"tanh"` approximates it.

    >>> import ingle.tensor as it
    >>> from ingle.nn import GELU
    >>> GELU()(it.asarray([0.0])).tolist()
    [0.0]
    """

    _function = staticmethod(it.gelu)
    approximate: str = "none"


@also(inplace=None)
@dataclass(eq=False, repr=False)
class Hardtanh(_Activation):
    """`x` kept between two bounds.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Hardtanh
    >>> Hardtanh()(it.asarray([-3.0, 0.5])).tolist()
    [-1.0, 0.5]
    """

    _function = staticmethod(it.hardtanh)
    min_val: float = -1.0
    max_val: float = 1.0


@dataclass(eq=False, repr=False)
class Hardshrink(_Activation):
    """`x`, but 0 between `-lambd` and `lambd`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Hardshrink
    >>> Hardshrink()(it.asarray([-3.0, 0.25])).tolist()
    [-3.0, 0.0]
    """

    _function = staticmethod(it.hardshrink)
    lambd: float = 0.5


@dataclass(eq=False, repr=False)
class Softshrink(_Activation):
    """`x` moved towards 0 by `lambd`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Softshrink
    >>> Softshrink()(it.asarray([-3.0, 0.25])).tolist()
    [-2.5, 0.0]
    """

    _function = staticmethod(it.softshrink)
    lambd: float = 0.5


@dataclass(eq=False, repr=False)
class Softplus(_Activation):
    """`log(1 + exp(beta * x)) / beta`; `x` where `beta * x` is over the threshold.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Softplus
    >>> Softplus()(it.asarray([30.0])).tolist()
    [30.0]
    """

    _function = staticmethod(it.softplus)
    beta: float = 1.0
    threshold: float = 20.0


@also(inplace=None)
@dataclass(eq=False, repr=False)
class Threshold(_Activation):
    """`x` where it is over the threshold, else `value`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Threshold
    >>> Threshold(1.0, 9.0)(it.asarray([0.0, 2.0])).tolist()
    [9.0, 2.0]
    """

    threshold: float
    value: float

    def forward(self, x: TensorLike) -> Tensor:
        return it.threshold(x, self.threshold, self.value)


@dataclass(eq=False, repr=False)
class ThresholdedReLU(_Activation):
    """`x` where it is above `alpha`, 0 elsewhere; Konda et al. (arXiv 1402.3337).

    >>> import ingle.tensor as it
    >>> from ingle.nn import ThresholdedReLU
    >>> ThresholdedReLU()(it.asarray([0.5, 2.0])).tolist()
    [0.0, 2.0]
    """

    _function = staticmethod(_thresholded_relu)
    alpha: float = 1.0
