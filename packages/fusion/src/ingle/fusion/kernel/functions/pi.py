"""The bits of 2/pi, which the reduction of large angles needs: found where a kernel has one."""

from __future__ import annotations

from functools import cache
from math import ldexp

_BITS = 21 * 64


def _inverse_tangent(n: int, one: int) -> int:
    """atan(1/n) in units of 1/one, by its series."""
    power = total = one // n
    k, sign = 3, -1
    while power:
        power //= n * n
        total += sign * (power // k)
        k, sign = k + 2, -sign
    return total


@cache
def _two_over_pi() -> int:
    """The integer part of 2/pi 2**_BITS, with pi by Machin's formula."""
    one = 1 << (_BITS + 64)
    pi = 4 * (4 * _inverse_tangent(5, one) - _inverse_tangent(239, one))
    return (2 * one << _BITS) // pi


@cache
def two_over_pi_words() -> tuple[int, ...]:
    """A word of zeros, then the bits of 2/pi in words of 64."""
    found = _two_over_pi()
    return (0, *((found >> (64 * k)) & (2**64 - 1) for k in range(20, -1, -1)), 0)


@cache
def far_digits() -> tuple[tuple[float, ...], ...]:
    """The parts of 2/pi for the exponents of large float32 numbers with an integer mantissa."""
    return tuple(zip(*(_digits(e) for e in range(13 - 23, 128 - 22)), strict=True))


def _digits(exponent: int) -> tuple[float, float, float]:
    """2/pi 2**exponent mod 4 in three parts of 29 bits."""
    bits = ((_two_over_pi() << 85) >> (_BITS - exponent)) % (4 << 85)  # all three as an integer
    first, second, third = bits >> 58, (bits >> 29) & (2**29 - 1), bits & (2**29 - 1)
    return ldexp(first, -27), ldexp(second, -56), ldexp(third, -85)
