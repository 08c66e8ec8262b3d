"""How a GPU's memory and arithmetic compare, for who weighs computing again against reading."""

from __future__ import annotations

from ingle.fusion.device import DESKTOP, PER_BYTE, Rates

from .devices import Limits

_LANES = 128
"""Operations in float32 that a multiprocessor begins in each cycle."""
_ROOT = 8
"""Of these, what a division or a square root takes."""
_DEAR = 20
"""And an exponential or an error function."""


def gpu_rates(limits: Limits) -> Rates:
    """How a GPU's memory and arithmetic compare; a desktop's where it does not say.

    >>> h100 = Limits(0, "H100", 132, "sm_90", 80 << 30, bandwidth=3.35e12, clock=1.98e9)
    >>> gpu_rates(h100).plain, gpu_rates(h100).root, gpu_rates(h100).dear
    (2, 16, 40)
    """
    operations = limits.processors * _LANES * limits.clock
    if not operations or not limits.bandwidth:
        return DESKTOP
    plain = max(1, round(PER_BYTE * limits.bandwidth / operations))
    return Rates(limits.bandwidth, 2 * operations, plain, _ROOT * plain, _DEAR * plain, widening=0)
