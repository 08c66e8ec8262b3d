"""Norms of single examples: groups of channels, channels, features, neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ingle.tensor as it
from ingle.tensor import Device, Tensor, transaction
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.random import Generator
from ingle.tensor.transactions import commit_lock

from ._arguments import make, size, sizes
from .init import Init, Ones, Zeros
from .module import Module
from .normalization import _BatchNorm
from .parameter import Parameter


class GroupNorm(Module):
    """Normalises groups of channels of each example; Wu and He (ECCV 2018).

    Args:
        num_groups: how many groups the channels, axis 1, fall into.
        num_channels: how many channels there are.
        eps: added to the variance.
        affine: whether there are a weight and a bias for each channel.
        bias: False, with `affine`, for a weight alone.
        weight_init, bias_init: first values; ones and zeros if not given.
        device, dtype: of the parameters.
        generator: of the first values.

    Raises:
        ArgumentError: the channels cannot be divided among the groups.

    >>> import ingle.tensor as it
    >>> from ingle.nn import GroupNorm
    >>> GroupNorm(1, 2, eps=0.0)(it.asarray([[1.0, 3.0]])).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        bias: bool = True,
        weight_init: Init | None = None,
        bias_init: Init | None = None,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        self.num_groups = size("GroupNorm", "num_groups", num_groups)
        self.num_channels = size("GroupNorm", "num_channels", num_channels)
        if num_channels % num_groups:
            raise ArgumentError(
                f"GroupNorm: num_channels={num_channels} must be divisible by "
                f"num_groups={num_groups}"
            )
        self.eps, self.affine = eps, affine
        place = (dtype, device, generator)
        self.weight: Parameter | None = None
        self.bias: Parameter | None = None
        if affine:
            self.weight = make(weight_init, Ones(), (num_channels,), *place)
            if bias:
                self.bias = make(bias_init, Zeros(), (num_channels,), *place)

    def forward(self, x: TensorLike) -> Tensor:
        x = it.asarray(x)
        if x.ndim < 2 or x.shape[1] != self.num_channels:
            raise ShapeError(
                f"GroupNorm: x must be (batch, {self.num_channels}, ...), got shape {x.shape}"
            )
        return it.group_norm(x, self.num_groups, self.weight, self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class _InstanceNorm(_BatchNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, **options)

    def forward(self, x: TensorLike) -> Tensor:
        x, name = it.asarray(x), type(self).__name__
        single, batched = self._ranks
        if x.ndim not in self._ranks or x.shape[x.ndim - single] != self.num_features:
            raise ShapeError(
                f"{name}: x must have {single} axes, (channels, ...), or {batched} with a batch, "
                f"and num_features={self.num_features} channels, got shape {x.shape}"
            )
        rows = x if x.ndim == batched else it.expand_dims(x, axis=0)
        axes = tuple(range(2, rows.ndim))
        own = self.training or self.running_mean is None
        if own and self.training and rows.size == rows.shape[0] * rows.shape[1]:
            raise ShapeError(
                f"{name}: while training each channel needs more than one value, got shape "
                f"{x.shape}"
            )
        statistics = (None, None) if own else (self.running_mean, self.running_var)
        out = it.instance_norm(
            rows, *statistics, self.weight, self.bias, use_input_stats=own, eps=self.eps
        )
        if self.training and self.running_mean is not None and self.running_var is not None:
            given, part = rows.detach(), 0.0 if self.momentum is None else self.momentum
            news = (
                (self.running_mean, it.mean(it.mean(given, axis=axes), axis=0)),
                (self.running_var, it.mean(it.var(given, axis=axes, correction=1), axis=0)),
            )
            with commit_lock, transaction(flush=False):
                for buffer, new in news:
                    old = buffer.raw
                    buffer.value = old + (new.astype(buffer.dtype) - old) * part
        return out if x.ndim == batched else out[0]


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each example: (N, C, L) or (C, L); Ulyanov et al. (2016).

    Args:
        num_features: the number of channels.
        eps: added to the variance.
        momentum: how far running statistics move each time; None for not at all.
        affine: whether there are a weight and a bias for each channel.
        track_running_stats: whether there are running statistics, which are used after `eval()`.
        options: `bias`, `weight_init`, `bias_init`, `device`, `dtype`, `generator` as in
            `BatchNorm1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import InstanceNorm1d
    >>> InstanceNorm1d(1, eps=0.0)(it.asarray([[[1.0, 3.0]]])).tolist()
    [[[-1.0, 1.0]]]
    """

    _ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """`InstanceNorm1d` of images: (N, C, H, W) or (C, H, W).

    >>> import ingle.tensor as it
    >>> from ingle.nn import InstanceNorm2d
    >>> InstanceNorm2d(3)(it.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    _ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """`InstanceNorm1d` of volumes: (N, C, D, H, W) or (C, D, H, W).

    >>> import ingle.tensor as it
    >>> from ingle.nn import InstanceNorm3d
    >>> InstanceNorm3d(3)(it.ones((2, 3, 2, 4, 4))).shape
    (2, 3, 2, 4, 4)
    """

    _ranks = (4, 5)


class RMSNorm(Module):
    """Divides by the root of the mean of squares over the last axes; Zhang and Sennrich (2019).

    Args:
        normalized_shape: the sizes of these axes, or the size of the last.
        eps: added to the mean; the dtype's smallest step from 1 if None.
        elementwise_affine: whether there is a weight of that shape.
        weight_init: first values; ones if not given.
        device, dtype: of the weight.
        generator: of the first values.

    >>> import ingle.tensor as it
    >>> from ingle.nn import RMSNorm
    >>> RMSNorm(2, eps=0.0)(it.asarray([[3.0, 3.0]])).tolist()
    [[1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        weight_init: Init | None = None,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        count = 1 if not isinstance(normalized_shape, Sequence) else len(normalized_shape)
        self.normalized_shape = sizes("RMSNorm", "normalized_shape", normalized_shape, count)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight: Parameter | None = None
        if elementwise_affine:
            place = (dtype, device, generator)
            self.weight = make(weight_init, Ones(), self.normalized_shape, *place)

    def forward(self, x: TensorLike) -> Tensor:
        return it.rms_norm(x, self.normalized_shape, self.weight, eps=self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class LocalResponseNorm(Module):
    """Divides by a power of the mean square of neighbouring channels; Krizhevsky et al. (2012).

    Args:
        size: how many channels are neighbours.
        alpha, beta, k: of `(k + alpha * mean) ** beta`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import LocalResponseNorm
    >>> LocalResponseNorm(2)(it.ones((1, 4, 3))).shape
    (1, 4, 3)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, x: TensorLike) -> Tensor:
        return it.local_response_norm(x, self.size, alpha=self.alpha, beta=self.beta, k=self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
