"""Elementwise kernels: sizes, outer axes, strides, tails, in-place, dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingle.fusion.kernel.code import DTYPES, Code, CodeBuilder, bits_of
from ingle.fusion.kernel.nest import Nest, Operand, map_nest
from ingle.fusion.kernel.validation import validate
from ingle.fusion.render.llvm.targets import TARGETS
from ingle.tensor.dtypes import as_dtype
from ingle.testkit.bits import same_bits


def affine(dtype: str = "float32") -> tuple[Code, int]:
    """x * y + s."""
    b = CodeBuilder()
    product = b.append("mul", dtype, (b.load(0, dtype), b.load(1, dtype)))
    code, (root,) = b.finish(b.append("add", dtype, (product, b.append("scalar", dtype, (), 0))))
    return code, root


def affine_nest(outer: int, *lanes: str) -> Nest:
    code, root = affine()
    operands = [Operand("float32", k == 2, lane) for k, lane in enumerate(lanes)]
    return map_nest(outer, operands, ["float32"], code, (2, root))


@pytest.mark.parametrize("n", [0, 1, 3, 15, 16, 17, 63, 64, 65, 1000])
@pytest.mark.parametrize("parts", [1, 3])
def test_flat_maps_of_any_length(machine: Any, n: int, parts: int) -> None:
    kernel = machine.kernel(affine_nest(0, "unit", "unit", "unit"))
    x, y = np.random.default_rng(n).normal(size=(2, n)).astype(np.float32)
    out = np.full(n + 64, 7, np.float32)
    kernel(x, y, out[:n], scalars=[0.5], parts=parts)
    np.testing.assert_array_equal(out[:n], x * y + np.float32(0.5))
    assert (out[n:] == 7).all()


@pytest.mark.parametrize("outer", [1, 2, 3, 4])
def test_outer_axes_with_any_strides(machine: Any, outer: int) -> None:
    shape = (3, 2, 4, 5)[:outer]
    rng = np.random.default_rng(outer)
    x = rng.normal(size=(*shape[::-1], 19)).astype(np.float32).transpose(*range(outer)[::-1], outer)
    y = np.broadcast_to(rng.normal(size=(shape[0], *[1] * outer)).astype("f"), (*shape, 19))
    out = np.zeros((*shape, 38), np.float32)[..., ::2]
    kernel = machine.kernel(affine_nest(outer, "unit", "zero", "strided"))
    kernel(x, y, out, scalars=[-1.0], parts=2)
    np.testing.assert_array_equal(out, x * y - np.float32(1))
    assert (out.base[..., 1::2] == 0).all()


def test_strided_and_reversed_loads(machine: Any) -> None:
    base = np.arange(200, dtype=np.float32)
    x, y = base[::-2], base[:100]
    out = np.empty(100, np.float32)
    machine.kernel(affine_nest(0, "strided", "unit", "unit"))(x, y, out, scalars=[0.0])
    np.testing.assert_array_equal(out, x * y)


def test_lanes_along_an_outer_axis(machine: Any) -> None:
    nest = affine_nest(2, "unit", "strided", "unit")._replace(lanes="outer")
    x, y = np.random.default_rng(0).normal(size=(2, 3, 5, 300)).astype(np.float32)
    y = np.ascontiguousarray(y.transpose(0, 2, 1)).transpose(0, 2, 1)
    out = np.empty_like(x)
    swap = (0, 2, 1)
    kernel = machine.kernel(nest)
    kernel(x.transpose(swap), y.transpose(swap), out.transpose(swap), scalars=[1.0], parts=2)
    np.testing.assert_array_equal(out, x * y + np.float32(1))


def test_in_place(machine: Any) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 1003)).astype(np.float32)
    expected = x * y + np.float32(2)
    machine.kernel(affine_nest(0, "unit", "unit", "unit"))(x, y, x, scalars=[2.0])
    np.testing.assert_array_equal(x, expected)


def test_empty_outer_axes_do_nothing(machine: Any) -> None:
    x = np.empty((3, 0, 4), np.float32)
    machine.kernel(affine_nest(2, "unit", "unit", "unit"))(x, x, x, scalars=[0.0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_every_dtype_is_copied(machine: Any, dtype: str) -> None:
    b = CodeBuilder()
    code, (root,) = b.finish(b.load(0, dtype))
    bits = np.random.default_rng(0).integers(0, 256, 8 * 77).astype(np.uint8)
    bits = bits & 1 if dtype == "bool" else bits
    x = bits.view(as_dtype(dtype).dtype)[:77]
    for lane in ("unit", "strided"):
        out = np.empty_like(x)
        kernel = machine.kernel(
            map_nest(
                0, [Operand(dtype, False, lane), Operand(dtype, True, lane)], [], code, (1, root)
            )
        )
        kernel(x, out)
        assert same_bits(out, x)


def test_indices(machine: Any) -> None:
    b = CodeBuilder()
    row, column = b.append("index", "int64", (), 0), b.append("index", "int64", (), -1)
    ten = b.constant(1000, "int64")
    code, (root,) = b.finish(
        b.append("add", "int64", (b.append("mul", "int64", (row, ten)), column))
    )
    nest = map_nest(1, [Operand("int64", True)], [], code, (0, root))
    out = np.empty((7, 50), np.int64)
    machine.kernel(nest)(out)
    np.testing.assert_array_equal(out, np.arange(7)[:, None] * 1000 + np.arange(50))
    flipped = np.empty((50, 7), np.int64)
    machine.kernel(nest._replace(lanes="outer"))(flipped.T.copy().T)
    kernel = machine.kernel(nest._replace(lanes="outer"))
    kernel(flipped.T)
    np.testing.assert_array_equal(flipped.T, out)


@pytest.mark.parametrize("lanes", ["inner", "outer"])
def test_gather(machine: Any, lanes: str) -> None:
    b = CodeBuilder()
    found = b.append("gather", "float32", (b.load(1, "int64"),), 0)
    code, (root,) = b.finish(found)
    operands = [Operand("float32"), Operand("int64"), Operand("float32", True)]
    x = np.random.default_rng(0).normal(size=99).astype(np.float32)
    indices = np.random.default_rng(1).integers(0, 99, (6, 45))
    out = np.empty((6, 45), np.float32)
    kernel = machine.kernel(map_nest(1, operands, [], code, (2, root))._replace(lanes=lanes))
    base = np.lib.stride_tricks.as_strided(x, (6, 45), (0, 0))
    if lanes == "inner":
        kernel(base, indices, out)
    else:
        kernel(base.T, indices.T, out.T)
    np.testing.assert_array_equal(out, x[indices])


def test_several_outputs_share_work(machine: Any) -> None:
    b = CodeBuilder()
    x = b.load(0, "float32")
    roots = [b.append(name, "float32", (x,)) for name in ("neg", "abs", "sqrt")]
    code, places = b.finish(*roots)
    operands = [Operand("float32"), *[Operand("float32", True)] * 3]
    nest = map_nest(0, operands, [], code, *enumerate(places, 1))
    x = np.random.default_rng(0).uniform(0, 2, 100).astype(np.float32)
    outs = np.empty((3, 100), np.float32)
    machine.kernel(nest)(x, *outs)
    np.testing.assert_array_equal(outs, [-x, abs(x), np.sqrt(x)])


@pytest.mark.parametrize("shape", [(1, 1), (5, 70), (70, 5), (33, 1000), (2, 3, 40)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_transposed_operands_are_taken_in_tiles(
    machine: Any, shape: tuple[int, ...], dtype: str
) -> None:
    b = CodeBuilder()
    row = b.cast(b.append("index", "int64", (), 0), dtype)
    code, (root,) = b.finish(b.append("add", dtype, (b.load(0, dtype), row)))
    outer = len(shape) - 1
    nest = map_nest(
        outer, [Operand(dtype, False, "strided"), Operand(dtype, True)], [], code, (1, root)
    )
    x = np.random.default_rng(0).integers(0, 50, shape[::-1]).astype(dtype).T
    rows = np.arange(shape[0]).reshape(-1, *[1] * outer).astype(dtype)
    for parts in (1, 3):
        out = np.zeros(shape, dtype)
        machine.kernel(nest)(x, out, parts=parts)
        np.testing.assert_array_equal(out, x + rows)


@pytest.mark.parametrize("columns", [1, 16, 50])
def test_rows_that_an_index_names(machine: Any, columns: int) -> None:
    b = CodeBuilder()
    width = b.constant(columns, "int64")
    start = b.append("mul", "int64", (b.load(1, "int64"), width))
    inner = b.append("index", "int64", (), -1)
    found = b.append("gather", "float32", (b.append("add", "int64", (start, inner)),), 0)
    same = b.append("gather", "float32", (start,), 0)
    code, (root,) = b.finish(b.append("sub", "float32", (found, same)))
    operands = [Operand("float32"), Operand("int64", False, "zero"), Operand("float32", True)]
    table = np.random.default_rng(0).normal(size=(20, columns)).astype(np.float32)
    indices = np.random.default_rng(1).integers(0, 20, 33)
    out = np.empty((33, columns), np.float32)
    whole = np.lib.stride_tricks.as_strided(table, out.shape, (0, 0))
    spread = np.broadcast_to(indices[:, None], out.shape)
    machine.kernel(map_nest(1, operands, [], code, (2, root)))(whole, spread, out)
    np.testing.assert_array_equal(out, table[indices] - table[indices, :1])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["avx512", "avx2", "sse2"])
@pytest.mark.parametrize("lane", ["unit", "strided"])
@pytest.mark.parametrize("source", ["int64", "float32", "float16", "int8", "bool"])
def test_nothing_is_written_beyond_the_end(machine: Any, source: str, lane: str, name: str) -> None:
    target = TARGETS[name]
    if target.width > machine.target.width:
        pytest.skip("the machine lacks it")
    for to in ("int64", "float32", "bfloat16", "int8", "bool"):
        b = CodeBuilder()
        code, (root,) = b.finish(b.cast(b.load(0, source), to))
        nest = map_nest(0, [Operand(source), Operand(to, True, lane)], [], code, (1, root))
        kernel = machine.kernel(nest, target)
        for n in (0, 1, 2, 3, 5, 7, 8, 13, 17, 33, 65, 129, 255):
            x = (np.arange(n) % 2).astype(as_dtype(source).dtype)
            step = 1 if lane == "unit" else 3
            memory = np.full((n + 300) * step, 1, as_dtype(to).dtype)
            expected = memory.copy()
            expected[: n * step : step] = x.astype(memory.dtype)
            kernel(x, memory[: n * step : step])
            assert same_bits(memory, expected), (to, n)


@pytest.mark.parametrize("name", ["quotient", "modulo"])
@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "int8"])
def test_no_division_traps(machine: Any, dtype: str, name: str) -> None:
    """Not in lanes beyond the end, whose numbers are 0, and not where there is no quotient."""
    b = CodeBuilder()
    code, (root,) = b.finish(b.append(name, dtype, (b.load(0, dtype), b.load(1, dtype))))
    nest = map_nest(0, [Operand(dtype), Operand(dtype), Operand(dtype, True)], [], code, (2, root))
    kernel = machine.kernel(nest)
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    for n in (1, 7, 300):
        x = rng.integers(limits.min, limits.max, n, dtype, endpoint=True)
        y = rng.integers(1, 100, n).astype(dtype)
        out = np.empty_like(x)
        kernel(x, y, out)
        pairs = [(int(p), int(q)) for p, q in zip(x, y, strict=True)]
        exact = [abs(p) // q * (1 if p >= 0 else -1) for p, q in pairs]
        if name == "modulo":
            exact = [p - e * q for (p, q), e in zip(pairs, exact, strict=True)]
        np.testing.assert_array_equal(out, np.array(exact, dtype))
        x[:], y[::2] = limits.min, 0
        y[1::2] = limits.max if limits.min == 0 else -1
        kernel(x, y, out)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("beside", ["int32", "int64", "int8"])
def test_one_of_sixteen_numbers(machine: Any, beside: str, dtype: str) -> None:
    """With as many lanes as another operand allows; the lowest four bits alone choose."""
    entries = tuple([bits_of(n * 0.37 - 2, dtype) for n in range(16)])
    b = CodeBuilder()
    place = b.cast(b.load(0, beside), "int32")
    found = b.append("permute", dtype, (place,), entries)
    code, (less,) = b.finish(b.append("lt", "bool", (found, b.constant(0.4, dtype))))
    x = np.random.default_rng(0).integers(-100, 100, 333).astype(beside)
    expected = np.array([n * 0.37 - 2 for n in range(16)], dtype)[x & 15]
    out = np.zeros(x.shape, bool)
    operands = [Operand(beside), Operand("bool", True)]
    machine.kernel(map_nest(0, operands, [], code, (1, less)))(x, out)
    np.testing.assert_array_equal(out, expected < np.array(0.4, dtype))
    code, (root,) = b.finish(found)
    whole = np.zeros(x.shape, dtype)
    operands = [Operand(beside), Operand(dtype, True)]
    machine.kernel(map_nest(0, operands, [], code, (1, root)))(x, whole)
    np.testing.assert_array_equal(whole, expected)


def test_operands_of_like_strides_begin_rows_alike(machine: Any) -> None:
    nest = affine_nest(2, "unit", "unit", "unit")
    like = [
        o._replace(alike=alike) for o, alike in zip(nest.operands, (None, 0, None), strict=True)
    ]
    nest = nest._replace(operands=tuple(like))
    base = np.random.default_rng(0).normal(size=(4, 7, 40)).astype(np.float32)
    x, y = base[:3, 1:6, 2:35], base[1:, 2:7, 4:37]
    out = np.zeros((5, 3, 33), np.float32).transpose(1, 0, 2)
    machine.kernel(nest)(x, y, out, scalars=[1.5], parts=3)
    np.testing.assert_array_equal(out, x * y + np.float32(1.5))
    last = nest._replace(operands=(nest.operands[1], *nest.operands[1:]))
    with pytest.raises(ValueError, match="operand 0 is like operand 0"):
        validate(last)
