"""Activation functions."""

from __future__ import annotations

import ingle.tensor as it
from ingle.tensor import Tensor

from ..registry import operator


@operator("Relu")
def relu(x: Tensor, *, consumed_inputs: list[int] | None = None) -> Tensor:
    return it.maximum(x, 0)


@operator("Sigmoid")
def sigmoid(x: Tensor, *, consumed_inputs: list[int] | None = None) -> Tensor:
    return it.sigmoid(x)


@operator("Mish")
def mish(x: Tensor) -> Tensor:
    return it.mish(x)


@operator("HardSwish")
def hard_swish(x: Tensor) -> Tensor:
    return it.hardswish(x)


@operator("Softplus")
def softplus(x: Tensor) -> Tensor:
    return it.logaddexp(x, 0.0)


@operator("Softsign")
def softsign(x: Tensor) -> Tensor:
    return it.softsign(x)


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0, consumed_inputs: list[int] | None = None) -> Tensor:
    return it.elu(x, alpha)


@operator("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return it.celu(x, alpha)


@operator("LeakyRelu")
def leaky_relu(
    x: Tensor, *, alpha: float = 0.01, consumed_inputs: list[int] | None = None
) -> Tensor:
    return it.leaky_relu(x, alpha)


@operator("Selu", 6)
def selu(
    x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805,
    consumed_inputs: list[int] | None = None,
) -> Tensor:  # fmt: skip
    return gamma * it.elu(x, alpha)


@operator("Selu", 1)
def selu_before_6(
    x: Tensor, *, alpha: float = 1.6732, gamma: float = 1.0507,
    consumed_inputs: list[int] | None = None,
) -> Tensor:  # fmt: skip
    return gamma * it.elu(x, alpha)


@operator("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return it.gelu(x, approximate=approximate)


@operator("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return x * it.sigmoid(alpha * x)


@operator("SwiGLU")
def swiglu(gate: Tensor, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return swish(gate, alpha=alpha) * x


@operator("HardSigmoid")
def hard_sigmoid(
    x: Tensor, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: list[int] | None = None
) -> Tensor:
    return it.clip(alpha * x + beta, 0.0, 1.0)


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return it.where(x > alpha, x, it.zeros_like(x))


@operator("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Values near zero become zero, others come nearer by `bias`."""
    if not x.dtype.is_floating:
        near = x.astype(it.float32)
        return shrink(near, bias=bias, lambd=lambd).astype(x.dtype)
    return it.where(x < -lambd, x + bias, it.where(x > lambd, x - bias, it.zeros_like(x)))


@operator("PRelu", 7)
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    return it.where(x < 0, x * slope, x)


@operator("PRelu", 1)
def prelu_before_7(x: Tensor, slope: Tensor, *, consumed_inputs: list[int] | None = None) -> Tensor:
    """The slopes are those of channels, or one for all."""
    return prelu(x, it.reshape(slope, (-1, *[1] * (x.ndim - 2))) if x.ndim > 2 else slope)


@operator("Softmax", 13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return it.softmax(x, axis=axis)


@operator("LogSoftmax", 13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return it.log_softmax(x, axis=axis)


@operator("Hardmax", 13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """One at the first largest along an axis, zero elsewhere."""
    best = it.argmax(x, axis=axis)
    return it.one_hot(best, x.shape[axis], axis=axis, dtype=x.dtype)


def _as_matrix(x: Tensor, axis: int) -> Tensor:
    """As before opset 13: all axes from `axis` on are one."""
    at = axis % max(x.ndim, 1)
    rows = 1
    for n in x.shape[:at]:
        rows *= n
    return it.reshape(x, (rows, x.size // max(rows, 1)))


@operator("Softmax", 1)
def softmax_before_13(x: Tensor, *, axis: int = 1) -> Tensor:
    return it.reshape(it.softmax(_as_matrix(x, axis), axis=-1), x.shape)


@operator("LogSoftmax", 1)
def log_softmax_before_13(x: Tensor, *, axis: int = 1) -> Tensor:
    return it.reshape(it.log_softmax(_as_matrix(x, axis), axis=-1), x.shape)


@operator("Hardmax", 1)
def hardmax_before_13(x: Tensor, *, axis: int = 1) -> Tensor:
    return it.reshape(hardmax(_as_matrix(x, axis)), x.shape)
