"""Building code: value numbering, simplification, pruning, what a nest refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ingle.fusion.kernel.code import CodeBuilder, Instruction, bits_of, number_of, prune, text
from ingle.fusion.kernel.expand import expand
from ingle.fusion.kernel.expression import Expression, where
from ingle.fusion.kernel.nest import (
    Map,
    Nest,
    Operand,
    Reduce,
    Row,
    Stage,
    accumulators,
    layout,
    map_nest,
    units,
)
from ingle.fusion.kernel.validation import validate

F = "float32"


def test_bits_tell_apart_what_python_does_not() -> None:
    assert bits_of(-0.0, F) != bits_of(0.0, F)
    assert bits_of(True, "bool") == bits_of(1, "int8") == 1
    assert bits_of(float("nan"), F) == bits_of(float("nan"), F) == 0x7FC00000
    assert bits_of(-1, "uint8") == 255
    for dtype, value in (("float16", 1.5), ("bfloat16", -2.0), ("int64", -7), ("bool", True)):
        assert number_of(bits_of(value, dtype), dtype) == value
    assert number_of(bits_of(1e10, "float16"), "float16") == math.inf


def test_equal_work_is_done_once() -> None:
    b = CodeBuilder()
    x, y = b.load(0, F), b.load(1, F)
    assert b.append("add", F, (x, y)) == b.append("add", F, (y, x))
    assert b.append("sub", F, (x, y)) != b.append("sub", F, (y, x))
    assert b.constant(1.0, F) == b.constant(1, F)
    assert b.constant(0.0, F) != b.constant(-0.0, F)


def test_simplifications_keep_every_bit() -> None:
    b = CodeBuilder()
    x = b.load(0, F)
    one, zero, minus_zero = (b.constant(v, F) for v in (1, 0, -0.0))
    assert b.append("mul", F, (x, one)) == x
    assert b.append("div", F, (x, one)) == x
    assert b.append("sub", F, (x, zero)) == x
    assert b.append("add", F, (x, minus_zero)) == x
    assert b.append("add", F, (x, zero)) != x  # -0.0 + 0.0 is 0.0
    assert b.append("neg", F, (b.append("neg", F, (x,)),)) == x
    quarter = b.append("div", F, (x, b.constant(4, F)))
    assert b.instructions[quarter].name == "mul"
    assert b.instructions[b.append("div", F, (x, b.constant(3, F)))].name == "div"
    yes = b.constant(True, "bool")
    assert b.append("select", F, (yes, x, zero)) == x


def test_implicit_rounding_is_dropped_unless_exact() -> None:
    for exact in (False, True):
        b = CodeBuilder(exact=exact)
        x = b.load(0, F)
        assert (b.widen(b.narrow(x, "float16")) == x) is not exact
        assert b.cast(b.cast(x, "float16"), F) != x  # the user asked for it


def test_finish_keeps_what_is_needed_in_order() -> None:
    b = CodeBuilder()
    b.load(7, F)
    y = b.append("neg", F, (b.load(1, F),))
    code, roots = b.finish(y, y)
    assert code == (Instruction("load", F, (), 1), Instruction("neg", F, (0,)))
    assert roots == (1, 1)
    assert prune(code, [0]) == ((code[0],), (0,))
    assert text(code) == "0: float32 load 1\n1: float32 neg #0"


def test_inlining_replaces_leaves() -> None:
    b = CodeBuilder()
    inner, (root,) = b.finish(b.append("exp", F, (b.load(0, F),)))
    b = CodeBuilder()
    half = b.append("mul", F, (b.load(3, F), b.constant(0.5, F)))
    places = b.inline(inner, lambda at: half if at.name == "load" else None)
    code, _ = b.finish(places[root])
    assert [i.name for i in code] == ["load", "constant", "mul", "exp"]


def test_bad_instructions_are_refused() -> None:
    b = CodeBuilder()
    with pytest.raises(ValueError, match="add of 1 arguments; expected: 2"):
        b.append("add", F, (b.load(0, F),))
    with pytest.raises(ValueError, match="no such operation"):
        b.append("frobnicate", F)


def test_expressions_are_formulas() -> None:
    b = CodeBuilder()
    x = Expression(b, b.load(0, F))
    y = where((x > 1) & ~x.is_nan(), 2 - x, 1 / (x + 1.5))
    code, (root,) = b.finish(y.at)
    assert code[root].name == "select"
    assert {"gt", "ne", "not", "and", "sub", "div", "add"} <= {i.name for i in code}


def test_expansion_leaves_the_core_alone_and_shares_work() -> None:
    b = CodeBuilder()
    x = b.load(0, F)
    both = b.append("add", F, (b.append("sin", F, (x,)), b.append("cos", F, (x,))))
    alone = len(expand(*b.finish(b.append("sin", F, (x,))))[0])
    together = len(expand(*b.finish(both))[0])
    assert together < alone + 12  # one reduction and one pair of polynomials for both


# -- nests -----------------------------------------------------------------------------------


def copy(outer: int = 0, dtype: str = F) -> Nest:
    b = CodeBuilder()
    code, (root,) = b.finish(b.load(0, dtype))
    return map_nest(outer, [Operand(dtype), Operand(dtype, True)], [], code, (1, root))


def test_units_of_work() -> None:
    assert units(copy(), (1000,)) == 1000
    assert units(copy(2), (3, 5, 1000)) == 15
    assert units(copy(2)._replace(lanes="outer"), (3, 300, 7)) == 9
    assert units(copy(1)._replace(lanes="outer"), (8192, 7)) == 8
    assert accumulators("float32") == accumulators("float16") == 64
    at = layout(copy(2))
    assert (at.inner, at.stride(0, 0), at.stride(0, -1), at.stride(1, 0)) == (2, 3, 5, 6)
    assert at.scalar(0) == 9


def broken(stage: Stage, *operands: Operand, outer: int = 1, **more: object) -> Nest:
    every = operands or (Operand(F), Operand(F, True))
    return Nest(outer, every, (F,), (stage,))._replace(**more)


X = Instruction("load", F, (), 0)
PROBLEMS = [
    ("no stages", copy()._replace(stages=())),
    ("lanes 'across'", copy()._replace(lanes="across")),
    ("need an outer axis", copy()._replace(lanes="outer")),
    ("ragged needs an outer axis", copy()._replace(ragged=True)),
    ("7 outer axes", copy(7)),
    ("has dtype 'complex64'", broken(Map((X,), ()), Operand("complex64"))),
    ("has lane 'wide'", broken(Map((X,), ()), Operand(F, False, "wide"))),
    ("which is no output", broken(Map((X,), ((0, 0),)))),
    ("stores instruction 3 of 1", broken(Map((X,), ((1, 3),)))),
    ("stores float32 to operand 1 of int8",
     broken(Map((X,), ((1, 0),)), Operand(F), Operand("int8", True))),
    ("where its stride is 0", broken(Map((X,), ((1, 0),)), Operand(F), Operand(F, True, "zero"))),
    ("float32 from operand 0 of float64", broken(Map((X,), ()), Operand("float64"))),
    ("operand 4 of 2", broken(Map((Instruction("load", F, (), 4),), ()))),
    ("scalar 1 as float32", broken(Map((Instruction("scalar", F, (), 1),), ()))),
    ("axis 1 of 1 outer axes", broken(Map((Instruction("index", "int64", (), 1),), ()))),
    ("no value in a Row stage", broken(Row((Instruction("index", "int64", (), -1),)))),
    ("are not before it", broken(Map((Instruction("neg", F, (0,)),), ()))),
    ("no reduction 'mean'", broken(Reduce((X,), (("mean", 0),)))),
    ("it takes bool", broken(Reduce((X,), (("any", 0),)))),
    ("refers to stage 0", broken(Map((Instruction("result", F, (), (0, 0)),), ()))),
    ("widen it to float32", broken(
        Map((Instruction("load", "float16", (), 0), Instruction("neg", "float16", (0,))), ()),
        Operand("float16"))),
    ("int32 is no float", broken(
        Map((Instruction("load", "int32", (), 0), Instruction("sqrt", "int32", (0,))), ()),
        Operand("int32"))),
]  # fmt: skip


@pytest.mark.parametrize(("problem", "nest"), PROBLEMS, ids=[p for p, _ in PROBLEMS])
def test_bad_nests_are_refused_with_the_reason(problem: str, nest: Nest) -> None:
    with pytest.raises(ValueError, match=problem):
        validate(nest)


def test_results_have_the_dtype_of_their_reduction() -> None:
    stages = (
        Reduce((X,), (("argmax", 0),)),
        Row((Instruction("result", F, (), (0, 0)),), ((1, 0),)),
    )
    with pytest.raises(ValueError, match="is int64 there, float32 here"):
        validate(Nest(1, (Operand(F), Operand(F, True, "zero")), (), stages))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_of_floats_are_numpys(dtype: str) -> None:
    rng = np.random.default_rng(0)
    drawn = (rng.standard_normal(200) * 10.0 ** rng.integers(-320, 308, size=200)).tolist()
    between = [1 + 2.0**-24, 1 + 3 * 2.0**-24, 2.0**-150, 3 * 2.0**-150, 3.4028235677973366e38]
    special = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), -float("nan"), 1e300]
    for value in (*drawn, *between, *special):
        with np.errstate(over="ignore", under="ignore"):
            wanted = int(np.asarray(value).astype(dtype).view(f"u{np.dtype(dtype).itemsize}"))
        assert bits_of(value, dtype) == wanted, value
