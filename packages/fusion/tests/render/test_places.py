"""Rows at computed places: read from there, written to there, several to one place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.nest import Map, Nest, Operand, Row, map_nest, units
from ingle.fusion.kernel.validation import validate
from ingle.tensor.dtypes import as_dtype

WIDTHS = [1, 3, 17, 40, 300]
COMBINED = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def place() -> Row:
    """The element where the row begins that operand 0 names; scalar 0 is how long rows are."""
    b = CodeBuilder()
    index = b.cast(b.load(0, "int32"), "int64")
    code, values = b.finish(b.append("mul", "int64", (index, b.append("scalar", "int64", (), 0))))
    return Row(code, values=values)


def seen(array: Any, *shape: int) -> Any:
    """An array with the axes of a nest; those of stride 0 in front."""
    strides = (0,) * (len(shape) - array.ndim) + array.strides
    return np.lib.stride_tricks.as_strided(array, shape, strides)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64", "bfloat16"])
@pytest.mark.parametrize("parts", [1, 3])
def test_rows_are_read_where_an_index_says(machine: Any, width: int, dtype: str, parts: int):
    b = CodeBuilder()
    code, (root,) = b.finish(b.load(1, dtype))
    operands = (
        Operand("int32", False, "zero"), Operand(dtype, row_base=0), Operand(dtype, True),
    )  # fmt: skip
    nest = Nest(1, operands, ("int64",), (place(), Map(code, ((2, root),))))
    rng = np.random.default_rng(width)
    table = rng.integers(0, 99, (11, width)).astype(as_dtype(dtype).dtype)
    indices = rng.integers(0, 11, 23).astype(np.int32)
    out = np.zeros((23, width), table.dtype)
    machine.kernel(nest)(
        indices[:, None], seen(table[0], 23, width), out, scalars=[width], parts=parts
    )
    np.testing.assert_array_equal(out, table[indices])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["float32", "int16", "float64"])
@pytest.mark.parametrize("combine", [*COMBINED, None])
def test_rows_on_one_place_come_in_order_however_work_is_divided(
    machine: Any, width: int, dtype: str, combine: str | None
):
    b = CodeBuilder()
    update = b.load(1, dtype)
    if combine is not None:
        update = b.append(combine, dtype, (b.load(2, dtype), update))
    code, (root,) = b.finish(update)
    operands = (Operand("int32", False, "zero"), Operand(dtype), Operand(dtype, True, row_base=0))
    short = width if width <= 32 else 0
    nest = Nest(
        2,
        operands,
        ("int64",),
        (place(), Map(code, ((2, root),))),
        row_length=short,
        scattered=True,
    )
    rng = np.random.default_rng(width)
    indices = rng.integers(0, 7, 50).astype(np.int32)
    updates = (rng.normal(size=(50, width)) * 1e3).astype(as_dtype(dtype).dtype)
    start = rng.integers(0, 9, (7, width)).astype(updates.dtype)
    want = start.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        for index, row in zip(indices, updates, strict=True):
            want[index] = COMBINED[combine](want[index], row) if combine else row
    assert units(nest, (7 * width, 50, width)) == 7 * width
    for parts in (1, 2, 5):
        out = start.copy()
        machine.kernel(nest)(
            seen(indices[:, None], 7 * width, 50, 1), seen(updates, 7 * width, 50, width),
            seen(out[0], 7 * width, 50, width), scalars=[width], parts=parts,
        )  # fmt: skip
        np.testing.assert_array_equal(out, want)


def test_a_copy_onto_itself_and_to_elsewhere(machine: Any):
    b = CodeBuilder()
    code, (root,) = b.finish(b.load(0, "float32"))
    copy = machine.kernel(
        map_nest(0, [Operand("float32"), Operand("float32", True)], [], code, (1, root))
    )
    x = np.random.default_rng(0).normal(size=100).astype(np.float32)
    same, other = x.copy(), np.zeros_like(x)
    copy(same, same, parts=3)
    copy(x, other, parts=3)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(other, x)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda nest: nest._replace(stages=nest.stages[1:]), "stage 0 has no such int64"),
        (lambda nest: nest._replace(lanes="outer"), "stage 0 has no such int64"),
        (lambda nest: nest._replace(outer=0, scattered=True), "scattered rows need an outer axis"),
    ],
)
def test_places_that_nobody_computes_are_refused(change: Any, problem: str):
    b = CodeBuilder()
    code, (root,) = b.finish(b.load(0, "int32"))
    operands = (Operand("int32", row_base=0), Operand("int32", True))
    nest = Nest(1, operands, ("int64",), (place(), Map(code, ((1, root),))))
    validate(nest)
    with pytest.raises(ValueError, match=problem):
        validate(change(nest))


def test_a_kernel_that_stores_once_a_row_is_another_one():
    b = CodeBuilder()
    code, (root,) = b.finish(b.load(0, "float32"))
    assert Row(code, ((1, root),)) != Map(code, ((1, root),))
