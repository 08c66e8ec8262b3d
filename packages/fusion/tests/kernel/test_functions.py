"""Mathematical functions against wider arithmetic: the largest errors, and special values.

The bounds are those of `ERRORS`. In float32 the reference is NumPy in float64, in
float64 NumPy in 80-bit floats where the machine has them, SciPy and mpmath for erf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.functions import ERRORS
from ingle.fusion.kernel.nest import Operand, map_nest

sp = pytest.importorskip("scipy.special")

Function = Callable[[Any], Any]

# name: the reference, and the range of the dense sample
UNARY: dict[str, tuple[Function, float, float]] = {
    "acos": (np.arccos, -1, 1),
    "acosh": (np.arccosh, 1, 50),
    "asin": (np.arcsin, -1, 1),
    "asinh": (np.arcsinh, -50, 50),
    "atan": (np.arctan, -5, 5),
    "atanh": (np.arctanh, -1, 1),
    "cos": (np.cos, -20, 20),
    "cosh": (np.cosh, -20, 20),
    "erf": (sp.erf, -4, 4),
    "erfc": (sp.erfc, -4, 10.5),
    "exp": (np.exp, -100, 90),
    "exp2": (np.exp2, -150, 130),
    "expm1": (np.expm1, -20, 20),
    "log": (np.log, 0, 20),
    "log10": (np.log10, 0, 20),
    "log1p": (np.log1p, -1, 20),
    "log2": (np.log2, 0, 20),
    "sin": (np.sin, -20, 20),
    "sinh": (np.sinh, -20, 20),
    "tan": (np.tan, -20, 20),
    "tanh": (np.tanh, -10, 10),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0, 20),
}
WIDE = {"float32": np.float64, "float64": np.longdouble}


def unary_kernel(machine: Any, name: str, dtype: str, **features: bool) -> Any:
    b = CodeBuilder()
    code, (root,) = b.finish(b.append(name, dtype, (b.load(0, dtype),)))
    nest = map_nest(0, [Operand(dtype), Operand(dtype, True)], [], code, (1, root))
    return machine.kernel(nest, machine.target._replace(**features))


def largest_error(got: np.ndarray, exact: np.ndarray) -> float:
    """In ulp of the result; infinite where only one is NaN or infinite, or a zero's sign is off."""
    with np.errstate(all="ignore"):
        expected = exact.astype(got.dtype)
        finite = np.isfinite(got) & np.isfinite(expected)
        ulp = abs(got.astype(exact.dtype) - exact) / np.spacing(abs(expected)).astype(exact.dtype)
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    if not (same | finite).all():
        return float("inf")
    zeros = (expected == 0) & (got == 0)
    if (np.signbit(expected) != np.signbit(got))[zeros].any():
        return float("inf")
    return float(ulp[finite].max()) if finite.any() else 0.0


def sample(dtype: str, low: float, high: float) -> np.ndarray:
    """Dense in the usual range, all exponents, and what is special."""
    rng = np.random.default_rng(0)
    size = np.dtype(dtype).itemsize
    bits = rng.integers(0, 1 << 8 * size, 40_000, np.uint64 if size == 8 else np.uint32)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, -5e-324, 1e-45, -1e-45, 1e300]
    parts = [rng.uniform(low, high, 40_000), rng.uniform(-1, 1, 20_000)]
    parts += [
        np.exp(rng.uniform(-20, 20, 20_000)) * rng.choice([-1, 1], 20_000),
        np.array(special),
    ]
    with np.errstate(over="ignore"):
        return np.concatenate([np.concatenate(parts).astype(dtype), bits.view(dtype)])


def _wide_erf(name: str, x: float) -> Any:
    mp = pytest.importorskip("mpmath")
    if name == "erfc" and x > 100:  # below all numbers, and mpmath's powers
        return np.longdouble(0)
    with mp.workdps(25):
        return np.longdouble(mp.nstr(getattr(mp, name)(float(x)), 25))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_unary_functions(machine: Any, name: str, dtype: str, plain: bool) -> None:
    if dtype == "float64" and np.finfo(np.longdouble).nmant < 63:
        pytest.skip("no wider floats for the reference")
    reference, low, high = UNARY[name]
    lacking = ("fma", "rounding", "half", "scale", "permute")
    features = dict.fromkeys(lacking, False) if plain else {}
    kernel = unary_kernel(machine, name, dtype, **features)
    x = sample(dtype, low, high)
    out = np.empty_like(x)
    kernel(x, out)
    if name in ("erf", "erfc") and dtype == "float64":
        x, out = x[::47], out[::47]
        exact = np.array([_wide_erf(name, v) for v in x])
    else:
        with np.errstate(all="ignore"):
            exact = np.asarray(reference(x.astype(WIDE[dtype])))
    slack = 0.4 if plain or not machine.target.fma else 0.0
    assert largest_error(out, exact) <= ERRORS[name][dtype == "float64"] + slack


