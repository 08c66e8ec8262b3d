"""float16 and bfloat16 to and from float32 by integer arithmetic, and casts that go through it."""

from __future__ import annotations

from collections.abc import Callable

from ..code import HALVES
from ..expression import Expression, where


def cast(dtype: str, x: Expression) -> Expression:
    """A cast from or to a half type that the target lacks."""
    source = x.dtype
    if source in HALVES:
        if dtype == "bool":
            return (x.bitcast("uint16") & 0x7FFF).differs(0)
        if dtype != "float32":
            return x.cast("float32").cast(dtype)
        return _from_float16(x) if source == "float16" else _from_bfloat16(x)
    if source == "bool":
        return where(x, x.constant(1.0, dtype), 0.0)
    if source == "float64" and dtype == "float16":
        return _odd(x).cast("float16")
    if source != "float32":
        return x.cast("float32").cast(dtype)
    return _to_float16(x) if dtype == "float16" else _to_bfloat16(x)


def _odd(x: Expression) -> Expression:
    """float64 as float32, rounded to odd, so that rounding again is rounding once."""
    near = x.cast("float32")
    back = near.cast("float64")
    bits = near.bitcast("int32")
    # One step towards zero if it was rounded away from it, then the last bit is set.
    beyond = abs(back) > abs(x)
    toward = where(beyond, bits - 1, bits) | 1
    return where(back.equals(x) | x.is_nan(), bits, toward).bitcast("float32")


def _from_bfloat16(x: Expression) -> Expression:
    return (x.bitcast("uint16").cast("uint32") << 16).bitcast("float32")


def _to_bfloat16(x: Expression) -> Expression:
    bits = x.bitcast("uint32")
    even = bits + ((bits >> 16) & 1) + 0x7FFF
    quiet = bits | 0x400000
    return (where(x.is_nan(), quiet, even) >> 16).cast("uint16").bitcast("bfloat16")


def _from_float16(x: Expression) -> Expression:
    bits = x.bitcast("uint16").cast("uint32")
    size = bits & 0x7FFF
    shifted = (size << 13).bitcast("float32")
    # The exponent's bias grows from 15 to 127; infinity and NaN have all its bits.
    number = where(size >= 0x7C00, ((size << 13) | 0x7F800000).bitcast("float32"),
                   shifted * 2.0**112)  # fmt: skip
    # A float32 with those bits is denormal where the float16 is: count its units instead.
    small = size.bitcast("int32").cast("float32") * 2.0**-24
    number = where(size < 0x400, small, number)
    return (number.bitcast("uint32") | ((bits & 0x8000) << 16)).bitcast("float32")


def _to_float16(x: Expression) -> Expression:
    bits = x.bitcast("uint32")
    sign = (bits >> 16) & 0x8000
    size = bits & 0x7FFFFFFF
    # Normal: rounded to even at bit 13, with the bias moved; what overflows becomes infinity.
    rounded = (size + 0xFFF + ((size >> 13) & 1) - (112 << 23)) >> 13
    # Denormal: the unit of float16's smallest numbers is the last place of 1/2.
    small = (abs(x) + 0.5).bitcast("uint32") - 0x3F000000
    out = where(size < (113 << 23), small, rounded)
    out = where(size >= 0x477FF000, 0x7C00, out)
    payload = ((size >> 13) & 0x3FF) | 0x7E00
    out = where(size > 0x7F800000, payload, out)
    return (out | sign).cast("uint16").bitcast("float16")


EXPANSIONS: dict[str, Callable[..., Expression]] = {"cast": cast}
