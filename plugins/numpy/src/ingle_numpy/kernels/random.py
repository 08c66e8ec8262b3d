"""Random bits, a cache-sized part of the counters at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op
from ingle.tensor.ops.random_bits import MASK, PARITY, ROTATIONS

_PART = 1 << 13


def _random_bits(op: Op, *words: np.ndarray) -> np.ndarray:
    shape = op.attributes["shape"]
    count = math.prod(shape)
    key_low, key_high, low, high = (int(w) for w in words)
    out = np.empty((count + 1) // 2 * 2, np.uint32)
    pairs = out.reshape(-1, 2)
    keys = (key_low, key_high, PARITY ^ key_low ^ key_high)
    for start in range(0, len(pairs), _PART):
        part = pairs[start : start + _PART]
        counters = np.arange(start, start + len(part), dtype=np.uint64) + np.uint64(low)
        x0 = counters.astype(np.uint32)
        x1 = (counters >> np.uint64(32)).astype(np.uint32) + np.uint32(high)
        part[:, 0], part[:, 1] = _threefry(keys, x0, x1)
    return out[:count].reshape(shape)


def _threefry(
    keys: tuple[int, int, int], x0: np.ndarray, x1: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    turned = np.empty_like(x1)
    x0 += np.uint32(keys[0])
    x1 += np.uint32(keys[1])
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x0 += x1
            np.left_shift(x1, rotation, out=turned)
            x1 >>= 32 - rotation
            x1 |= turned
            x1 ^= x0
        x0 += np.uint32(keys[(group + 1) % 3])
        x1 += np.uint32((keys[(group + 2) % 3] + group + 1) & MASK)
    return x0, x1


KERNELS: dict[str, Callable[..., Any]] = {"random_bits": _random_bits}
