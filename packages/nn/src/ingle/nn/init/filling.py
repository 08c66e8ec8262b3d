"""PyTorch's functions of `torch.nn.init`: each fills a parameter and returns it."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

import ingle.tensor as it
from ingle.tensor import Cell, Tensor
from ingle.tensor.errors import ArgumentError, OperandError, ShapeError
from ingle.tensor.random import Generator

from . import initializers as init

P = TypeVar("P", bound="Cell[Tensor]")


def _filled(name: str, parameter: P, made: init.Init, generator: Generator | None = None) -> P:
    if not isinstance(parameter, Cell):
        raise OperandError(
            f"{name}: fills a Parameter or Buffer, got {type(parameter).__name__}; tensors never "
            "change: write layer.weight, not layer.weight.data, or make a tensor with an "
            "initializer such as init.Normal()(shape)"
        )
    parameter.value = made(parameter.shape, parameter.dtype, parameter.device, generator)
    return parameter


def _given(name: str, parameter: P, values: np.ndarray) -> P:
    _filled(name, parameter, init.Zeros())
    parameter.value = it.asarray(values, dtype=parameter.dtype, device=parameter.device)
    return parameter


def uniform_(tensor: P, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> P:
    """Evenly from [a, b).

    >>> from ingle.nn import Linear, init
    >>> layer = Linear(2, 3)
    >>> bool((init.uniform_(layer.weight, 5.0, 6.0).value >= 5.0).all())
    True
    """
    return _filled("uniform_", tensor, init.Uniform(a, b), generator)


def normal_(
    tensor: P, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> P:
    """From a normal distribution.

    >>> from ingle.nn import Linear, init
    >>> weight = init.normal_(Linear(100, 100).weight, mean=1.0, std=0.1)
    >>> round(weight.mean().item(), 1), round(weight.std().item(), 1)
    (1.0, 0.1)
    """
    return _filled("normal_", tensor, init.Normal(mean, std), generator)


def trunc_normal_(
    tensor: P, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Generator | None = None,
) -> P:  # fmt: skip
    """From a normal distribution within [a, b].

    >>> from ingle.nn import Linear, init
    >>> weight = init.trunc_normal_(Linear(100, 100).weight, a=-1.0, b=1.0)
    >>> bool((abs(weight) <= 1.0).all())
    True
    """
    return _filled("trunc_normal_", tensor, init.TruncatedNormal(mean, std, a, b), generator)


def constant_(tensor: P, val: float) -> P:
    """One value everywhere.

    >>> from ingle.nn import Linear, init
    >>> init.constant_(Linear(2, 1).weight, 0.5).tolist()
    [[0.5, 0.5]]
    """
    return _filled("constant_", tensor, init.Constant(val))


def ones_(tensor: P) -> P:
    """Ones.

    >>> from ingle.nn import Linear, init
    >>> init.ones_(Linear(2, 1).bias).tolist()
    [1.0]
    """
    return _filled("ones_", tensor, init.Ones())


def zeros_(tensor: P) -> P:
    """Zeros.

    >>> from ingle.nn import Linear, init
    >>> init.zeros_(Linear(2, 1).bias).tolist()
    [0.0]
    """
    return _filled("zeros_", tensor, init.Zeros())


def eye_(tensor: P) -> P:
    """Ones on the diagonal of a matrix.

    Raises:
        ShapeError: the tensor has not two axes.

    >>> from ingle.nn import Linear, init
    >>> init.eye_(Linear(3, 2).weight).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    if tensor.ndim != 2:
        raise ShapeError(f"eye_: needs 2 axes, got shape {tensor.shape}")
    return _given("eye_", tensor, np.eye(tensor.shape[0], tensor.shape[1]))


