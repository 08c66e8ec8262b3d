"""The bits of 2/pi, which the reduction of large angles needs."""

from __future__ import annotations

from fractions import Fraction


def _inverse_tangent(n: int, one: int) -> int:
    """atan(1/n) in units of 1/one, by its series."""
    power = total = one // n
    k, sign = 3, -1
    while power:
        power //= n * n
        total += sign * (power // k)
        k, sign = k + 2, -sign
    return total


def _two_over_pi(bits: int) -> int:
    """The integer part of 2/pi 2**bits, with pi by Machin's formula."""
    one = 1 << (bits + 64)
    pi = 4 * (4 * _inverse_tangent(5, one) - _inverse_tangent(239, one))
    return (2 * one << bits) // pi


_BITS = 21 * 64
_FRACTION = _two_over_pi(_BITS)

TWO_OVER_PI_WORDS = (0, *((_FRACTION >> (64 * k)) & (2**64 - 1) for k in range(20, -1, -1)), 0)
"""A word of zeros, then the bits of 2/pi in words of 64."""


def _digits(exponent: int) -> tuple[float, float, float]:
    """2/pi 2**exponent mod 4 in three parts of 29 bits."""
    value = Fraction(_FRACTION, 1 << _BITS) * Fraction(2) ** exponent % 4
    parts = []
    for place in (27, 56, 85):
        part = Fraction(int(value * 2**place), 2**place)
        parts.append(float(part))
        value -= part
    return parts[0], parts[1], parts[2]


FAR_DIGITS = tuple(zip(*(_digits(e) for e in range(13 - 23, 128 - 22)), strict=True))
"""The parts for the exponents of large float32 numbers with an integer mantissa."""