@pytest.mark.nightly
@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_of_every_float32(machine: Any, name: str) -> None:
    reference, bound = UNARY[name][0], ERRORS[name][0]
    kernel = unary_kernel(machine, name, "float32")
    worst = 0.0
    for part in range(256):
        start = part << 24
        x = np.arange(start, start + (1 << 24), dtype=np.uint64).astype(np.uint32).view(np.float32)
        out = np.empty_like(x)
        kernel(x, out)
        with np.errstate(all="ignore"):
            exact = np.asarray(reference(x.astype(np.float64)))
        worst = max(worst, largest_error(out, exact))
    assert worst <= bound


def binary_kernel(machine: Any, name: str, dtype: str) -> Any:
    b = CodeBuilder()
    code, (root,) = b.finish(b.append(name, dtype, (b.load(0, dtype), b.load(1, dtype))))
    operands = [Operand(dtype), Operand(dtype), Operand(dtype, True)]
    return machine.kernel(map_nest(0, operands, [], code, (2, root)))


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Special values with each other, and random numbers of all sizes."""
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, -3.0, 1e-40, 1e30, np.inf, -np.inf]
    special += [2.5e38, 1.2e308, 1.7e308]
    special += [np.nan, 3.4e38, 0.9999, 1.0001, 2.0**24, 2.0**53, 1e-300, 100.0, -1e-310]
    with np.errstate(over="ignore"):
        grid = np.meshgrid(np.array(special, dtype), np.array(special, dtype))
    rng = np.random.default_rng(0)
    n = 30_000
    x = np.concatenate([np.exp(rng.uniform(-80, 80, n)), 1 + rng.normal(size=n) * 1e-3,
                        rng.uniform(-10, 10, n)])  # fmt: skip
    y = np.concatenate([rng.uniform(-1, 1, n), rng.uniform(-5e4, 5e4, n),
                        np.round(rng.uniform(-100, 100, n))])  # fmt: skip
    return (
        np.concatenate([grid[0].reshape(-1), x.astype(dtype)]),
        np.concatenate([grid[1].reshape(-1), y.astype(dtype)]),
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "reference"), [("pow", np.power), ("atan2", np.arctan2)])
def test_binary_functions(machine: Any, name: str, dtype: str, reference: Any) -> None:
    x, y = pairs(dtype)
    out = np.empty_like(x)
    binary_kernel(machine, name, dtype)(x, y, out)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(WIDE[dtype]), y.astype(WIDE[dtype]))
    slack = 0.0 if machine.target.fma else 0.4
    assert largest_error(out, exact) <= ERRORS[name][dtype == "float64"] + slack


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["rem", "floor_div"])
def test_remainders_of_numbers_far_apart(machine: Any, name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    top = 60 if dtype == "float32" else 600
    x, y = (np.exp(rng.uniform(-top, top, 5000)) * rng.choice([-1, 1], 5000) for _ in range(2))
    x, y = x.astype(dtype), y.astype(dtype)
    out = np.empty_like(x)
    binary_kernel(machine, name, dtype)(x, y, out)
    reference = np.remainder if name == "rem" else np.floor_divide
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, reference(x, y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
@pytest.mark.parametrize("native", [True, False])
def test_rounding(machine: Any, name: str, dtype: str, native: bool) -> None:
    kernel = unary_kernel(machine, name, dtype, rounding=native)
    x = sample(dtype, -10, 10)
    x = np.concatenate([x, np.arange(-20, 20, 0.25, dtype)])
    out = np.empty_like(x)
    kernel(x, out)
    reference = {"round": np.rint}.get(name) or getattr(np, name)
    with np.errstate(invalid="ignore"):
        assert largest_error(out, reference(x)) == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("native", [True, False])
def test_scaling_rounds_once(machine: Any, dtype: str, native: bool) -> None:
    b = CodeBuilder()
    code, (root,) = b.finish(b.append("scale", dtype, (b.load(0, dtype), b.load(1, dtype))))
    operands = [Operand(dtype), Operand(dtype), Operand(dtype, True)]
    target = machine.target._replace(scale=native and machine.target.scale)
    kernel = machine.kernel(map_nest(0, operands, [], code, (2, root)), target)
    limit = 300 if dtype == "float32" else 2200
    rng = np.random.default_rng(0)
    size = np.dtype(dtype).itemsize
    patterns = rng.integers(0, 1 << 8 * size, 40_000, np.uint64 if size == 8 else np.uint32)
    denormal = rng.uniform(-1, 1, 20_000) * 2.0 ** (-126 if size == 4 else -1022)
    x = np.concatenate([rng.uniform(-2, 2, 20_000), denormal]).astype(dtype)
    x = np.concatenate([x, patterns.view(dtype)])
    n = np.round(rng.uniform(-limit, limit, x.size)).astype(dtype)
    # Results around the smallest numbers, where a number that is rounded twice shows.
    with np.errstate(invalid="ignore"):  # some of the patterns are signaling NaN
        small = np.frexp(x[::2])[1]
    n[::2] = np.clip((-140 if size == 4 else -1060) - small, -limit, limit)
    out = np.empty_like(x)
    kernel(x, n, out)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, np.ldexp(x, n.astype(np.int32)))


def test_the_exact_error_of_products(machine: Any) -> None:
    for dtype in ("float32", "float64"):
        b = CodeBuilder()
        code, (root,) = b.finish(b.append("residue", dtype, (b.load(0, dtype), b.load(1, dtype))))
        operands = [Operand(dtype), Operand(dtype), Operand(dtype, True)]
        x, y = np.random.default_rng(0).normal(size=(2, 3000)).astype(dtype)
        for fma in (True, False):
            target = machine.target._replace(fma=fma and machine.target.fma)
            kernel = machine.kernel(map_nest(0, operands, [], code, (2, root)), target)
            out = np.empty_like(x)
            kernel(x, y, out)
            if dtype == "float32":
                exact = x.astype(np.float64) * y - (x * y)
                np.testing.assert_array_equal(out, exact.astype(np.float32))
            else:
                high = x.astype(np.longdouble) * y.astype(np.longdouble) - x * y
                np.testing.assert_allclose(out, high, rtol=1e-2, atol=1e-18)


@pytest.mark.parametrize("plain", [False, True])
def test_functions_for_half_types_keep_fourteen_places(machine: Any, plain: bool) -> None:
    features = dict.fromkeys(("fma", "rounding", "scale"), False) if plain else {}
    rng = np.random.default_rng(0)
    for name, reference, low, high in (
        ("short_exp", np.exp, -85, 40),
        ("short_exp2", np.exp2, -120, 60),
        ("short_ndtr", lambda x: np.exp(sp.log_ndtr(x)), -12.8, 9),
        ("short_reciprocal", np.reciprocal, 1, 2),
        ("short_sigmoid", sp.expit, -85, 90),
        ("short_tanh", np.tanh, -1, 1),
        ("short_tanh", np.tanh, -20, 20),
    ):
        x = np.concatenate([rng.uniform(low, high, 20_000), [low, high]])
        x = x.astype(np.float32)
        out = np.empty_like(x)
        unary_kernel(machine, name, "float32", **features)(x, out)
        np.testing.assert_allclose(out, reference(x.astype(np.float64)), rtol=2.0**-14)
    for name, ends, expected in (
        ("short_exp", [-np.inf, -104.5, np.nan], [0, 0, np.nan]),
        ("short_ndtr", [-np.inf, -14.5, np.inf, 14.5, np.nan], [0, 0, 1, 1, np.nan]),
        ("short_sigmoid", [-np.inf, -130, np.inf, 130, np.nan], [0, 0, 1, 1, np.nan]),
        ("short_tanh", [-np.inf, -90, np.inf, 90, np.nan], [-1, -1, 1, 1, np.nan]),
    ):
        x = np.array(ends, np.float32)
        out = np.empty_like(x)
        unary_kernel(machine, name, "float32", **features)(x, out)
        np.testing.assert_array_equal(out, np.array(expected, np.float32))
