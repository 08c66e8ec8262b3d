"""Short rows with a row in each lane: the bits of rows along the lanes, and no place but theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.nest import Map, Nest, Operand, Reduce, Row
from ingle.fusion.render.llvm.across import goes_across
from ingle.fusion.render.llvm.targets import AVX512


def normalized() -> Nest:
    """Rows over their sums, with what a kernel can ask for: operands of rows and of columns, a
    table of numbers, indices, a scalar, a result for each row, an output that is read again."""
    b = CodeBuilder()
    scaled = b.append("mul", "float32", (b.load(0, "float32"), b.load(1, "float32")))
    number = b.append("scalar", "float32", (), 0)
    code, (root,) = b.finish(b.append("add", "float32", (scaled, number)))
    summed = Reduce(code, (("sum", root), ("argmax", root)), ((5, root),))
    b = CodeBuilder()
    best = b.append("result", "int64", (), (0, 1))
    total = b.append("result", "float32", (), (0, 0))
    inverse = b.append("rsqrt", "float32", (b.append("abs", "float32", (total,)),))
    code, (place, factor) = b.finish(best, inverse)
    once = Row(code, ((4, place),), (factor,))
    b = CodeBuilder()
    row, column = b.append("index", "int64", (), 0), b.append("index", "int64", (), -1)
    offset = b.append("add", "int64", (b.load(2, "int64"), column))
    entry = b.append("gather", "float32", (offset,), 3)
    odd = b.append("eq", "bool", (b.append("and", "int64", (row, b.constant(1, "int64"))), column))
    share = b.append(
        "mul", "float32", (b.load(5, "float32"), b.append("row", "float32", (), (1, 0)))
    )
    both = b.append("select", "float32", (odd, entry, b.append("div", "float32", (share, entry))))
    code, (root,) = b.finish(both)
    operands = (
        Operand("float32"), Operand("float32", False, "strided"), Operand("int64", False, "zero"),
        Operand("float32", False, "zero"), Operand("int64", True, "zero"), Operand("float32", True),
    )  # fmt: skip
    return Nest(1, operands, ("float32",), (summed, once, Map(code, ((5, root),))))


@pytest.mark.parametrize("n", [1, 2, 3, 8, 10, 16, 32])
def test_same_bits_and_nothing_else_written(machine: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    table = rng.normal(size=70).astype(np.float32)
    found = []
    for gathers in (False, True):
        target = machine.target._replace(gathers=gathers)
        kernel = machine.kernel(normalized()._replace(row_length=n), target)
        for rows in (1, 15, 16, 200):
            rng = np.random.default_rng(rows)
            x = rng.normal(size=(rows, n)).astype(np.float32)
            turned = rng.normal(size=(n, rows)).astype(np.float32).T
            starts = rng.integers(0, 38, (rows, 1))
            wide = np.broadcast_to(table[:1], (rows, n))
            best = np.full((rows + 2, 1), 77)
            out = np.full((rows + 2, n + 3), 99.0, np.float32)
            kernel(x, turned, starts, wide, best[1:-1], out[1:-1, :n], scalars=[0.25], parts=3)
            assert (best[[0, -1]] == 77).all()
            assert (out[[0, -1]] == 99).all()
            assert (out[:, n:] == 99).all()
            scaled = x * turned + np.float32(0.25)
            np.testing.assert_array_equal(best[1:-1, 0], scaled.argmax(1))
            found.append(best.tobytes() + out.tobytes())
    assert found[: len(found) // 2] == found[len(found) // 2 :]


def test_which_nests_go_across() -> None:
    nest = normalized()._replace(row_length=10)
    assert goes_across(nest, AVX512)
    assert not goes_across(nest, AVX512._replace(gathers=False))
    assert not goes_across(nest._replace(row_length=0), AVX512)
    assert not goes_across(nest._replace(row_length=11), AVX512)
    assert not goes_across(nest._replace(stages=nest.stages[:0]), AVX512)
    halves = tuple([o._replace(dtype="float16") for o in nest.operands])
    assert not goes_across(nest._replace(operands=halves), AVX512)
