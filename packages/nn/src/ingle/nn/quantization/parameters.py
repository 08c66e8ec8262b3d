"""Weights of layers that have several: kept as codes, and decoded where they are read."""

from __future__ import annotations

from dataclasses import replace

from ingle.tensor import Tensor

from ..attention import MultiheadAttention
from ..module import Module
from ..parameter import Parameter
from ..recurrent import GRU, LSTM, RNN
from ..utils.parametrize import register_parametrization
from .config import QuantizationConfig
from .weights import codes_of, decoded

OWNERS = (MultiheadAttention, RNN, LSTM, GRU)
"""Layers whose matrices are parameters of their own, not layers inside."""


class WeightCodes(Module):
    """The parametrization of a weight by its codes.

    Args:
        config: how it is quantized.
        shape: of the weight.
    """

    def __init__(self, config: QuantizationConfig, shape: tuple[int, ...]) -> None:
        self.config, self.shape = config, shape

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, ...]:
        """Codes, scale, and zero point if there is one, of a weight."""
        return tuple(part for part in codes_of(weight, self.config) if part is not None)

    def forward(self, codes: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> Tensor:
        return decoded(codes, scale, zero_point, self.shape, self.config)

    def extra_repr(self) -> str:
        return f"weights={self.config.weights!r}, per={self.config.per!r}"


def quantize_parameter(module: Module, name: str, config: QuantizationConfig) -> Module:
    """Keeps one parameter of a module, a matrix, as codes; it is frozen by that.

    Args:
        module: whose parameter, which is changed.
        name: the parameter's.
        config: how; activations play no part.

    >>> from ingle import nn
    >>> layer = nn.quantize_parameter(nn.LSTM(8, 4), "weight_ih_l0", nn.QuantizationConfig())
    >>> layer.parametrizations["weight_ih_l0"].original0.dtype, layer.weight_ih_l0.shape
    (int8, (16, 8))
    """
    plain = replace(config, activations=None)
    held = vars(module).get(name)
    if isinstance(held, Parameter):
        setattr(module, name, Parameter(held.raw, requires_grad=False))
        return register_parametrization(module, name, WeightCodes(plain, held.shape))
    # It says what there is.
    return register_parametrization(module, name, WeightCodes(plain, ()))


def matrices(module: Module) -> list[str]:
    """The parameters of a layer that are matrices."""
    return [n for n, p in module.named_parameters(recurse=False) if p.ndim == 2]
