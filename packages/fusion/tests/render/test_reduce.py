"""Reductions, rows of several stages, and that their bits do not depend on targets or chunks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.nest import Map, Nest, Operand, Reduce, Row, Stage, result_dtype
from ingle.fusion.render.llvm.targets import AVX2, AVX512, NEON, SSE2
from ingle.tensor.dtypes import as_dtype
from ingle.testkit.bits import same_bits

REFERENCES: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "any": np.any, "all": np.all,
    "argmax": np.argmax, "argmin": np.argmin,
}  # fmt: skip
SIZES = (1, 2, 5, 16, 33, 64, 100, 2048, 5000)


def reduction(combine: str, dtype: str, lanes: str = "inner", **more: Any) -> Nest:
    """One reduction of one operand, stored once a row."""
    b = CodeBuilder()
    code, (root,) = b.finish(b.load(0, dtype))
    made = result_dtype(combine, dtype)
    b = CodeBuilder()
    after, (stored,) = b.finish(b.append("result", made, (), (0, 0)))
    out = Operand(made, True, "zero" if lanes == "inner" else "unit")
    stages = (Reduce(code, ((combine, root),)), Row(after, ((1, stored),)))
    return Nest(1, (Operand(dtype), out), (), stages, lanes, **more)


def run(kernel: Any, x: np.ndarray, dtype: str, **more: Any) -> np.ndarray:
    """The kernel over the last axis of a matrix."""
    if kernel.nest.lanes == "outer":
        x = np.asfortranarray(x)
    out = np.zeros((len(x), 1), as_dtype(dtype).dtype)
    kernel(x, out, **more)
    return out[:, 0]


def values(combine: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(math.prod(shape))
    if dtype == "bool":
        return np.asarray(rng.random(shape) < (0.999 if combine == "all" else 0.001))
    if as_dtype(dtype).is_integer:
        return rng.integers(0, 100, shape).astype(as_dtype(dtype).dtype)
    x = rng.normal(size=shape)
    x = 1 + x / 1000 if combine == "prod" else np.round(x * 50) if "arg" in combine else x
    return np.asarray(x, as_dtype(dtype).dtype)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("lanes", ["inner", "outer"])
@pytest.mark.parametrize("combine", REFERENCES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint32", "bool"])
def test_every_reduction(machine: Any, combine: str, dtype: str, lanes: str) -> None:
    if (dtype == "bool") != (combine in ("any", "all")):
        pytest.skip("any and all are of bool, the others of numbers")
    kernel = machine.kernel(reduction(combine, dtype, lanes))
    made = result_dtype(combine, dtype)
    for n in SIZES:
        x = values(combine, dtype, (3, n))
        exact = x.astype(np.float64) if dtype == "float32" and "arg" not in combine else x
        expected = REFERENCES[combine](exact, axis=1).astype(as_dtype(made).dtype)
        got = run(kernel, x, made)
        if combine in ("sum", "prod") and as_dtype(dtype).is_floating:
            rounding = np.finfo(x.dtype).eps * (abs(exact).sum(1) if combine == "sum" else 2 * n)
            assert (abs(got - expected) <= rounding).all()
        else:
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("lanes", ["inner", "outer"])
@pytest.mark.parametrize("combine", ["max", "min", "argmax", "argmin", "sum"])
def test_nan_and_infinities(machine: Any, combine: str, lanes: str) -> None:
    kernel = machine.kernel(reduction(combine, "float32", lanes))
    x = np.zeros((6, 300), np.float32)
    x[0, 77], x[0, 200], x[1, 299] = np.nan, np.nan, np.inf
    x[2], x[3] = -np.inf, np.inf
    x[4, 3], x[4, 200] = np.inf, -np.inf
    got = run(kernel, x, result_dtype(combine, "float32"))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, REFERENCES[combine](x, axis=1))


def test_sums_of_nothing_and_of_negative_zeros(machine: Any) -> None:
    kernel = machine.kernel(reduction("sum", "float32"))
    assert str(run(kernel, np.empty((1, 0), np.float32), "float32")[0]) == "0.0"
    assert str(run(kernel, np.full((1, 9), -0.0, np.float32), "float32")[0]) == "-0.0"


@pytest.mark.slow
def test_long_sums_are_as_exact_as_pairwise_ones(machine: Any) -> None:
    x = np.random.default_rng(0).uniform(0, 1, (1, 1 << 22)).astype(np.float32)
    exact = math.fsum(x[0].tolist())
    for lanes in ("inner", "outer"):
        got = run(machine.kernel(reduction("sum", "float32", lanes)), x, "float32")[0]
        assert abs(got - exact) <= max(abs(x[0].sum() - exact), np.spacing(np.float32(exact)))


@pytest.mark.parametrize("combine", ["sum", "argmax"])
def test_every_target_and_every_chunking_gives_the_same_bits(machine: Any, combine: str) -> None:
    x = values(combine, "float32", (9, 5003))
    nest = reduction(combine, "float32")
    made = result_dtype(combine, "float32")
    expected = run(machine.kernel(nest), x, made).tobytes()
    for target in (AVX512, AVX2, SSE2, NEON):
        if target.width <= machine.target.width:
            plain = target._replace(half=False, fma=False, rounding=False)
            for parts in (1, 4):
                assert run(machine.kernel(nest, plain), x, made, parts=parts).tobytes() == expected


def test_ragged_rows(machine: Any) -> None:
    x = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    rows = np.zeros((8, 128), np.float32)
    rows.reshape(-1)[:1000] = x
    rows.reshape(-1)[1000:] = 1e9
    for lanes in ("inner",):
        kernel = machine.kernel(reduction("sum", "float32", lanes, ragged=True))
        got = run(kernel, rows, "float32", total=1000)
    expected = [x[i : i + 128].astype(np.float64).sum() for i in range(0, 1000, 128)]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def normalised(exponential: bool = True) -> tuple[Reduce | Map, ...]:
    """Softmax in three stages, or x minus its maximum over the sum of that."""
    b = CodeBuilder()
    first, (top,) = b.finish(b.load(0, "float32"))

    def shifted() -> tuple[CodeBuilder, int]:
        b = CodeBuilder()
        off = b.append(
            "sub", "float32", (b.load(0, "float32"), b.append("result", "float32", (), (0, 0)))
        )
        return b, b.append("exp", "float32", (off,)) if exponential else off

    b, e = shifted()
    second, (part,) = b.finish(e)
    b, e = shifted()
    third, (out,) = b.finish(
        b.append("div", "float32", (e, b.append("result", "float32", (), (1, 0))))
    )
    return (
        Reduce(first, (("max", top),)),
        Reduce(second, (("sum", part),)),
        Map(third, ((1, out),)),
    )


@pytest.mark.parametrize("lanes", ["inner", "outer"])
@pytest.mark.parametrize("n", [1, 7, 64, 1000])
def test_stages_share_a_row(machine: Any, lanes: str, n: int) -> None:
    nest = Nest(1, (Operand("float32"), Operand("float32", True)), (), normalised(False), lanes)
    x = np.random.default_rng(n).normal(size=(5, n)).astype(np.float32)
    x = x if lanes == "inner" else np.asfortranarray(x)
    out = np.empty_like(x)
    machine.kernel(nest)(x, out, parts=2)
    off = x - x.max(1, keepdims=True)
    with np.errstate(invalid="ignore"):
        expected = off / off.sum(1, keepdims=True, dtype=np.float64)
    np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_row_values_and_several_reductions(machine: Any) -> None:
    b = CodeBuilder()
    x = b.load(0, "float32")
    code, (a, c) = b.finish(x, b.append("mul", "float32", (x, x)))
    reduce = Reduce(code, (("sum", a), ("sum", c), ("argmax", a)))
    b = CodeBuilder()
    results = [b.append("result", "float32", (), (0, j)) for j in (0, 1)]
    product = b.append("mul", "float32", (results[0], b.append("scalar", "float32", (), 0)))
    after, (mean, square, place) = b.finish(
        product, results[1], b.append("result", "int64", (), (0, 2))
    )
    row = Row(after, ((2, square), (3, place)), (mean,))
    b = CodeBuilder()
    mean_leaf = b.append("row", "float32", (), (1, 0))
    last, (out,) = b.finish(b.append("sub", "float32", (b.load(0, "float32"), mean_leaf)))
    for lanes, lane in (("inner", "zero"), ("outer", "unit")):
        operands = (Operand("float32"), Operand("float32", True), Operand("float32", True, lane),
                    Operand("int64", True, lane))  # fmt: skip
        stages = (reduce, row, Map(last, ((1, out),)))
        kernel = machine.kernel(Nest(1, operands, ("float32",), stages, lanes))
        order = "C" if lanes == "inner" else "F"
        values = np.random.default_rng(0).normal(size=(7, 333)).astype(np.float32, order=order)
        centred = np.empty_like(values, order=order)
        squares, places = np.empty((7, 1), np.float32), np.empty((7, 1), np.int64)
        kernel(values, centred, squares, places, scalars=[1 / 333])
        wide = values.astype(np.float64)
        np.testing.assert_allclose(centred, wide - wide.mean(1, keepdims=True), atol=1e-6)
        np.testing.assert_allclose(squares[:, 0], (wide**2).sum(1), rtol=1e-6)
        np.testing.assert_array_equal(places[:, 0], values.argmax(1))


def test_a_reduction_may_store_on_the_way(machine: Any) -> None:
    b = CodeBuilder()
    doubled = b.append("add", "float32", (b.load(0, "float32"), b.load(0, "float32")))
    code, (root,) = b.finish(doubled)
    b = CodeBuilder()
    share = b.append(
        "div", "float32", (b.load(1, "float32"), b.append("result", "float32", (), (0, 0)))
    )
    after, (out,) = b.finish(share)
    stages = (Reduce(code, (("sum", root),), ((1, root),)), Map(after, ((1, out),)))
    kernel = machine.kernel(Nest(1, (Operand("float32"), Operand("float32", True)), (), stages))
    x = np.random.default_rng(0).uniform(1, 2, (4, 201)).astype(np.float32)
    out = np.empty_like(x)
    kernel(x, out)
    np.testing.assert_allclose(out, x / x.sum(1, keepdims=True, dtype=np.float64), rtol=3e-7)


def test_sums_down_wide_matrices(machine: Any) -> None:
    kernel = machine.kernel(reduction("sum", "float32", "outer"))
    for columns in (4096, 5001):
        x = np.random.default_rng(columns).normal(size=(70, columns)).astype(np.float32)
        out = np.zeros((columns, 1), np.float32)
        kernel(x.T, out, parts=3)
        np.testing.assert_allclose(out[:, 0], x.sum(0, dtype=np.float64), atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1), (31, 70), (32, 16), (33, 5), (200, 130)])
@pytest.mark.parametrize("along", [False, True])
def test_sums_over_rows_on_the_way(
    machine: Any, shape: tuple[int, int], dtype: str, along: bool
) -> None:
    """A row's mean is taken off, what is left is stored and summed over rows, in two steps, and, if
    `along`, in the same stage along its row."""
    rows, columns = shape
    b = CodeBuilder()
    code, (root,) = b.finish(b.load(0, dtype))
    total = Reduce(code, (("sum", root),))
    b = CodeBuilder()
    off = b.append("sub", dtype, (b.load(0, dtype), b.append("result", dtype, (), (0, 0))))
    square = b.append("mul", dtype, (off, off))
    code, (left, more) = b.finish(off, square)
    operands = [Operand(dtype), *[Operand(dtype, True)] * 3]
    stages: tuple[Stage, ...] = (total, Map(code, ((1, left),), ((2, left), (3, more))))
    if along:
        both = Reduce(code, (("sum", left),), ((1, left),), ((2, left), (3, more)))
        b = CodeBuilder()
        code, (kept,) = b.finish(b.append("result", dtype, (), (1, 0)))
        operands.append(Operand(dtype, True))
        stages = (total, both, Row(code, ((4, kept),)))
    kernel = machine.kernel(Nest(1, tuple(operands), (), stages))
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    sums_along = [np.empty_like(x)] if along else []
    blocks = -(-rows // 32)
    for parts in (1, 3):
        out, first, second = np.empty_like(x), *np.empty((2, blocks, columns), dtype)
        # Rows of sums have the stride of rows, but there is one for each block.
        spread = [np.lib.stride_tricks.as_strided(a, shape, a.strides) for a in (first, second)]
        kernel(x, out, *spread, *sums_along, parts=parts)
        for kept_sums in sums_along:
            np.testing.assert_allclose(
                kept_sums[:, 0], out.sum(axis=1, dtype=np.float64), rtol=1e-5, atol=1e-3
            )
        for found, value in ((first, out), (second, out * out)):
            for block in range(blocks):
                np.testing.assert_array_equal(
                    found[block], np.add.accumulate(value[32 * block : 32 * block + 32], axis=0)[-1]
                )
    b = CodeBuilder()
    code, (root,) = b.finish(b.load(0, dtype))
    sums = {}
    for combine, value in (("totals", first), ("sum", out)):
        stages = (Reduce(code, ((combine, root),)), _kept_row(dtype))
        operands = (Operand(dtype), Operand(dtype, True))
        nest = Nest(1, operands, (), stages, lanes="outer")
        sums[combine] = np.empty((columns, 1), dtype)
        machine.kernel(nest)(value.T, sums[combine])
    np.testing.assert_array_equal(sums["totals"], sums["sum"])
    wide = np.longdouble if dtype == "float64" else np.float64
    np.testing.assert_allclose(
        sums["totals"][:, 0], out.sum(axis=0, dtype=wide), rtol=1e-4, atol=1e-4
    )


def _kept_row(dtype: str) -> Row:
    b = CodeBuilder()
    code, (root,) = b.finish(b.append("result", dtype, (), (0, 0)))
    return Row(code, ((1, root),))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("combine", REFERENCES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "bool"])
@pytest.mark.parametrize("gathers", [False, True])
def test_short_rows_have_the_bits_of_long_ones(
    machine: Any, combine: str, dtype: str, gathers: bool
) -> None:
    if (dtype == "bool") != (combine in ("any", "all")):
        pytest.skip("any and all are of bool, the others of numbers")
    nest = reduction(combine, dtype)
    target = machine.target._replace(gathers=gathers)
    long = machine.kernel(nest)
    for n in (1, 3, 8, 10, 16, 17, 31, 32):
        x = values(combine, dtype, (20, n))
        if dtype.startswith("float"):
            x[3, n // 2], x[4], x[5, -1] = np.nan, -0.0, -np.inf
        short = machine.kernel(nest._replace(row_length=n), target)
        made = result_dtype(combine, dtype)
        assert same_bits(run(short, x, made), run(long, x, made)), n


@pytest.mark.slow
@pytest.mark.parametrize("gathers", [False, True])
def test_short_rows_of_several_stages(machine: Any, gathers: bool) -> None:
    """What one stage stores the next one reads; a row's class makes no vector smaller."""
    b = CodeBuilder()
    code, (root,) = b.finish(b.load(0, "float32"))
    top = Reduce(code, (("max", root),))
    b = CodeBuilder()
    best = b.append("result", "float32", (), (0, 0))
    power = b.append("exp", "float32", (b.append("sub", "float32", (b.load(0, "float32"), best)),))
    code, (root,) = b.finish(power)
    total = Reduce(code, (("sum", root),), ((2, root),))
    b = CodeBuilder()
    whole = b.append("result", "float32", (), (1, 0))
    share = b.append("div", "float32", (b.load(2, "float32"), whole))
    inner = b.append("index", "int64", (), -1)
    hit = b.append("eq", "bool", (b.load(1, "int64"), inner))
    one, none = b.constant(1.0, "float32"), b.constant(0.0, "float32")
    off = b.append("sub", "float32", (share, b.append("select", "float32", (hit, one, none))))
    code, (root,) = b.finish(off)
    operands = (Operand("float32"), Operand("int64", False, "zero"), Operand("float32", True))
    nest = Nest(1, operands, (), (top, total, Map(code, ((2, root),))))
    for n in (1, 7, 10, 16, 23, 32):
        rng = np.random.default_rng(n)
        x = rng.normal(size=(50, n)).astype(np.float32)
        classes = rng.integers(0, n, (50, 1))
        outs = np.zeros((2, 50, n), np.float32)
        for out, short in zip(outs, (0, n), strict=True):
            target = machine.target._replace(gathers=gathers)
            machine.kernel(nest._replace(row_length=short), target)(x, classes, out, parts=3)
        assert same_bits(outs[0], outs[1])
        power = np.exp(x - x.max(1, keepdims=True))
        expected = power / power.sum(1, keepdims=True) - (classes == np.arange(n))
        np.testing.assert_allclose(outs[1], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", ["host", AVX2, SSE2], ids=lambda t: getattr(t, "name", t))
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "bool", "float32", "int64"])
def test_short_rows_write_nothing_else(machine: Any, dtype: str, target: Any) -> None:
    """Also over their own input, and with one lane left: behind a row lies the next."""
    b = CodeBuilder()
    x = b.load(0, dtype)
    name = "not" if dtype == "bool" else "neg"
    wide = b.cast(x, "float32") if "float" in dtype else x
    code, (root,) = b.finish(b.narrow(b.append(name, b.dtype(wide), (wide,)), dtype))
    operands = (Operand(dtype), Operand(dtype, True))
    for n in (1, 2, 3, 5, 8, 9, 16, 17, 25, 31, 32):
        nest = Nest(1, operands, (), (Map(code, ((1, root),)),), row_length=n)
        kernel = machine.kernel(nest, None if target == "host" else target)
        rng = np.random.default_rng(n)
        memory = rng.integers(0, 2 if dtype == "bool" else 99, (5, n)).astype(as_dtype(dtype).dtype)
        expected = memory.copy()
        expected[:-1] = ~memory[:-1] if dtype == "bool" else -memory[:-1]
        kernel(memory[:-1], memory[:-1])
        np.testing.assert_array_equal(memory, expected)
