"""What quantized layers share: codes instead of a weight, and ranges of what comes in."""

from __future__ import annotations

from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError

from ..module import Module
from ..parameter import Buffer, Parameter
from .activations import static_parameters
from .config import QuantizationConfig
from .weights import codes_of, decoded, unpacked

Range = tuple[Tensor, Tensor]


class QuantizedLayer(Module):
    """Keeps a weight as codes; `weight` is what they stand for.

    Attributes:
        config: how it is quantized.
        codes: several in a byte where they are of less than 8 bits.
        scale, zero_point: of the codes; the latter for unsigned ones alone.
        input_scale, input_zero_point: of what comes in, where its range was found before.
    """

    codes: Buffer
    scale: Buffer

    def _keep(
        self,
        weight: Parameter,
        bias: Parameter | None,
        config: QuantizationConfig,
        input_range: Range | None,
    ) -> None:
        name = type(self).__name__
        if (config.activations == "static") != (input_range is not None):
            raise ArgumentError(
                f"{name}: input_range, the smallest and the largest number that comes in, belongs "
                "to activations='static', and to nothing else; quantize(model, config, "
                "calibrate=batches) finds it"
            )
        self.config = config
        self.shape = weight.shape
        kept = codes_of(weight.raw, config)
        self.codes, self.scale = Buffer(kept.values), Buffer(kept.scale)
        self.zero_point = None if kept.zero_point is None else Buffer(kept.zero_point)
        self.bias = None if bias is None else Parameter(bias.raw, requires_grad=False)
        self.input_scale: Buffer | None = None
        self.input_zero_point: Buffer | None = None
        if input_range is not None:
            low, high = (v.to_device(weight.device) for v in input_range)
            scale, zero_point = static_parameters(low, high)
            self.input_scale = Buffer(scale.astype(weight.dtype))
            self.input_zero_point = Buffer(zero_point)

    @property
    def weight(self) -> Tensor:
        """The weight that the codes stand for, in the dtype of the scale."""
        zero_point = None if self.zero_point is None else self.zero_point.raw
        return decoded(self.codes.raw, self.scale.raw, zero_point, self.shape, self.config)

    def _codes(self) -> Tensor:
        """The codes one by one, in the weight's shape."""
        return unpacked(self.codes.raw, self.shape, self.config)

    def _static(self) -> tuple[Tensor, Tensor]:
        assert self.input_scale is not None
        assert self.input_zero_point is not None
        return self.input_scale.raw, self.input_zero_point.raw

    def _said(self) -> str:
        text = f"weights={self.config.weights!r}, per={self.config.per!r}"
        if self.config.activations is not None:
            text += f", activations={self.config.activations!r}"
        return text


def recorded(x: Tensor) -> bool:
    """Whether a transform sees what is computed of a tensor: integers would end its gradient."""
    return x.backend.level > 0
