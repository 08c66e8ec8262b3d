"""Activations without options, as layers: each applies a function of `ingle.tensor`."""

from __future__ import annotations

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike

from .module import Module


class ReLU(Module):
    """`max(x, 0)`; see `ingle.tensor.relu`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ReLU
    >>> ReLU()(it.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def forward(self, x: TensorLike) -> Tensor:
        return it.relu(x)


class ReLU6(Module):
    """`x` kept between 0 and 6; see `ingle.tensor.relu6`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ReLU6
    >>> ReLU6()(it.asarray([-1.0, 9.0])).tolist()
    [0.0, 6.0]
    """

    def forward(self, x: TensorLike) -> Tensor:
        return it.relu6(x)


class SELU(Module):
    """Keeps mean 0 and variance 1; see `ingle.tensor.selu`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import SELU
    >>> SELU()(it.asarray([0.0])).tolist()
    [0.0]
    """

    def forward(self, x: TensorLike) -> Tensor:
        return it.selu(x)


class Sigmoid(Module):
    """`1 / (1 + exp(-x))`; see `ingle.tensor.sigmoid`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Sigmoid
    >>> Sigmoid()(it.asarray([0.0])).tolist()
    [0.5]
    """

    def forward(self, x: TensorLike) -> Tensor:
        return it.sigmoid(x)


class LogSigmoid(Module):
    """`log(sigmoid(x))`; see `ingle.tensor.log_sigmoid`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import LogSigmoid
    >>> LogSigmoid()(it.asarray([-100.0])).tolist()
    [-100.0]
    """

    def forward(self, x: TensorLike) -> Tensor:
        return it.log_sigmoid(x)


class SiLU(Module):
    """`x * sigmoid(x)`; see `ingle.tensor.silu`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import SiLU
    >>> SiLU()(it.asarray([0.0])).tolist()
    [0.0]
    """

    def forward(self, x: TensorLike) -> Tensor:
        return it.silu(x)


class Mish(Module):
    """`x * tanh(softplus(x))`; see `ingle.tensor.mish`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Mish
    >>> Mish()(it.asarray([0.0])).tolist()
    [0.0]
    """

    def forward(self, x: TensorLike) -> Tensor:
        return it.mish(x)


class Tanh(Module):
    """The hyperbolic tangent; see `ingle.tensor.tanh`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Tanh
    >>> Tanh()(it.asarray([0.0])).tolist()
    [0.0]
    """

    def forward(self, x: TensorLike) -> Tensor:
        return it.tanh(x)


class Tanhshrink(Module):
    """`x - tanh(x)`; see `ingle.tensor.tanhshrink`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Tanhshrink
    >>> Tanhshrink()(it.asarray([0.0])).tolist()
    [0.0]
    """

    def forward(self, x: TensorLike) -> Tensor:
        return it.tanhshrink(x)


class Softsign(Module):
    """`x / (1 + |x|)`; see `ingle.tensor.softsign`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Softsign
    >>> Softsign()(it.asarray([1.0, -3.0])).tolist()
    [0.5, -0.75]
    """

    def forward(self, x: TensorLike) -> Tensor:
        return it.softsign(x)


class Hardsigmoid(Module):
    """`x / 6 + 1/2` kept between 0 and 1; see `ingle.tensor.hard_sigmoid`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Hardsigmoid
    >>> Hardsigmoid()(it.asarray([0.0, 9.0])).tolist()
    [0.5, 1.0]
    """

    def forward(self, x: TensorLike) -> Tensor:
        return it.hard_sigmoid(x)


class Hardswish(Module):
    """`x * hard_sigmoid(x)`; see `ingle.tensor.hard_swish`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Hardswish
    >>> Hardswish()(it.asarray([3.0, 5.0])).tolist()
    [3.0, 5.0]
    """

    def forward(self, x: TensorLike) -> Tensor:
        return it.hard_swish(x)
