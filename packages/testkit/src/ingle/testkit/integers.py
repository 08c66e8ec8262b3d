"""Integers of each width: all of their bits, and what lies beyond the last of them.

A kernel that computes them in floats is right up to 2^24 or 2^53, one that takes unsigned numbers
for signed ones below half of what they hold, and one that saturates until a sum leaves the dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor, asarray

from .checks import Findings

NUMBERS = {
    "int64": [2**53 + 1, -(2**53) - 3, 2**62 + 1, 1 - 2**63, 2**63 - 1, 2**31 + 1],
    "uint64": [2**53 + 1, 2**63 + 3, 2**64 - 1, 7, 2**63 - 1, 2**31 + 1],
    "int32": [2**24 + 1, -(2**24) - 3, 2**30 + 1, 1 - 2**31, 2**31 - 1, 2**16 + 1],
    "uint32": [2**24 + 1, 2**31 + 3, 2**32 - 1, 7, 2**31 - 1, 2**16 + 1],
    "int16": [32767, -32768, 20000, -7, 1, 257],
    "uint16": [65535, 32768, 20000, 7, 1, 257],
    "int8": [127, -128, 100, -7, 1, 64],
    "uint8": [255, 128, 100, 7, 1, 64],
}
"""Of each dtype numbers that floats of its width have not, and those at its ends."""
_SMALL = [3, 7, 5, 2, 4, 1]
_ORDER = [5, 3, 1, 0, 2, 4]
_AS_INDICES = 4
"""Bytes of the dtypes whose numbers others are full of: sizes and indices."""


def check_integers(where: str, dtype: str, unsupported: Collection[str] = ()) -> None:
    """Integers keep all of their bits, and wrap around where they leave their dtype.

    Args:
        where: the device.
        dtype: a key of `NUMBERS`.
        unsupported: names of operations to leave out, or of one in a dtype (`"sort:uint64"`).
    """
    findings = Findings(f"{dtype} on {where}")
    for name, (compute, expected) in _calls(where, dtype, NUMBERS[dtype]).items():
        if not {name, f"{name}:{dtype}"} & set(unsupported):
            with findings.at(name):
                got = compute().numpy()
                assert got.dtype == np.asarray(expected).dtype
                assert np.array_equal(got, expected), f"got {got}, expected {expected}"
    findings.close()


def _calls(
    where: str, dtype: str, numbers: list[int]
) -> dict[str, tuple[Callable[[], Tensor], Any]]:
    """What is computed of the numbers, by the name of the operation; NumPy's wrap around."""
    wide, small, order = np.array(numbers, dtype), np.array(_SMALL, dtype), np.array(_ORDER)
    x, y, places = (asarray(a, device=where) for a in (wide, small, order))
    largest = int(np.iinfo(dtype).max)
    one = np.ones((), dtype)
    with np.errstate(over="ignore"):
        calls: dict[str, tuple[Callable[[], Tensor], Any]] = {
            "transfer": (lambda: x, wide),
            "negative": (lambda: it.negative(x), np.negative(wide)),
            "abs": (lambda: it.abs(x), np.abs(wide)),
            "sign": (lambda: it.sign(x), np.sign(wide)),
            "add": (lambda: x + x, wide + wide),
            "subtract": (lambda: y - x, small - wide),
            "multiply": (lambda: x * y, wide * small),
            "square": (lambda: x * x, wide * wide),
            "add a number": (lambda: x + 1, wide + one),
            "floor_divide": (lambda: x // y, wide // small),
            "floor_divide by them": (lambda: y // x, small // wide),
            "remainder": (lambda: x % y, wide % small),
            "bitwise_and": (lambda: x & (x - 1), wide & (wide - one)),
            "bitwise_or": (lambda: x | y, wide | small),
            "bitwise_xor": (lambda: x ^ y, wide ^ small),
            "bitwise_invert": (lambda: ~x, ~wide),
            "bitwise_left_shift": (lambda: x << y, wide << small),
            "bitwise_right_shift": (lambda: x >> y, wide >> small),
            "equal": (lambda: x == x + 1, wide == wide + one),
            "less": (lambda: x < y, wide < small),
            "less_equal": (lambda: x <= x - 1, wide <= wide - one),
            "greater": (lambda: it.reshape(x, (6, 1)) > x, wide[:, None] > wide),
            "maximum": (lambda: it.maximum(x, y), np.maximum(wide, small)),
            "minimum": (lambda: it.minimum(x, x - 1), np.minimum(wide, wide - one)),
            "where": (lambda: it.where(y > 2, x, y), np.where(small > 2, wide, small)),
            "prod": (lambda: it.prod(x[:3], dtype=dtype), np.prod(wide[:3], dtype=dtype)),
            "sum": (lambda: it.sum(x, dtype=dtype), np.sum(wide, dtype=dtype)),
            "max": (lambda: it.max(x), wide.max()),
            "min": (lambda: it.min(x), wide.min()),
            "argmax": (lambda: it.argmax(x), np.int64(wide.argmax())),
            "argmin": (lambda: it.argmin(x), np.int64(wide.argmin())),
            "take": (lambda: it.take(x, places), wide[order]),
            "concat": (lambda: it.concat([x, y]), np.concatenate([wide, small])),
            "flip": (lambda: x[::-1], wide[::-1]),
            "sort": (lambda: it.sort(x), np.sort(wide)),
            "argsort": (lambda: it.argsort(x), np.argsort(wide, kind="stable")),
            "scatter_add": (
                lambda: it.scatter_add(y, places, x, axis=0), _scattered(small, order, wide),
            ),
            "full": (
                lambda: it.full((2,), largest, dtype=dtype, device=where),
                np.full(2, largest, dtype),
            ),
            "astype bool": (lambda: x.astype("bool"), wide.astype(bool)),
            "astype float64": (lambda: x.astype("float64"), wide.astype(np.float64)),
            "astype int64": (lambda: x.astype("int64"), wide.astype(np.int64)),
            "astype uint8": (lambda: x.astype("uint8"), wide.astype(np.uint8)),
        }  # fmt: skip
        if np.dtype(dtype).itemsize >= _AS_INDICES:
            calls["arange"] = (
                lambda: it.arange(largest - 3, largest, dtype=dtype, device=where),
                np.arange(3).astype(dtype) + np.array(largest - 3, dtype),
            )
    return calls


def _scattered(x: np.ndarray, places: np.ndarray, updates: np.ndarray) -> np.ndarray:
    found = x.copy()
    np.add.at(found, places, updates)
    return found
