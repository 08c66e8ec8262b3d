"""Roots and quotients that are made of multiply-adds have the bits of IEEE arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.nest import Map, Nest, Operand, map_nest

SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.2e-38, -1.2e-38, 3.4e38,
     -3.4e38, 2.0**-100, 2.0**100, -(2.0**-101), 2.0**101, 2.0**-24, 2.0**24, 2.0**-25,
     2.0**25, 3.0, -7.0],
    np.float32,
)  # fmt: skip


def floats(start: int, stop: int) -> np.ndarray:
    """The float32 whose bits are a range of integers."""
    return np.arange(start, stop, dtype=np.uint64).astype(np.uint32).view(np.float32)


def check_roots(kernel: Any, x: np.ndarray) -> None:
    out = np.empty_like(x)
    kernel(x, out)
    with np.errstate(all="ignore"):
        expected = np.sqrt(x)
    missing = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(out), missing)
    np.testing.assert_array_equal(out[~missing].view(np.int32), expected[~missing].view(np.int32))


def root_kernel(machine: Any, lanes: int) -> Any:
    """A kernel of square roots in 8 or 16 lanes."""
    b = CodeBuilder()
    x = b.load(0, "float32")
    code, roots = b.finish(b.append("sqrt", "float32", (x,)), b.cast(x, "float64"))
    operands = [Operand("float32"), Operand("float32", True), Operand("float64", True)]
    if lanes == machine.target.width // 4:
        return machine.kernel(map_nest(0, operands[:2], [], code, (1, roots[0])))
    kernel = machine.kernel(map_nest(0, operands, [], code, (1, roots[0]), (2, roots[1])))
    return lambda x, out: kernel(x, out, np.empty(x.shape))


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True])
def test_roots(machine: Any, half: bool) -> None:
    """Every mantissa at two exponents, every exponent, and what is special."""
    kernel = root_kernel(machine, machine.target.width // (8 if half else 4))
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 1 << 20, np.uint32)
    check_roots(kernel, np.concatenate([SPECIAL, bits.view(np.float32)]))
    one = 0x3F000000
    check_roots(kernel, floats(one, one + (1 << 24)))


@pytest.mark.nightly
def test_roots_of_every_float32(machine: Any) -> None:
    kernel = root_kernel(machine, machine.target.width // 4)
    for part in range(256):
        check_roots(kernel, floats(part << 24, (part + 1) << 24))


def quotient_kernel(machine: Any) -> Any:
    """Each row divided by its own number."""
    b = CodeBuilder()
    x, divisor = b.load(0, "float32"), b.load(1, "float32")
    code, (root,) = b.finish(b.append("div", "float32", (x, divisor)))
    operands = (Operand("float32"), Operand("float32", False, "zero"), Operand("float32", True))
    return machine.kernel(Nest(1, operands, (), (Map(code, ((2, root),)),), long_rows=True))


def check_quotients(kernel: Any, dividends: np.ndarray, divisors: np.ndarray) -> None:
    """Rows of dividends, each by its divisor."""
    out = np.empty_like(dividends)
    kernel(dividends, divisors[:, None], out)
    with np.errstate(all="ignore"):
        expected = dividends / divisors[:, None]
    missing = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(out), missing)
    np.testing.assert_array_equal(out[~missing].view(np.int32), expected[~missing].view(np.int32))


def hard_dividends(divisors: np.ndarray) -> np.ndarray:
    """For divisors from 1 to 2 dividends whose quotients lie right beside the middle of two floats.

    With 24-bit integers A and B the quotient A / B is near the middle K / 2**s, K odd, if
    A * 2**s = B * K + j for a small j; s is 24 or 25. K follows from j modulo a power of two.
    """
    b = (divisors.view(np.uint32) & 0x7FFFFF | 0x800000).astype(np.int64)
    even = b & -b  # the largest power of two in it
    odd = b // even
    inverse = odd.copy()
    for _ in range(5):
        inverse = inverse * (2 - odd * inverse) & 0xFFFFFFFF
    found = []
    for shift in (24, 25):
        period = (1 << shift) // np.minimum(even, 1 << shift)
        for j in (*range(-8, 0), *range(1, 9)):
            start = (-(j // even) * inverse & 0xFFFFFFFF) % period
            for step in range(16):
                k = start + step * period
                a, rest = np.divmod(b * k + j, 1 << shift)
                fits = (rest == 0) & (a >= 1 << 23) & (a < 1 << 24) & (k % 2 == 1)
                found.append(np.where(fits & (k < 1 << 25), a, 1 << 23))
    return np.ascontiguousarray(np.stack(found, 1) / (1 << 23), np.float32)


def check_hard_quotients(kernel: Any, mantissas: np.ndarray) -> None:
    divisors = (mantissas.astype(np.uint32) | 0x3F800000).view(np.float32)
    dividends = hard_dividends(divisors)
    assert (dividends != 1).sum() > len(divisors)
    check_quotients(kernel, dividends, divisors)


@pytest.mark.slow
def test_quotients(machine: Any) -> None:
    kernel, rng = quotient_kernel(machine), np.random.default_rng(0)
    check_hard_quotients(kernel, rng.integers(0, 1 << 23, 2048))
    check_hard_quotients(kernel, np.arange((1 << 23) - 64, 1 << 23))
    bits = rng.integers(0, 1 << 32, (2, 512, 2048), np.uint32).view(np.float32)
    check_quotients(kernel, bits[0], bits[1, :, 0].copy())
    near = np.exp2(rng.uniform(-25, 25, 512)).astype(np.float32)
    check_quotients(kernel, bits[0], near)
    check_quotients(kernel, rng.uniform(-1, 1, (512, 2048)).astype(np.float32), near)


@pytest.mark.slow
def test_quotients_of_special_numbers(machine: Any) -> None:
    rows = np.broadcast_to(SPECIAL, (len(SPECIAL), len(SPECIAL)))
    check_quotients(quotient_kernel(machine), rows.copy(), SPECIAL)
    for dividend in SPECIAL:  # alone in its vector
        rows = np.full((len(SPECIAL), 40), 5.0, np.float32)
        rows[:, 17] = dividend
        check_quotients(quotient_kernel(machine), rows, SPECIAL)


def test_divisors_that_are_numbers(machine: Any) -> None:
    for divisor in (3.0, 1e-30, -5.0):
        b = CodeBuilder()
        x = b.load(0, "float32")
        code, (root,) = b.finish(b.append("div", "float32", (x, b.constant(divisor, "float32"))))
        kernel = machine.kernel(
            map_nest(0, [Operand("float32"), Operand("float32", True)], [], code, (1, root))
        )
        bits = np.random.default_rng(0).integers(0, 1 << 32, 10_000, np.uint32)
        x = bits.view(np.float32)
        out = np.empty_like(x)
        kernel(x, out)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(out, x / np.float32(divisor))


@pytest.mark.nightly
def test_quotients_by_every_mantissa(machine: Any) -> None:
    kernel = quotient_kernel(machine)
    for start in range(0, 1 << 23, 4096):
        check_hard_quotients(kernel, np.arange(start, start + 4096))


@pytest.mark.nightly
def test_quotients_of_many_pairs(machine: Any) -> None:
    kernel, rng = quotient_kernel(machine), np.random.default_rng(1)
    for _ in range(512):
        dividends = rng.integers(0, 1 << 32, (4096, 1024), np.uint32).view(np.float32)
        near = np.exp2(rng.uniform(-24, 24, 4096)).astype(np.float32)
        check_quotients(kernel, dividends, near)
