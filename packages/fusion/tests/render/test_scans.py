"""Running results: at each place the fold of what comes before it and of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.nest import Map, Nest, Operand, Reduce
from ingle.fusion.kernel.validation import validate
from ingle.tensor.dtypes import as_dtype

FOLDS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
SHAPES = [(1, 1), (3, 5), (4, 17), (7, 300), (64, 9), (130, 40), (300, 3)]


def scan(combine: str, dtype: str, *, lanes: str = "inner", outer: int = 1, **more: Any) -> Nest:
    """A nest that folds one operand along the inner axis and stores each result in the other."""
    b = CodeBuilder()
    code, (root,) = b.finish(b.widen(b.load(0, dtype)))
    wide = code[root].dtype
    made = "int64" if combine.startswith("arg") else wide
    out = made if combine.startswith("arg") else dtype
    b = CodeBuilder()
    after, (stored,) = b.finish(b.cast(b.append("result", made, (), (0, 0)), out))
    operands = (Operand(dtype, **more), Operand(out, True, **more))
    stages = (Reduce(code, ((combine, root),), scan=True), Map(after, ((1, stored),)))
    return Nest(outer, operands, (), stages, lanes)


def drawn(shape: tuple[int, ...], dtype: str) -> Any:
    """Numbers whose products neither vanish nor grow."""
    rng = np.random.default_rng(shape)
    numbers = rng.choice([-1.25, 0.75, 1, 1.5, -0.875], shape) if "float" in dtype else None
    return (rng.integers(-9, 10, shape) if numbers is None else numbers).astype(
        as_dtype(dtype).dtype
    )


def folded(combine: str, x: Any) -> Any:
    """The results by NumPy, along the last axis; half types in float32."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x
    with np.errstate(over="ignore"):
        return FOLDS[combine].accumulate(wide, axis=-1, dtype=wide.dtype).astype(x.dtype)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int8", "uint64"])
@pytest.mark.parametrize("combine", FOLDS)
def test_along_rows(machine: Any, combine: str, dtype: str, shape: tuple[int, int]):
    x = drawn(shape, dtype)
    kernel = machine.kernel(scan(combine, dtype))
    for parts in (1, 3):
        out = np.zeros_like(x)
        kernel(x, out, parts=parts)
        np.testing.assert_array_equal(out, folded(combine, x))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int16"])
@pytest.mark.parametrize("combine", ["sum", "min"])
def test_down_columns(machine: Any, combine: str, dtype: str, shape: tuple[int, int]):
    x = drawn(shape, dtype)
    out = np.zeros_like(x)
    machine.kernel(scan(combine, dtype, lanes="outer"))(x.T, out.T, parts=2)
    np.testing.assert_array_equal(out, folded(combine, x.T).T)


@pytest.mark.parametrize("lanes", ["inner", "outer"])
def test_of_strided_rows_of_several_axes(machine: Any, lanes: str):
    x = drawn((5, 3, 80, 4), "float32")[:, ::-1, ::2, :]
    x = np.swapaxes(x, 0, 2)
    out = np.zeros((40, 3, 4, 5), np.float32).swapaxes(2, 3)
    kernel = machine.kernel(scan("sum", "float32", lanes=lanes, outer=3, lane="strided"))
    kernel(x, out, parts=3)
    np.testing.assert_array_equal(out, folded("sum", x))


@pytest.mark.parametrize("lanes", ["inner", "outer"])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
@pytest.mark.parametrize("combine", ["argmax", "argmin"])
def test_places_are_those_of_the_last_of_equals(machine: Any, combine: str, dtype: str, lanes: str):
    x = np.random.default_rng(0).integers(0, 5, (37, 90)).astype(dtype)
    best = folded(combine.removeprefix("arg"), x)
    want = np.maximum.accumulate(np.where(x == best, np.arange(90), 0), axis=1)
    out = np.zeros((90, 37), np.int64).T if lanes == "outer" else np.zeros((37, 90), np.int64)
    given = np.asfortranarray(x) if lanes == "outer" else x
    machine.kernel(scan(combine, dtype, lanes=lanes))(given, out)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("lanes", ["inner", "outer"])
@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_what_a_row_has_once(machine: Any, dtype: str, lanes: str):
    """A factor of each row in front of the fold, and behind it."""
    b = CodeBuilder()
    factor = b.append("neg", dtype, (b.load(1, dtype),))
    code, (root,) = b.finish(b.append("mul", dtype, (b.load(0, dtype), factor)))
    b = CodeBuilder()
    factor = b.append("neg", dtype, (b.load(1, dtype),))
    found = b.append("result", dtype, (), (0, 0))
    after, (stored,) = b.finish(b.append("add", dtype, (found, factor)))
    lane = "zero" if lanes == "inner" else "unit"
    operands = Operand(dtype), Operand(dtype, lane=lane), Operand(dtype, True)
    stages = Reduce(code, (("sum", root),), scan=True), Map(after, ((2, stored),))
    x, y = drawn((6, 70), "int32").astype(dtype), drawn((6, 1), "int32").astype(dtype)
    out, given = np.zeros_like(x), [x, np.broadcast_to(y, x.shape)]
    if lanes == "outer":
        out, given = np.zeros((70, 6), dtype).T, [np.asfortranarray(x), given[1]]
    machine.kernel(Nest(1, operands, (), stages, lanes))(*given, out)
    np.testing.assert_array_equal(out, np.cumsum(x * -y, axis=1, dtype=dtype) - y)


def test_onto_what_is_read(machine: Any):
    x = drawn((9, 50), "float32")
    same = x.copy()
    machine.kernel(scan("sum", "float32"))(same, same)
    np.testing.assert_array_equal(same, folded("sum", x))


def test_of_rows_without_elements_and_of_no_rows(machine: Any):
    for shape in ((3, 0), (0, 3)):
        x = np.zeros(shape, np.float32)
        machine.kernel(scan("sum", "float32"))(x, x)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda nest: nest._replace(stages=nest.stages[:1]), "running results take"),
        (lambda nest: nest._replace(stages=(*nest.stages, nest.stages[1])), "running results take"),
        (lambda nest: nest._replace(ragged=True), "running results take"),
        (lambda nest: nest._replace(row_length=3), "running results take"),
    ],
)
def test_running_results_stand_alone(change: Any, problem: str):
    nest = scan("sum", "float32")
    validate(nest)
    with pytest.raises(ValueError, match=problem):
        validate(change(nest))


def test_places_of_floats_are_refused():
    with pytest.raises(ValueError, match="running argmax of float32: it takes integers"):
        validate(scan("argmax", "float32"))
