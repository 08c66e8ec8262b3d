"""What a plan may know of the hardware that it will run on: its rates."""

from __future__ import annotations

from typing import NamedTuple

PER_BYTE = 16
"""Parts of a byte in which operations are weighed: whole numbers, since sizes may be symbols."""


class Rates(NamedTuple):
    """Rates of a device. They choose between plans that compute the same bits, and nothing else.

    Attributes:
        bandwidth: bytes a second through memory.
        flops: operations a second of matrix products.
        plain: what goes through memory while a kernel does one operation such as an addition on
            one element, in sixteenths of a byte.
        root: likewise for a division or a square root.
        dear: likewise for an exponential or another function that takes a polynomial; None where
            no such is computed twice, as on a processor with few lanes.
        widening: likewise for a half that becomes a float32; None for as much as `plain`.

    >>> Rates(bandwidth=1e12, flops=1e13).seconds(nbytes=1e9, flops=1e9)
    0.001
    """

    bandwidth: float = 50e9
    flops: float = 400e9
    plain: int = 8
    root: int = 64
    dear: int | None = None
    widening: int | None = None

    def seconds(self, nbytes: float, flops: float) -> float:
        """What a kernel takes if memory and arithmetic keep each other waiting for nothing."""
        return max(nbytes / self.bandwidth, flops / self.flops)


DESKTOP = Rates()
"""A desktop's processor, to a factor of two."""


def rates_of(device: object) -> Rates:
    """The rates that a device names; one that says nothing of itself is taken for a desktop."""
    found: Rates = getattr(device, "rates", DESKTOP)
    return found
