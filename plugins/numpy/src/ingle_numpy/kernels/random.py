"""Random bits and what is made of them, a cache-sized part of the counters at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ingle.tensor.dtypes import float64
from ingle.tensor.operation import Op
from ingle.tensor.ops.random.bits import MASK, PARITY, ROTATIONS
from ingle.tensor.ops.random.uniform import BITS

from .normal import inverse_normal

Array = np.ndarray[Any, Any]

_PART = 1 << 14
"""Blocks of two words."""


def _random_bits(op: Op, *words: Array) -> Array:
    count = math.prod(op.attributes["shape"])
    out = np.empty(count, np.uint32)
    for here, bits in _parts(count, words):
        out[here] = bits[: count - here.start]
    return out.reshape(op.attributes["shape"])


def _random_pairs(op: Op, *words: Array) -> Array:
    count = math.prod(op.attributes["shape"])
    out = np.empty(count, np.uint64)
    for here, bits in _parts(2 * count, words):
        pairs = bits.astype(np.uint64)
        out[here.start // 2 : here.stop // 2] = pairs[0::2] << np.uint64(32) | pairs[1::2]
    return out.reshape(op.attributes["shape"])


def _random_uniform(op: Op, *words: Array) -> Array:
    return _filled(op, words, op.attributes["dtype"], 0, lambda u: u)


def _random_normal(op: Op, *words: Array) -> Array:
    to = op.attributes["dtype"]
    wide = to if to is float64 else next(d for d in BITS if d.name == "float32")
    return _filled(op, words, wide, 1, inverse_normal)


def _filled(
    op: Op, words: tuple[Array, ...], drawn: Any, least: int, function: Callable[[Array], Array]
) -> Array:
    """A function of uniform floats of the dtype `drawn`, whose last bit is `least` at least."""
    count, each = math.prod(op.attributes["shape"]), 2 if drawn is float64 else 1
    out = np.empty(count, op.attributes["dtype"].dtype)
    for here, bits in _parts(count * each, words):
        start = here.start // each
        values = function(_uniform(bits, drawn, least))
        out[start : start + len(values)] = values[: count - start]
    return out.reshape(op.attributes["shape"])


def _uniform(bits: Array, dtype: Any, least: int) -> Array:
    """Floats in [0, 1) of one word each, or of two for a float64; every step is exact."""
    if dtype is not float64:
        whole = bits >> np.uint32(32 - BITS[dtype]) | np.uint32(least)
        values: Array = whole.astype(np.float32)
        values *= np.float32(2.0 ** -BITS[dtype])
        return values
    high, low = bits[0::2] >> np.uint32(6), bits[1::2] >> np.uint32(5) | np.uint32(least)
    doubles: Array = high.astype(np.float64) * 2.0**-26 + low.astype(np.float64) * 2.0**-53
    return doubles


def _parts(count: int, words: tuple[Array, ...]) -> Iterator[tuple[slice, Array]]:
    """The first `count` words of a place and perhaps one more, with where they belong."""
    key_low, key_high, low, high = (int(w) for w in words)
    keys = (key_low, key_high, PARITY ^ key_low ^ key_high)
    for start in range(0, (count + 1) // 2, _PART):
        size = min(_PART, (count + 1) // 2 - start)
        counters = np.arange(start, start + size, dtype=np.uint64) + np.uint64(low)
        x0 = counters.astype(np.uint32)
        x1 = (counters >> np.uint64(32)).astype(np.uint32) + np.uint32(high)
        pairs = np.empty((size, 2), np.uint32)
        pairs[:, 0], pairs[:, 1] = _threefry(keys, x0, x1)
        yield slice(2 * start, 2 * (start + size)), pairs.reshape(-1)


def _threefry(keys: tuple[int, int, int], x0: Array, x1: Array) -> tuple[Array, Array]:
    turned = np.empty_like(x1)
    x0 += np.uint32(keys[0])
    x1 += np.uint32(keys[1])
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x0 += x1
            np.left_shift(x1, np.uint32(rotation), out=turned)
            x1 >>= np.uint32(32 - rotation)
            x1 |= turned
            x1 ^= x0
        x0 += np.uint32(keys[(group + 1) % 3])
        x1 += np.uint32((keys[(group + 2) % 3] + group + 1) & MASK)
    return x0, x1


KERNELS: dict[str, Callable[..., Any]] = {
    "random_bits": _random_bits,
    "random_normal": _random_normal,
    "random_pairs": _random_pairs,
    "random_uniform": _random_uniform,
}
