"""Batch normalization whose statistics are those of the batches of all processes together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ShapeError

from .module import Module
from .normalization import _BatchNorm
from .placing import replace

Reduce = Callable[[Tensor], Tensor]


class SyncBatchNorm(_BatchNorm):
    """`BatchNorm` of any rank over the batches of several processes, as PyTorch's.

    Each process gives its own part of a batch. What they share goes through a function that adds a
    vector up over all of them; its gradient is the sum of their gradients, so that the parts
    together give the output and the gradients of the whole batch.

    Args:
        num_features, eps, momentum, affine, track_running_stats: as of `BatchNorm1d`.
        reduce: takes a vector of each process and returns the sum in each; differentiable. None
            for a process alone.
        options: `bias`, `weight_init`, `bias_init`, `device`, `dtype`, `generator`.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> layer = nn.SyncBatchNorm(1, eps=0.0, reduce=lambda x: x + x)  # two that have the same
    >>> layer(it.asarray([[1.0], [3.0]])).tolist()
    [[-1.0], [1.0]]
    """

    _ranks = (2, 3, 4, 5)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        reduce: Reduce | None = None,
        **options: Any,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, **options)
        self.reduce = reduce

    def forward(self, x: TensorLike) -> Tensor:
        given = it.asarray(x)
        uses_batch = self.training or self.running_mean is None
        if self.reduce is None or not uses_batch or given.ndim not in self._ranks:
            return super().forward(given)
        if given.shape[1] != self.num_features:
            raise ShapeError(
                f"SyncBatchNorm: x must be (batch, {self.num_features}, ...), got shape "
                f"{given.shape}"
            )
        axes = tuple(i for i in range(given.ndim) if i != 1)
        wide = given if given.dtype.itemsize > 2 else given.astype("float32")
        own = it.full((1,), given.size // self.num_features, dtype=wide.dtype, device=wide.device)
        sums = self._checked(it.concat([it.sum(wide, axis=axes), own]))
        count = sums[-1]
        shape = (-1, *(1,) * (given.ndim - 2))
        mean = sums[:-1] / count
        centered = wide - it.reshape(mean, shape)
        var = self._checked(it.sum(it.square(centered), axis=axes)) / count
        out = centered * it.reshape(it.rsqrt(var + self.eps), shape)
        if self.weight is not None:
            out = out * it.reshape(self.weight.value, shape)
        if self.bias is not None:
            out = out + it.reshape(self.bias.value, shape)
        if self.training:
            self._track(mean.detach(), var.detach(), count.detach())
        return out.astype(given.dtype)

    def _checked(self, vector: Tensor) -> Tensor:
        assert self.reduce is not None
        summed = self.reduce(vector)
        if not isinstance(summed, Tensor) or summed.shape != vector.shape:
            got = summed.shape if isinstance(summed, Tensor) else type(summed).__name__
            raise ShapeError(
                f"SyncBatchNorm: reduce must return the sum over processes, of shape "
                f"{vector.shape}, got {got}"
            )
        return summed

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, reduce: Reduce | None = None) -> Module:
        """The model with a `SyncBatchNorm` of the same parameters in place of each batch norm.

        >>> from ingle import nn
        >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
        >>> type(nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]).__name__
        'SyncBatchNorm'
        """
        from .normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d

        kinds = (BatchNorm1d, BatchNorm2d, BatchNorm3d)
        found = {p: m for p, m in module.named_modules() if type(m) in kinds}
        for path, layer in found.items():
            made = cls.__new__(cls)
            for name, value in vars(layer).items():
                setattr(made, name, value)
            made.reduce = reduce
            module = replace(module, path, made)
        return module