def dirac_(tensor: P, groups: int = 1) -> P:
    """The weight of a convolution that returns its input, as many channels as there are of it.

    Raises:
        ShapeError: the tensor has not 3, 4 or 5 axes.
        ArgumentError: axis 0 is not divisible by `groups`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Parameter, init
    >>> init.dirac_(Parameter(it.zeros((1, 2, 3)))).value.tolist()
    [[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]
    """
    shape = tensor.shape
    if len(shape) not in (3, 4, 5):
        raise ShapeError(f"dirac_: needs 3, 4 or 5 axes, got shape {shape}")
    if shape[0] % groups:
        raise ArgumentError(f"dirac_: axis 0 of shape {shape} must be divisible by groups={groups}")
    values, each = np.zeros(shape), shape[0] // groups
    middle = tuple(k // 2 for k in shape[2:])
    for group in range(groups):
        for i in range(min(each, shape[1])):
            values[(group * each + i, i, *middle)] = 1.0
    return _given("dirac_", tensor, values)


def xavier_uniform_(tensor: P, gain: float = 1.0, generator: Generator | None = None) -> P:
    """Evenly within gain * sqrt(6 / (fan_in + fan_out)); see `XavierUniform`.

    >>> from ingle.nn import Linear, init
    >>> weight = init.xavier_uniform_(Linear(4, 2).weight)
    >>> bool((abs(weight) <= 1.0).all())
    True
    """
    return _filled("xavier_uniform_", tensor, init.XavierUniform(gain), generator)


def xavier_normal_(tensor: P, gain: float = 1.0, generator: Generator | None = None) -> P:
    """Normal with deviation gain * sqrt(2 / (fan_in + fan_out)); see `XavierNormal`.

    >>> from ingle.nn import Linear, init
    >>> weight = init.xavier_normal_(Linear(100, 100).weight)
    >>> round(weight.std().item(), 2)
    0.1
    """
    return _filled("xavier_normal_", tensor, init.XavierNormal(gain), generator)


def kaiming_uniform_(
    tensor: P, a: float = 0.0, mode: init.Mode = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> P:  # fmt: skip
    """Evenly within gain * sqrt(3 / fan); see `KaimingUniform`.

    >>> from ingle.nn import Linear, init
    >>> weight = init.kaiming_uniform_(Linear(6, 2).weight, nonlinearity="relu")
    >>> bool((abs(weight) <= 1.0).all())
    True
    """
    made = init.KaimingUniform(a, mode, nonlinearity)
    return _filled("kaiming_uniform_", tensor, made, generator)


def kaiming_normal_(
    tensor: P, a: float = 0.0, mode: init.Mode = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> P:  # fmt: skip
    """Normal with deviation gain / sqrt(fan); see `KaimingNormal`.

    >>> from ingle.nn import Linear, init
    >>> weight = init.kaiming_normal_(Linear(200, 100).weight, nonlinearity="relu")
    >>> round(weight.std().item(), 1)
    0.1
    """
    made = init.KaimingNormal(a, mode, nonlinearity)
    return _filled("kaiming_normal_", tensor, made, generator)


def orthogonal_(tensor: P, gain: float = 1.0, generator: Generator | None = None) -> P:
    """Orthonormal rows or columns times gain; see `Orthogonal`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Linear, init
    >>> weight = init.orthogonal_(Linear(3, 3).weight)
    >>> bool(it.allclose(weight @ weight.mT, it.eye(3), atol=1e-5))
    True
    """
    return _filled("orthogonal_", tensor, init.Orthogonal(gain), generator)


def sparse_(tensor: P, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> P:
    """Normal values, and in each column as many zeros as the part `sparsity`; Martens (2010).

    Raises:
        ShapeError: the tensor has not two axes.
        ArgumentError: `sparsity` is not in [0, 1].

    >>> from ingle.nn import Linear, init
    >>> weight = init.sparse_(Linear(4, 10).weight, sparsity=0.5)
    >>> (weight == 0.0).sum(axis=0).tolist()
    [5, 5, 5, 5]
    """
    if tensor.ndim != 2:
        raise ShapeError(f"sparse_: needs 2 axes, got shape {tensor.shape}")
    if not 0.0 <= sparsity <= 1.0:
        raise ArgumentError(f"sparse_: sparsity must be in [0, 1], got {sparsity}")
    normal_(tensor, 0.0, std, generator)
    rows, columns = tensor.shape
    order = np.stack(
        [it.random.permutation(rows, generator=generator).numpy() for _ in range(columns)], axis=1
    )
    zero = order < np.ceil(sparsity * rows)
    return _given("sparse_", tensor, np.where(zero, 0.0, tensor.numpy()))
