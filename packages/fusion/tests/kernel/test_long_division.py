"""Quotients and remainders of 64-bit integers, which kernels make of float64, are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.nest import Operand, map_nest

EDGES = [0, 1, 2, 3, 7, 10, 2**11, 2**32 - 1, 2**32, 2**52 - 1, 2**53, 2**53 + 1, 2**62, 2**62 + 1]
EDGES += [
    2**63 - 2,
    2**63 - 1,
    2**63,
    2**64 - 2**10,
    2**64 - 1,
    *[-(2**n) for n in (0, 32, 62, 63)],
]


def numbers(dtype: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Of all sizes, and those where a float64 rounds."""
    info = np.iinfo(dtype)
    size = rng.integers(0, 1 << 64, count, dtype=np.uint64) >> rng.integers(0, 64, count).astype(
        "u8"
    )
    x = size.astype(dtype)
    edges = np.array([e for e in EDGES if info.min <= e <= info.max], dtype)
    x[: 40 * len(edges)] = np.tile(edges, 40)
    return rng.permutation(x)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("name", ["floor_div", "rem"])
def test_exact(machine: Any, name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b, factor = (numbers(dtype, 60_000, rng) for _ in range(3))
    with np.errstate(all="ignore"):
        # Beside whole multiples a quotient that is off by one is wrong.
        near = b[:30_000] * factor[:30_000] + rng.integers(-1, 2, 30_000).astype(dtype)
        a[:30_000] = near
        expected = np.where(b == 0, 0, a // b if name == "floor_div" else a % b)
    builder = CodeBuilder()
    args = (builder.load(0, dtype), builder.load(1, dtype))
    code, (root,) = builder.finish(builder.append(name, dtype, args))
    operands = [Operand(dtype), Operand(dtype), Operand(dtype, True)]
    out = np.empty_like(a)
    machine.kernel(map_nest(0, operands, [], code, (2, root)))(a, b, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("divisor", [1, 7, 10, 2**33 + 1, 2**62 + 1, 2**63 - 1])
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_by_one_number(machine: Any, dtype: str, divisor: int) -> None:
    a = numbers(dtype, 20_000, np.random.default_rng(1))
    builder = CodeBuilder()
    args = (builder.load(0, dtype), builder.constant(divisor, dtype))
    roots = [builder.append(name, dtype, args) for name in ("floor_div", "rem")]
    code, (quotient, rest) = builder.finish(*roots)
    operands = [Operand(dtype), Operand(dtype, True), Operand(dtype, True)]
    found = np.empty((2, len(a)), dtype)
    machine.kernel(map_nest(0, operands, [], code, (1, quotient), (2, rest)))(a, *found)
    np.testing.assert_array_equal(found[0], a // np.array(divisor, dtype))
    np.testing.assert_array_equal(found[1], a % np.array(divisor, dtype))
