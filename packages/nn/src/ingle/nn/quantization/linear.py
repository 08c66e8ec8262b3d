"""Linear layers whose weight is kept as codes."""

from __future__ import annotations

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike

from ..linear import Linear
from .activations import STATIC, faked_dynamic, faked_static, rows_of
from .base import QuantizedLayer, Range, recorded
from .config import QuantizationConfig

BLOCKS_OF_FOUR_BITS = QuantizationConfig("int4", per=32)
INTEGERS = ("int8", "uint8", "int4", "uint4", "int2", "uint2")
"""Codes that `quantized_linear` multiplies by."""


class QuantizedLinear(QuantizedLayer):
    """A frozen linear layer whose weight is kept as codes of few bits.

    With activations in codes, too, and a scale for each row of the weight or for all, the product
    is one of bytes (`matmul_integer`); Jacob et al.: Quantization and training of neural networks
    for efficient integer-arithmetic-only inference (CVPR 2018). Otherwise the weight is made of its
    codes each time. Where gradients are recorded, products of codes are computed as those of the
    numbers that they stand for, with the gradient of the input going through the rounding.

    Args:
        base: the layer whose values are taken.
        config: how; int4 in blocks of 32 if not given.
        input_range: the smallest and the largest number that comes in, for `activations="static"`.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> layer = nn.QuantizedLinear(nn.Linear(64, 8))
    >>> layer(it.ones((2, 64))).shape, layer.codes.shape, layer.weight.shape
    ((2, 8), (8, 32), (8, 64))
    """

    def __init__(
        self,
        base: Linear,
        config: QuantizationConfig = BLOCKS_OF_FOUR_BITS,
        *,
        input_range: Range | None = None,
    ) -> None:
        self.in_features, self.out_features = base.in_features, base.out_features
        self._keep(base.weight, base.bias, config, input_range)

    def forward(self, x: TensorLike) -> Tensor:
        given = it.asarray(x)
        if self.config.activations is None:
            return self._by_weight(given)
        if self.config.integer_products and not recorded(given):
            return self._by_integers(given)
        if self.config.activations == "static":
            given = faked_static(given, *self._static())
        else:
            given = faked_dynamic(given, tuple(range(given.ndim - 1)))
        return it.linear(given, self.weight, self.bias)

    def _by_weight(self, x: Tensor) -> Tensor:
        if self.config.weights not in INTEGERS:
            return it.linear(x, self.weight, self.bias)
        zero_point = None if self.zero_point is None else self.zero_point.raw
        out = it.quantized_linear(
            x, self.codes.raw, self.scale.raw, zero_point, dtype=self.config.weights
        )
        return self._shifted(out)

    def _by_integers(self, x: Tensor) -> Tensor:
        rows, codes = rows_of(x), it.matrix_transpose(it.astype(self._codes(), "int8"))
        if self.config.activations == "dynamic":
            q = it.quantize_dynamic(rows, axis=0)
            sums, scale = it.matmul_integer(q.values, codes), q.scale
        else:
            scale, zero_point = self._static()
            given = it.quantize(rows, scale, zero_point, dtype=STATIC)
            sums = it.matmul_integer(given, codes)
            # What the zero point adds to each sum does not depend on what comes in.
            sums = sums - zero_point * it.sum(codes, axis=0, dtype="int32")
        by_row = it.reshape(self.scale.raw, (1, -1))
        out = it.astype(sums, self.scale.dtype) * (scale.astype(self.scale.dtype) * by_row)
        out = self._shifted(out)
        return it.astype(it.reshape(out, (*x.shape[:-1], self.out_features)), x.dtype)

    def _shifted(self, out: Tensor) -> Tensor:
        return out if self.bias is None else out + self.bias.raw

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, {self._said()}"
        )
