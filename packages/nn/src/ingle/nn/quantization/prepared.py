"""Layers on their way: they watch what comes in, and may compute as their codes would."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike

from ..convolution import Conv1d, Conv2d, Conv3d
from ..embedding import Embedding
from ..linear import Linear
from ..module import Module
from .activations import faked_dynamic, faked_static, static_parameters
from .config import QuantizationConfig
from .observers import Observer, observer_of
from .weights import faked

P = TypeVar("P", bound="_Prepared")


class _Prepared(Module):
    """A layer with the same parameters under the same names as the one that it is made of.

    Attributes:
        config: what it will be quantized to.
        rounds: whether weights and activations pass through their codes, as in quantization-aware
            training; else they are only watched.
        observer: the range of what comes in, with `activations="static"`.
    """

    config: QuantizationConfig
    rounds: bool
    observer: Observer | None
    weight: Any

    @classmethod
    def of(cls: type[P], base: Module, config: QuantizationConfig, rounds: bool) -> P:
        """Such a layer in the place of another, whose parameters it takes over."""
        made = cls.__new__(cls)
        for name, value in vars(base).items():
            setattr(made, name, value)
        made.config, made.rounds = config, rounds
        static = config.activations == "static"
        made.observer = observer_of(config, training=rounds) if static else None
        return made

    def _input(self, x: TensorLike, kept: tuple[int, ...]) -> Tensor:
        """What comes in, watched, and rounded if it shall be; rows along `kept` stay apart."""
        given = it.asarray(x)
        if self.observer is not None:
            if self.training or not self.rounds:
                self.observer(given)
            if self.rounds:
                scale, zero_point = static_parameters(*self.observer.range())
                dtype, device = given.dtype, given.device
                scale = scale.astype(dtype).to_device(device)
                return faked_static(given, scale, zero_point.to_device(device))
        elif self.rounds and self.config.activations == "dynamic":
            return faked_dynamic(given, kept)
        return given

    def _weight(self) -> Tensor:
        weight = it.asarray(self.weight)
        return faked(weight, self.config) if self.rounds else weight

    def _restored(self, kind: type[Module]) -> Any:
        """The plain layer, with the parameters as they are now."""
        made = kind.__new__(kind)
        for name, value in vars(self).items():
            if name not in ("config", "rounds", "observer"):
                setattr(made, name, value)
        return made


class PreparedLinear(_Prepared, Linear):
    """A linear layer before it is quantized."""

    def forward(self, x: TensorLike) -> Tensor:
        given = it.asarray(x)
        given = self._input(given, tuple(range(given.ndim - 1)))
        return it.linear(given, self._weight(), self.bias)


class _PreparedConv(_Prepared):
    def forward(self, x: TensorLike) -> Tensor:
        layer = cast(Any, self)
        given = it.asarray(x)
        batched = given.ndim == layer._axes + 2
        given = self._input(given, (0,) if batched else ())
        convolution = (it.conv1d, it.conv2d, it.conv3d)[layer._axes - 1]
        return convolution(given, self._weight(), layer.bias, **layer._options())


class PreparedConv1d(_PreparedConv, Conv1d):
    """A convolution before it is quantized."""


class PreparedConv2d(_PreparedConv, Conv2d):
    """A convolution before it is quantized."""


class PreparedConv3d(_PreparedConv, Conv3d):
    """A convolution before it is quantized."""


class PreparedEmbedding(_Prepared, Embedding):
    """A table before it is quantized."""

    def forward(self, indices: TensorLike) -> Tensor:
        rows: Tensor = it.embedding(indices, self._weight(), padding_idx=self.padding_idx)
        return rows


PREPARED: dict[type[Module], type[_Prepared]] = {
    Linear: PreparedLinear,
    Conv1d: PreparedConv1d,
    Conv2d: PreparedConv2d,
    Conv3d: PreparedConv3d,
    Embedding: PreparedEmbedding,
}


def is_prepared(module: Module) -> bool:
    """Whether it is a layer on its way."""
    return isinstance(module, _Prepared)


def plain_kind(module: Module) -> type[Module]:
    """The class of the layer that a prepared one was made of."""
    return next(kind for kind, made in PREPARED.items() if type(module) is made)
