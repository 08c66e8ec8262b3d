"""Activations, each as its formula, a part at a time; half types in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op
from ingle.tensor.ops.elementwise.exponential_units import SELU_ALPHA, SELU_SCALE

from .blocks import in_blocks
from .elementwise import is_half
from .error_function import erf
from .selecting import select

Array = np.ndarray[Any, Any]
Kernel = Callable[..., Any]

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_PI = math.sqrt(2 / math.pi)


def sigmoid(x: Any) -> Any:
    # exp overflows to infinity for very negative x, and 1 / inf is the right 0.
    return 1 / (1 + np.exp(-x))


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _softplus_scaled(x: Any, beta: Any, threshold: Any) -> Any:
    scaled = x * beta
    return select(scaled > threshold, x, _softplus(scaled) / beta)


def _exponential_below(x: Any, alpha: Any) -> Any:
    return select(x > 0, x, alpha * np.expm1(x))


def _small_removed(x: Any, lambd: Any) -> Any:
    return select((x >= -lambd) & (x <= lambd), x.dtype.type(0), x)


def _clip(x: Any, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(x, low), high)


def _hardsigmoid(x: Any) -> Any:
    return _clip(x + 3, 0, 6) / 6


def _gelu(x: Any) -> Any:
    return x * 0.5 * (1 + erf(x * _SQRT_HALF))


def _gelu_by_tanh(x: Any) -> Any:
    return x * 0.5 * (1 + np.tanh(_SQRT_2_PI * (x + 0.044715 * (x * x) * x)))


_FORMULAS: dict[str, Kernel] = {
    "celu": lambda x, alpha: select(x > 0, x, alpha * np.expm1(x / alpha)),
    "elu": _exponential_below,
    "hardshrink": _small_removed,
    "hardsigmoid": _hardsigmoid,
    "hardswish": lambda x: x * _hardsigmoid(x),
    "hardtanh": _clip,
    "leaky_relu": lambda x, slope: select(x > 0, x, x * slope),
    "logsigmoid": lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "prelu": lambda x, weight: select(x > 0, x, x * weight),
    "relu6": lambda x: _clip(x, 0, 6),
    "selu": lambda x: SELU_SCALE * _exponential_below(x, SELU_ALPHA),
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "softplus": _softplus_scaled,
    "softshrink": lambda x, lambd: np.maximum(x - lambd, 0) + np.minimum(x + lambd, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "tanhshrink": lambda x: x - np.tanh(x),
    "threshold": lambda x, threshold, value: select(x <= threshold, value, x),
}


def _kernel(formula: Kernel) -> Kernel:
    def in_float32(*operands: Any) -> Any:
        if not is_half(operands[0]):
            return formula(*operands)
        return formula(*[a.astype(np.float32) for a in operands]).astype(operands[0].dtype)

    compute = in_blocks(in_float32)
    return lambda op, *operands: compute(*operands)


_gelu_kernels = {"none": _kernel(_gelu), "tanh": _kernel(_gelu_by_tanh)}


def _gelu_of(op: Op, x: Array) -> Any:
    return _gelu_kernels[op.attributes["approximate"]](op, x)


def _glu(op: Op, x: Array) -> Any:
    value, gate = np.split(x, 2, axis=op.attributes["axis"])
    return _gated(op, value, gate)


_gated = _kernel(lambda value, gate: value * sigmoid(gate))

KERNELS: dict[str, Kernel] = {
    **{name: _kernel(formula) for name, formula in _FORMULAS.items()},
    "gelu": _gelu_of,
    "glu": _glu,
    "relu": lambda op, x: np.maximum(x, 0),
}
