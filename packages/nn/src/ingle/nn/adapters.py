"""Low-rank changes of frozen layers: LoRA, and QLoRA where the frozen weight is quantized."""

from __future__ import annotations

import fnmatch
import math
from typing import Any, TypeVar

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, OperandError
from ingle.tensor.random import Generator

from ._arguments import size
from .dropout import Dropout
from .init import KaimingUniform
from .linear import Linear
from .module import Module
from .parameter import Parameter
from .placing import replace
from .quantization import QuantizationConfig, QuantizedLinear

M = TypeVar("M", bound=Module)


class LoRALinear(Module):
    """A frozen linear layer plus a trained product of two thin matrices; Hu et al. (ICLR 2022).

    It starts as the layer alone, since `lora_B` is zero.

    Args:
        base: a `Linear`, which is frozen, or a `QuantizedLinear`.
        r: the rank.
        alpha: the product is multiplied by alpha / r; by 1 if not given.
        dropout: of what goes into the product.
        generator: of the first values and of the dropout.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> layer = nn.LoRALinear(nn.Linear(8, 4), r=2)
    >>> [name for name, p in layer.named_parameters() if p.requires_grad]
    ['lora_A', 'lora_B']
    """

    def __init__(
        self, base: Linear | QuantizedLinear, r: int = 8, alpha: float | None = None,
        dropout: float = 0.0, *, generator: Generator | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(base, (Linear, QuantizedLinear)):
            raise OperandError(
                f"LoRALinear: base must be a Linear or QuantizedLinear, got {type(base).__name__}"
            )
        self.r = size("LoRALinear", "r", r)
        self.scaling = 1.0 if alpha is None else alpha / r
        self.base = base.freeze()
        like = base.weight
        place: Any = (like.dtype, like.device, generator)
        self.lora_A = Parameter(KaimingUniform(math.sqrt(5.0))((r, base.in_features), *place))
        self.lora_B = Parameter(
            it.zeros((base.out_features, r), dtype=like.dtype, device=like.device)
        )
        self.lora_dropout = Dropout(dropout, generator=generator)

    def forward(self, x: TensorLike) -> Tensor:
        low = it.linear(self.lora_dropout(x), self.lora_A)
        out: Tensor = self.base(x) + it.linear(low, self.lora_B) * self.scaling
        return out

    def merged(self) -> Linear:
        """A plain layer that computes the same."""
        bias = self.base.bias
        layer = Linear(self.base.in_features, self.base.out_features, bias is not None)
        change = self.lora_B.raw @ self.lora_A.raw * self.scaling
        layer.weight = Parameter(it.asarray(self.base.weight).detach() + change)
        if bias is not None:
            layer.bias = Parameter(bias.raw)
        return layer

    def extra_repr(self) -> str:
        return f"r={self.r}, scaling={self.scaling}"


def apply_lora(
    model: M, *paths: str, r: int = 8, alpha: float | None = None, dropout: float = 0.0,
    quantize: str | QuantizationConfig | None = None, generator: Generator | None = None,
) -> M:  # fmt: skip
    """Freezes a model and gives its linear layers LoRA; changes the model and returns it.

    Args:
        model: holds the layers.
        paths: globs of paths of linear layers, such as `"*.q_proj"`; all of them if none.
        r, alpha, dropout, generator: see `LoRALinear`.
        quantize: `"nf4"`, `"int4"` or `"int8"` to keep frozen weights as codes, in blocks of 32; or
            how exactly. Dettmers et al.: QLoRA (NeurIPS 2023).

    Raises:
        ArgumentError: no linear layer has such a path.

    >>> from ingle import nn
    >>> model = nn.apply_lora(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), "2", r=2)
    >>> [name for name, p in model.named_parameters() if p.requires_grad]
    ['2.lora_A', '2.lora_B']
    """
    linear = {p: m for p, m in model.named_modules() if isinstance(m, Linear) and p}
    chosen = {
        p: m
        for p, m in linear.items()
        if not paths or any(fnmatch.fnmatchcase(p, g) for g in paths)
    }
    if not chosen:
        raise ArgumentError(
            f"apply_lora: no linear layer's path matches {', '.join(paths) or '*'}; there are "
            f"{', '.join(linear) or 'none'}"
        )
    config = QuantizationConfig(quantize, per=32) if isinstance(quantize, str) else quantize
    if config is not None and config.activations == "static":
        raise ArgumentError(
            "apply_lora: activations='static' would freeze ranges that training moves; leave "
            "activations out, or use prepare(model, config, train=True)"
        )
    model.freeze()
    for path, layer in chosen.items():
        base = layer if config is None else QuantizedLinear(layer, config)
        replace(model, path, LoRALinear(base, r, alpha, dropout, generator=generator))
    return model


def merge_lora(model: M) -> M:
    """Plain linear layers in place of those with LoRA; changes the model and returns it.

    >>> from ingle import nn
    >>> model = nn.merge_lora(nn.apply_lora(nn.Sequential(nn.Linear(4, 2))))
    >>> type(model[0]).__name__
    'Linear'
    """
    found = {p: m for p, m in model.named_modules() if isinstance(m, LoRALinear)}
    for path, layer in found.items():
        replace(model, path, layer.merged())
    return model
