"""Normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import ingle.tensor as it
from ingle.tensor import Device, Tensor, transaction
from ingle.tensor.argument_checks import number
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.random import Generator
from ingle.tensor.transactions import commit_lock

from ._arguments import make, size, sizes
from .init import Init, Ones, Zeros
from .module import Module
from .parameter import Buffer, Parameter


class _BatchNorm(Module):
    _ranks: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
        weight_init: Init | None = None,
        bias_init: Init | None = None,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        name = type(self).__name__
        if momentum is not None and not 0.0 <= number(name, "momentum", momentum) <= 1.0:
            raise ArgumentError(f"{name}: momentum must be None or in [0, 1], got {momentum}")
        self.num_features = size(name, "num_features", num_features)
        self.eps, self.momentum, self.affine = eps, momentum, affine
        self.track_running_stats = track_running_stats
        shape, place = (num_features,), (dtype, device, generator)
        self.weight: Parameter | None = None
        self.bias: Parameter | None = None
        self.running_mean: Buffer | None = None
        self.running_var: Buffer | None = None
        self.num_batches_tracked: Buffer | None = None
        if affine:
            self.weight = make(weight_init, Ones(), shape, *place)
            if bias:
                self.bias = make(bias_init, Zeros(), shape, *place)
        if track_running_stats:
            self.running_mean = Buffer(it.zeros(shape, dtype=dtype, device=device))
            self.running_var = Buffer(it.ones(shape, dtype=dtype, device=device))
            self.num_batches_tracked = Buffer(it.zeros((), dtype="int64", device=device))

    def forward(self, x: TensorLike) -> Tensor:
        x = it.asarray(x)
        if x.ndim not in self._ranks:
            ranks = " or ".join(map(str, self._ranks))
            raise ShapeError(
                f"{type(self).__name__}: x must have {ranks} axes, (batch, channels, ...), got "
                f"shape {x.shape}"
            )
        if not self.training and self.running_mean is not None:
            return it.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        out, mean, var = it.batch_norm_training(x, self.weight, self.bias, eps=self.eps)
        if self.training:
            self._track(mean.detach(), var.detach(), x.size // self.num_features)
        return out

    def _track(self, mean: Tensor, var: Tensor, count: int | Tensor) -> None:
        """Moves the running statistics towards those of a batch of `count` values a channel."""
        batches = self.num_batches_tracked
        if self.running_mean is None or self.running_var is None or batches is None:
            return
        with commit_lock, transaction(flush=False):
            batches.value = batches.raw + 1
            # What runs is the unbiased variance, as in PyTorch; the layer itself uses the other.
            unbiased = var * (count / (count - 1))
            for buffer, new in ((self.running_mean, mean), (self.running_var, unbiased)):
                part: float | Tensor | None = self.momentum
                if part is None:  # the mean of all batches
                    part = 1.0 / batches.raw.astype(buffer.dtype)
                old = buffer.raw
                buffer.value = old + (new.astype(buffer.dtype) - old) * part

    def reset_running_stats(self) -> None:
        """Forgets the batches so far; without running statistics there is nothing to do."""
        buffers = (self.running_mean, self.running_var, self.num_batches_tracked)
        with commit_lock, transaction(flush=False):
            for buffer, start in zip(buffers, (0, 1, 0), strict=True):
                if buffer is not None:
                    buffer.value = it.full_like(buffer.raw, start)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """Normalises each channel over the batch: (N, C) or (N, C, L); Ioffe and Szegedy (ICML 2015).

    While training it normalises with the batch's mean and variance and moves the running ones
    towards them; after `eval()` it normalises with the running ones.

    Threads may train one layer: every batch moves mean, variance and counter together and none is
    lost, in the order in which they come, which the last digits depend on. Within a `transaction`
    the move starts from what the thread's own transaction has seen, and the last to end wins.
    The move of a plain call stands by itself, whatever fails after it; that of a call within the
    `transaction` of a step, or within a compiled step, is taken back with the step.

    Args:
        num_features: the number of channels, the size of axis 1.
        eps: added to the variance.
        momentum: how far the running statistics move each time; None for the mean of all batches.
        affine: whether there are a weight and a bias for each channel.
        track_running_stats: False keeps none and always uses the batch's.
        bias: False, with `affine`, for a weight alone.
        weight_init, bias_init: first values; ones and zeros if not given.
        device, dtype: of parameters and buffers.
        generator: of the first values.

    >>> import ingle.tensor as it
    >>> from ingle.nn import BatchNorm1d
    >>> layer = BatchNorm1d(1, eps=0.0)
    >>> layer(it.asarray([[1.0], [3.0]])).tolist()
    [[-1.0], [1.0]]
    >>> [round(v, 4) for v in layer.running_mean.value.tolist()]
    [0.2]
    """

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises each channel over batch and image: (N, C, H, W); arguments as `BatchNorm1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import BatchNorm2d
    >>> BatchNorm2d(3).eval()(it.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalises each channel over batch and volume: (N, C, D, H, W); arguments as `BatchNorm1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import BatchNorm3d
    >>> BatchNorm3d(3).eval()(it.ones((2, 3, 4, 4, 2))).shape
    (2, 3, 4, 4, 2)
    """

    _ranks = (5,)


class LayerNorm(Module):
    """Normalises over the last axes; Ba et al. (2016).

    Args:
        normalized_shape: the sizes of these axes, or the size of the last.
        eps: added to the variance.
        elementwise_affine: whether there is a weight of that shape.
        bias: whether there is also a bias.
        weight_init, bias_init: first values; ones and zeros if not given.
        device, dtype: of the parameters.
        generator: of the first values.

    >>> import ingle.tensor as it
    >>> from ingle.nn import LayerNorm
    >>> LayerNorm(2, eps=0.0)(it.asarray([[1.0, 3.0], [5.0, 1.0]])).tolist()
    [[-1.0, 1.0], [1.0, -1.0]]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        weight_init: Init | None = None,
        bias_init: Init | None = None,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        count = 1 if not isinstance(normalized_shape, Sequence) else len(normalized_shape)
        self.normalized_shape = sizes("LayerNorm", "normalized_shape", normalized_shape, count)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.weight: Parameter | None = None
        self.bias: Parameter | None = None
        place = (dtype, device, generator)
        if elementwise_affine:
            self.weight = make(weight_init, Ones(), self.normalized_shape, *place)
            if bias:
                self.bias = make(bias_init, Zeros(), self.normalized_shape, *place)

    def forward(self, x: TensorLike) -> Tensor:
        return it.layer_norm(x, self.normalized_shape, self.weight, self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )
