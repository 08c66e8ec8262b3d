"""Four bits for numbers that are normally distributed: as many of them near each code.

Dettmers et al.: QLoRA (NeurIPS 2023), appendix E: quantiles of the normal distribution, eight at
one side and nine at the other, so that 0 is one of them, divided by the largest.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import ingle.tensor as it
from ingle.tensor import Device, Tensor

_OUTERMOST = 0.9677083
"""The paper's quantile of the largest code: between 1 - 1/30 and 1 - 1/32."""


@cache
def values() -> tuple[float, ...]:
    """The 16 numbers, from -1 to 1.

    >>> from ingle.nn.quantization.normal_floats import values
    >>> [round(v, 4) for v in values()[:3]], values()[7]
    ([-1.0, -0.6962, -0.5251], 0.0)
    """
    from statistics import NormalDist  # with fractions and decimals, for few programs

    quantile = NormalDist().inv_cdf

    def side(count: int) -> list[float]:
        step = (_OUTERMOST - 0.5) / count
        return [quantile(_OUTERMOST - i * step) for i in range(count)]

    found = sorted([*side(8), 0.0, *(-v for v in side(7))])
    return tuple(v / found[-1] for v in found)


def table(device: Device, dtype: object) -> Tensor:
    """The 16 numbers as a tensor."""
    return it.asarray(list(values()), dtype=dtype, device=device)


def nearest(x: Tensor) -> Tensor:
    """The number of the nearest of the 16 values, for numbers from -1 to 1."""
    known = values()
    middles = [(a + b) / 2 for a, b in pairwise(known)]
    codes = it.zeros(x.shape, dtype="uint8", device=x.device)
    for middle in middles:
        codes = codes + it.astype(x > middle, "uint8")
    return codes
