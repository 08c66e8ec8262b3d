"""A softmax for many classes of which few are frequent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.argument_checks import number, whole
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.random import Generator

from ._arguments import size
from .containers import ModuleList, Sequential
from .linear import Linear
from .module import Module


class AdaptiveLogProbs(NamedTuple):
    """What `AdaptiveLogSoftmaxWithLoss` returns.

    Attributes:
        output: the log-probability of each target.
        loss: minus their mean.
    """

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Rare classes in clusters, each one class of the frequent ones'; Grave et al. (ICML 2017).

    The classes are in the order of how frequent they are. A shape does not depend on the targets
    here: every cluster is computed for every row, so that a compiled function is one recording.

    Args:
        in_features: the size of the last axis of the input.
        n_classes: how many classes.
        cutoffs: the classes at which clusters begin, increasing.
        div_value: each cluster has as many times fewer features than the one before.
        head_bias: whether the layer of the frequent classes has a bias.
        device, dtype: of the parameters.
        generator: of the first values.

    Raises:
        ArgumentError: cutoffs that do not increase or are out of range.

    >>> import ingle.tensor as it
    >>> from ingle.nn import AdaptiveLogSoftmaxWithLoss
    >>> layer = AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0)
    >>> found = layer(it.ones((3, 8)), it.asarray([0, 5, 19]))
    >>> found.output.shape, layer.log_prob(it.ones((3, 8))).shape
    ((3,), (3, 20))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        *,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        name = "AdaptiveLogSoftmaxWithLoss"
        if not isinstance(cutoffs, Sequence) or isinstance(cutoffs, str):
            raise ArgumentError(f"{name}: cutoffs must be a list of integers, got {cutoffs!r:.80}")
        given = [whole(name, "each of cutoffs", n) for n in cutoffs]
        if not 0.0 < number(name, "div_value", div_value) < math.inf:
            raise ArgumentError(f"{name}: div_value must be above 0 and finite, got {div_value}")
        self.in_features = size(name, "in_features", in_features)
        self.n_classes = size(name, "n_classes", n_classes)
        if not given or given != sorted(set(given)) or given[0] < 1 or given[-1] >= n_classes:
            raise ArgumentError(
                f"{name}: cutoffs must increase from at least 1 to less than n_classes="
                f"{n_classes}, got {given}"
            )
        self.cutoffs = [*given, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = given[0], len(given)
        self.head_size = self.shortlist_size + self.n_clusters

        def linear(before: int, behind: int, bias: bool) -> Linear:
            return Linear(before, behind, bias, device=device, dtype=dtype, generator=generator)

        self.head = linear(in_features, self.head_size, head_bias)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            inner = max(1, int(in_features // div_value ** (i + 1)))
            count = self.cutoffs[i + 1] - self.cutoffs[i]
            both = linear(in_features, inner, False), linear(inner, count, False)
            self.tail.append(Sequential(*both))

    def forward(self, x: TensorLike, target: TensorLike) -> AdaptiveLogProbs:
        x, target = it.asarray(x), it.asarray(target)
        if target.shape != x.shape[:-1] or x.ndim not in (1, 2):
            raise ShapeError(
                f"AdaptiveLogSoftmaxWithLoss: x must be (batch, {self.in_features}) beside a "
                f"target of (batch,), or both without batch, got {x.shape} and {target.shape}"
            )
        every = self.log_prob(x)
        found = it.take_along_axis(every, it.expand_dims(target, axis=-1), axis=-1)
        output = it.squeeze(found, -1)
        return AdaptiveLogProbs(output, -it.mean(output))

    def log_prob(self, x: TensorLike) -> Tensor:
        """The log-probabilities of all classes, (..., n_classes)."""
        x = it.asarray(x)
        if x.ndim < 1 or x.shape[-1] != self.in_features:
            raise ShapeError(
                f"AdaptiveLogSoftmaxWithLoss: the last axis of x must be in_features="
                f"{self.in_features}, got shape {x.shape}"
            )
        head = it.log_softmax(self.head(x), axis=-1)
        parts = [head[..., : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            begin = self.shortlist_size + i
            parts.append(it.log_softmax(cluster(x), axis=-1) + head[..., begin : begin + 1])
        return it.concat(parts, axis=-1)

    def predict(self, x: TensorLike) -> Tensor:
        """The most likely class of each row."""
        return it.argmax(self.log_prob(x), axis=-1)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.n_classes}, cutoffs={self.cutoffs[:-1]}"
