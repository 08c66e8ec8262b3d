"""Batch normalization folded into the layer before it, for use after training."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import OperandError

from ..containers import Sequential
from ..convolution import Conv1d, Conv2d, Conv3d
from ..linear import Linear
from ..module import Module
from ..normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d
from ..parameter import Parameter
from ..transposed import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

M = TypeVar("M", bound=Module)
_PLAIN = (Conv1d, Conv2d, Conv3d)
_TRANSPOSED = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
_NORMS = (BatchNorm1d, BatchNorm2d, BatchNorm3d)


def fuse_conv_bn_weights(
    conv_w: TensorLike,
    conv_b: TensorLike | None,
    bn_rm: TensorLike,
    bn_rv: TensorLike,
    bn_eps: float,
    bn_w: TensorLike | None,
    bn_b: TensorLike | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a convolution that is followed by a batch normalization.

    Args:
        conv_w, conv_b: of the convolution; the bias may be None.
        bn_rm, bn_rv, bn_eps: running mean and variance, and what is added to the latter.
        bn_w, bn_b: of the normalization; either may be None.
        transpose: whether the weight is (in, out, ...), as of transposed convolutions.

    >>> import ingle.tensor as it
    >>> from ingle.nn.utils import fuse_conv_bn_weights
    >>> one = it.ones(1)
    >>> w, b = fuse_conv_bn_weights(it.ones((1, 1, 1)), None, one, one * 4, 0.0, one, None)
    >>> w.tolist(), b.tolist()
    ([[[0.5]]], [-0.5])
    """
    weight = it.asarray(conv_w).detach()
    mean, var = it.asarray(bn_rm).detach(), it.asarray(bn_rv).detach()
    scale = it.rsqrt(var + bn_eps)
    if bn_w is not None:
        scale = scale * it.asarray(bn_w).detach()
    bias = -mean if conv_b is None else it.asarray(conv_b).detach() - mean
    bias = bias * scale
    if bn_b is not None:
        bias = bias + it.asarray(bn_b).detach()
    if transpose:
        # Channels that come out are in groups along the second axis.
        groups = scale.shape[0] // weight.shape[1]
        lead = (groups, weight.shape[0] // groups, weight.shape[1])
        by = it.reshape(scale, (groups, 1, weight.shape[1], *(1,) * (weight.ndim - 2)))
        apart = it.reshape(weight, (*lead, *weight.shape[2:]))
        fused = it.reshape(apart * by, weight.shape)
    else:
        fused = weight * it.reshape(scale, (-1, *(1,) * (weight.ndim - 1)))
    return Parameter(fused.astype(weight.dtype)), Parameter(bias.astype(weight.dtype))


def fuse_linear_bn_weights(
    linear_w: TensorLike,
    linear_b: TensorLike | None,
    bn_rm: TensorLike,
    bn_rv: TensorLike,
    bn_eps: float,
    bn_w: TensorLike | None,
    bn_b: TensorLike | None,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a linear layer that is followed by a batch normalization.

    The arguments are those of `fuse_conv_bn_weights`.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> weight, bias = nn.utils.fuse_linear_bn_weights(
    ...     it.ones((1, 2)), None, it.ones(1), it.full(1, 4.0), 0.0, it.ones(1), it.zeros(1)
    ... )
    >>> weight.tolist(), bias.tolist()
    ([[0.5, 0.5]], [-0.5])
    """
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_conv_bn_eval(conv: M, bn: Module, transpose: bool = False) -> M:
    """A convolution that computes what it and the batch normalization behind it did.

    Args:
        conv: in evaluation mode; it stays as it is.
        bn: in evaluation mode, with running statistics.
        transpose: whether `conv` is a transposed one.

    Raises:
        OperandError: a module is in training mode, or there are no running statistics.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> conv, bn = nn.Conv2d(1, 2, 3).eval(), nn.BatchNorm2d(2).eval()
    >>> fused, x = nn.utils.fuse_conv_bn_eval(conv, bn), it.ones((1, 1, 4, 4))
    >>> bool(it.allclose(fused(x), bn(conv(x)), atol=1e-6))
    True
    """
    return _fused("fuse_conv_bn_eval", conv, bn, transpose)


def fuse_linear_bn_eval(linear: M, bn: Module) -> M:
    """A linear layer that computes what it and the batch normalization behind it did.

    The arguments are those of `fuse_conv_bn_eval`.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> linear, norm = nn.Linear(3, 2).eval(), nn.BatchNorm1d(2).eval()
    >>> x = it.ones((4, 3))
    >>> fused = nn.utils.fuse_linear_bn_eval(linear, norm)
    >>> bool(it.allclose(fused(x), norm(linear(x)), atol=1e-6))
    True
    """
    return _fused("fuse_linear_bn_eval", linear, bn, False)


def _fused(name: str, layer: M, bn: Any, transpose: bool) -> M:
    for which, module in (("the layer", layer), ("bn", bn)):
        if module.training:
            raise OperandError(
                f"{name}: {which}, a {type(module).__name__}, is in training mode, where batch "
                "normalization depends on the batch; call model.eval() first"
            )
    if getattr(bn, "running_mean", None) is None:
        raise OperandError(f"{name}: bn, a {type(bn).__name__}, has no running statistics")
    made: Any = copy.deepcopy(layer)
    made.weight, made.bias = fuse_conv_bn_weights(
        made.weight, made.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return made  # type: ignore[no-any-return]


def fuse_batch_norms(model: M) -> M:
    """Folds each batch normalization in a `Sequential` into the layer right before it.

    It changes the model, which must be in evaluation mode, and returns it. The places of the
    normalizations go, so that state-dict keys behind them count anew.

    >>> from ingle import nn
    >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
    >>> [type(m).__name__ for m in nn.utils.fuse_batch_norms(model)]
    ['Conv2d', 'ReLU']
    """
    for module in list(model.modules()):
        if not isinstance(module, Sequential):
            continue
        place = 1
        while place < len(module):
            layer, norm = module[place - 1], module[place]
            able = type(layer) in (Linear, *_PLAIN, *_TRANSPOSED)
            if type(norm) in _NORMS and able and norm.running_mean is not None:
                transposed = type(layer) in _TRANSPOSED
                module[place - 1] = _fused("fuse_batch_norms", layer, norm, transposed)
                del module[place]
            else:
                place += 1
    return model


def parameters_to_vector(parameters: Any) -> Tensor:
    """All parameters one after the other, as one vector, without recording gradients.

    Raises:
        OperandError: there are no parameters.

    >>> from ingle import nn
    >>> nn.utils.parameters_to_vector(nn.Linear(3, 2).parameters()).shape
    (8,)
    """
    parts = [it.reshape(p.raw, (p.raw.size,)) for p in parameters]
    if not parts:
        raise OperandError("parameters_to_vector: there are no parameters")
    return it.concat(parts)


def vector_to_parameters(vec: TensorLike, parameters: Any) -> None:
    """Gives parameters their parts of a vector, all of them or on an error none.

    Raises:
        OperandError: `vec` has another number of elements.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> layer = nn.Linear(2, 1)
    >>> nn.utils.vector_to_parameters(it.asarray([1.0, 2.0, 3.0]), layer.parameters())
    >>> layer.weight.tolist(), layer.bias.tolist()
    ([[1.0, 2.0]], [3.0])
    """
    given, cells = it.asarray(vec).detach(), list(parameters)
    count = sum(p.raw.size for p in cells)
    if given.shape != (count,):
        raise OperandError(
            f"vector_to_parameters: vec must have shape ({count},), as the parameters have that "
            f"many elements, got {given.shape}"
        )
    start = 0
    with it.transaction():
        for p in cells:
            held = p.raw
            p.value = it.reshape(given[start : start + held.size], held.shape).astype(held.dtype)
            start += held.size
