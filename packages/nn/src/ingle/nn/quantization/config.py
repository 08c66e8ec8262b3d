"""What is quantized to what: one record for a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ingle.tensor.errors import ArgumentError

WEIGHTS = ("int8", "int4", "int2", "uint8", "uint4", "uint2", "float8_e4m3fn", "float8_e5m2", "nf4")
"""Codes of weights: signed ones and float8 around 0, unsigned ones with a zero point, and the 4-bit
normal floats of Dettmers et al.: QLoRA (NeurIPS 2023)."""


@dataclass(frozen=True, slots=True)
class QuantizationConfig:
    """How a layer is quantized.

    Args:
        weights: codes of the weight: `"int8"`, `"int4"`, `"int2"`, `"uint8"`, `"uint4"`, `"uint2"`,
            `"float8_e4m3fn"`, `"float8_e5m2"` or `"nf4"`.
        per: what shares a scale: `"tensor"`, `"channel"` (a row of the weight), or so many
            neighbours in a row; where they do not divide it, the largest number that divides both.
        weight_method: `"minmax"` lets codes reach to the largest weight; `"mse"` cuts off where the
            squared error is least; `"absmean"` is BitNet's, for int2.
        activations: None leaves what comes in as it is; `"dynamic"` quantizes each row of it to
            int8 by its own largest value; `"static"` to uint8 by a range that was found before.
        activation_method: how `"static"` finds it: `"minmax"`, `"moving"` (an average of minima and
            maxima), `"percentile"`, or `"mse"`.
        percentile: of activations that lie inside, for `"percentile"`.

    Raises:
        ArgumentError: an option is none of these.

    >>> from ingle.nn import QuantizationConfig
    >>> QuantizationConfig("int4", per=32).weights
    'int4'
    """

    weights: str = "int8"
    per: Literal["tensor", "channel"] | int = "channel"
    weight_method: Literal["minmax", "mse", "absmean"] = "minmax"
    activations: Literal["dynamic", "static"] | None = None
    activation_method: Literal["minmax", "moving", "percentile", "mse"] = "minmax"
    percentile: float = 99.99

    def __post_init__(self) -> None:
        for name, allowed in (
            ("weights", WEIGHTS),
            ("weight_method", ("minmax", "mse", "absmean")),
            ("activations", (None, "dynamic", "static")),
            ("activation_method", ("minmax", "moving", "percentile", "mse")),
        ):
            value = getattr(self, name)
            if value not in allowed:
                raise ArgumentError(
                    f"QuantizationConfig: {name} must be one of "
                    f"{', '.join(map(repr, allowed))}, got {value!r}"
                )
        per = self.per
        if per not in ("tensor", "channel") and (
            isinstance(per, bool) or not isinstance(per, int) or per < 1
        ):
            raise ArgumentError(
                "QuantizationConfig: per must be 'tensor', 'channel' or a block's size, got "
                f"{per!r}"
            )
        if not 50.0 < self.percentile <= 100.0:
            raise ArgumentError(
                f"QuantizationConfig: percentile must be above 50, at most 100; got "
                f"{self.percentile}"
            )

    @property
    def affine(self) -> bool:
        """Whether weights have zero points."""
        return self.weights.startswith("uint")

    @property
    def integer_products(self) -> bool:
        """Whether products are sums of integers, scaled behind the sum."""
        whole_rows = self.per in ("tensor", "channel")
        signed = self.weights in ("int8", "int4", "int2")
        return self.activations is not None and whole_rows and signed
