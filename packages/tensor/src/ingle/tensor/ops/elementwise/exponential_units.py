"""Activations that are exponentials below zero: elu, celu and selu."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...dispatch import TensorLike
from ...errors import ArgumentError
from .._guarding import guarded
from ._activation import activation, apply
from .exponential import exp, expm1
from .extrema import minimum
from .where import where

if TYPE_CHECKING:
    from ...tensor import Tensor


SELU_SCALE = 1.0507009873554804934193349852946
SELU_ALPHA = 1.6732632423543772848170429916717


@guarded
def elu(x: TensorLike, /, alpha: float = 1.0) -> Tensor:
    """`x` above zero and `alpha * (exp(x) - 1)` below (Clevert et al., arXiv 1511.07289).

    >>> import ingle.tensor as it
    >>> it.elu(it.asarray([float("-inf"), 2.0])).tolist()
    [-1.0, 2.0]
    """
    return apply(_ELU, x, alpha)


_ELU = activation(
    "elu",
    elu,
    parameters=("alpha",),
    body=lambda x, alpha: where(x > 0, x, alpha * expm1(x)),
    vjp=lambda g, x, alpha: where(x > 0, g, g * alpha * exp(minimum(x, 0))),
    reference=lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x)),
    calls=((), (0.5,)),
).op()


@guarded
def celu(x: TensorLike, /, alpha: float = 1.0) -> Tensor:
    """`x` above zero and `alpha * (exp(x / alpha) - 1)` below (Barron, arXiv 1704.07483).

    Raises:
        ArgumentError: `alpha` is 0.

    >>> import ingle.tensor as it
    >>> it.celu(it.asarray([float("-inf"), 2.0]), 0.5).tolist()
    [-0.5, 2.0]
    """
    if not alpha:
        raise ArgumentError("celu: alpha divides and must not be 0; use relu")
    return apply(_CELU, x, alpha)


_CELU = activation(
    "celu",
    celu,
    parameters=("alpha",),
    body=lambda x, alpha: where(x > 0, x, alpha * expm1(x / alpha)),
    vjp=lambda g, x, alpha: where(x > 0, g, g * exp(minimum(x, 0) / alpha)),
    reference=lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
    calls=((), (0.5,)),
).op()


def selu(x: TensorLike, /) -> Tensor:
    """`elu` with the constants that keep mean 0 and variance 1 (Klambauer et al., 1706.02515).

    >>> import ingle.tensor as it
    >>> round(it.selu(it.asarray(1.0)).item(), 4)
    1.0507
    """
    return apply(_SELU, x)


_SELU = activation(
    "selu",
    selu,
    body=lambda x: SELU_SCALE * where(x > 0, x, SELU_ALPHA * expm1(x)),
    vjp=lambda g, x: g * SELU_SCALE * where(x > 0, 1, SELU_ALPHA * exp(minimum(x, 0))),
    reference=lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x)),
).op()
