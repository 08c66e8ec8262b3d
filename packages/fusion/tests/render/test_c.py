"""The C renderer: it passes the tests of the LLVM renderer, and gives the same bits."""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
import itertools
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingle.fusion.kernel.code import (
    FLOATS,
    HALVES,
    INTEGERS,
    SIGNED,
    SIZES,
    Code,
    CodeBuilder,
    bits_of,
)
from ingle.fusion.kernel.functions import EXPANSIONS, short
from ingle.fusion.kernel.nest import Map, Nest, Operand, Reduce, Row, map_nest
from ingle.fusion.render.c.source import render
from ingle.tensor.dtypes import as_dtype

# Each kernel is a run of gcc.
pytestmark = [pytest.mark.slow, pytest.mark.sampled(3, slow=0)]

HERE = Path(__file__).parent
FLAGS = ["-std=c11", "-O1", "-march=native", "-ffp-contract=off", "-fno-math-errno"]
FLAGS += ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC"]
FLAGS += ["-Wno-tautological-compare"]  # random code compares values with themselves
WIDE = ("float32", "float64")
NUMBERS = sorted((FLOATS | INTEGERS) - HALVES)
LEFT_TO_THE_MACHINE: set[tuple[str, str]] = set()
"""Functions, with their dtypes, of which a renderer writes no polynomial."""


def module(name: str) -> Any:
    """A test file of this folder, or the `conftest` above it, as a module."""
    folder = HERE if name.startswith("test_") else HERE.parent
    spec = importlib.util.spec_from_file_location(f"{name}_for_c", folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


Kernel, SIGNATURE = (getattr(module("conftest"), n) for n in ("Kernel", "SIGNATURE"))
for file in ("test_map", "test_places", "test_reduce", "test_scans"):
    found = {n: f for n, f in vars(module(file)).items() if n.startswith("test_")}
    # All but those about processors, which C does not know.
    globals().update({n: f for n, f in found.items() if "target" not in inspect.getsource(f)})


class Compiler:
    """gcc: nests in, callable kernels out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers = itertools.count()

    def load(self, text: str, name: str) -> Any:
        """The function of that name as a ctypes function."""
        path = self.folder / f"{next(self.numbers)}.c"
        path.write_text(text)
        library = path.with_suffix(".so")
        command = ["gcc", *FLAGS, "-o", str(library), str(path), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{text}"
        function = getattr(ctypes.CDLL(str(library)), name)
        return ctypes.cast(function, SIGNATURE)

    def kernel(self, nest: Nest) -> Any:
        """A nest as something to call with arrays."""
        return Kernel(nest, self.load(render(nest, "kernel"), "kernel"))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    return Compiler(tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="module")
def llvm() -> Any:
    made = module("conftest").Machine(pytest.importorskip("llvmlite.binding"))
    # Functions that choose among numbers in a register are others in their last place.
    made.target = made.target._replace(permute=False)
    return made


def draw(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Bits of any kind for integers; floats with special ones among them."""
    rng = np.random.default_rng(seed)
    kind = as_dtype(dtype).dtype
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in INTEGERS:
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        return rng.integers(low, high, shape, dtype=kind, endpoint=True)
    x = np.asarray(rng.normal(size=shape) * 2.0 ** rng.integers(-12, 12, shape))
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1e-40, 2.5, 65520.0, 6e-8]
    flat = x.reshape(-1)
    flat[: len(special)] = special[: flat.size]
    with np.errstate(over="ignore"):
        return x.astype(kind)


def bits(x: np.ndarray) -> bytes:
    """What must be equal: the bits, but for those of NaNs."""
    if x.dtype.kind == "f" or x.dtype.name == "bfloat16":
        x = np.where(np.isnan(x), np.asarray(np.nan, x.dtype), x)
    return x.tobytes()


def same(machine: Any, llvm: Any, nest: Nest, arrays: list[np.ndarray], **more: Any) -> None:
    """Runs a nest by both renderers and compares all that it writes."""
    results = []
    for who in (machine, llvm):
        mine = [a.copy(order="K") for a in arrays]
        who.kernel(nest)(*mine, **more)
        results.append([bits(a) for a, o in zip(mine, nest.operands, strict=True) if o.output])
    assert results[0] == results[1]


def of_one(name: str, dtype: str, *sources: str) -> Nest:
    """One operation of operands, elementwise."""
    b = CodeBuilder(exact=True)
    args = tuple([b.load(k, s) for k, s in enumerate(sources)])
    code, (root,) = b.finish(b.append(name, dtype, args))
    operands = [*[Operand(s) for s in sources], Operand(dtype, True)]
    return map_nest(0, operands, [], code, (len(sources), root))


UNARY = {
    **dict.fromkeys(("neg", "abs"), NUMBERS),
    **dict.fromkeys(("sqrt", "floor", "ceil", "trunc", "round"), WIDE),
    "not": sorted(INTEGERS | {"bool"}),
}
BINARY = {
    **dict.fromkeys(("add", "sub", "mul", "min", "max"), NUMBERS),
    **dict.fromkeys(("div", "residue"), WIDE),
    **dict.fromkeys(("and", "or", "xor"), sorted(INTEGERS | {"bool"})),
    **dict.fromkeys(("floor_div", "rem"), sorted(INTEGERS)),
}
ALL = [(n, d, 1) for n, ds in UNARY.items() for d in ds]
ALL += [(n, d, 2) for n, ds in BINARY.items() for d in ds]


@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
def test_core_operations_have_the_same_bits(machine: Any, llvm: Any, dtype: str) -> None:
    b = CodeBuilder(exact=True)
    x, y = b.load(0, dtype), b.load(1, dtype)
    cases = [(n, count) for n, d, count in ALL if d == dtype]
    roots = [b.append(n, dtype, (x, y)[:count]) for n, count in cases]
    code, places = b.finish(*roots)
    operands = [Operand(dtype), Operand(dtype), *[Operand(dtype, True)] * len(places)]
    nest = map_nest(0, operands, [], code, *enumerate(places, 2))
    values = [draw(dtype, (331,)), draw(dtype, (331,), 1)[::-1].copy()]
    if dtype == "float64":  # the exact rest of a product must not underflow
        values = [np.where(abs(v) < 1e-30, 0, v) for v in values]
    outs = [np.zeros_like(values[0]) for _ in places]
    same(machine, llvm, nest, [*values, *outs])


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(machine: Any, llvm: Any, name: str) -> None:
    for dtype in ("bool", "int8", "uint64", "float32", "float64"):
        x, y = draw(dtype, (301,)), draw(dtype, (301,), 1)
        y[::3] = x[::3]
        same(machine, llvm, of_one(name, "bool", dtype, dtype), [x, y, np.zeros(301, bool)])


@pytest.mark.parametrize("source", sorted(FLOATS | INTEGERS | {"bool"}))
def test_casts(machine: Any, llvm: Any, source: str) -> None:
    targets = sorted((FLOATS | INTEGERS | {"bool"}) - {source})
    b = CodeBuilder(exact=True)
    x = b.load(0, source)
    code, places = b.finish(*[b.cast(x, t) for t in targets])
    operands = [Operand(source), *[Operand(t, True) for t in targets]]
    values = draw(source, (400,))
    if source in FLOATS:  # what does not fit into an integer is not defined
        wide = values.astype(np.float64)
        floats = [t in FLOATS for t in targets]
        outs = [np.zeros(400, as_dtype(t).dtype) for t in targets]
        nest = map_nest(0, operands, [], code, *enumerate(places, 1))
        safe = np.where(np.isfinite(wide) & (abs(wide) < 100), abs(wide), 7).astype(values.dtype)
        same(machine, llvm, nest, [safe, *outs])
        assert any(floats)
    else:
        outs = [np.zeros(400, as_dtype(t).dtype) for t in targets]
        same(machine, llvm, map_nest(0, operands, [], code, *enumerate(places, 1)), [values, *outs])


@pytest.mark.parametrize("half", sorted(HALVES))
def test_half_types_are_converted_exactly(machine: Any, half: str) -> None:
    """All of them to wide, and wide ones around every boundary between two."""
    every = np.arange(65536, dtype=np.uint16).view(as_dtype(half).dtype)
    for wide in WIDE:
        widened = np.zeros(65536, wide)
        machine.kernel(of_one("cast", wide, half))(every, widened)
        with np.errstate(over="ignore", invalid="ignore"):
            assert bits(widened) == bits(every.astype(wide))
            finite = np.sort(widened[np.isfinite(widened)])
            middle = (finite[1:] + finite[:-1]) / 2
            near = [np.nextafter(middle, np.array(end, wide)) for end in (-np.inf, np.inf)]
            x = np.concatenate([middle, *near, [np.inf, -np.inf, np.nan, 65519.9, 65520.0, 3.4e38]])
            x = x.astype(wide)
            narrow = np.zeros(len(x), every.dtype)
            machine.kernel(of_one("cast", half, wide))(x, narrow)
            assert bits(narrow) == bits(x.astype(every.dtype))


@pytest.mark.parametrize("name", ["shl", "shr", "quotient", "modulo"])
@pytest.mark.parametrize("dtype", sorted(INTEGERS))
def test_shifts_and_division(machine: Any, llvm: Any, name: str, dtype: str) -> None:
    x, y = draw(dtype, (320,)), draw(dtype, (320,), 1)
    if name in ("shl", "shr"):
        y = (y.astype(np.uint64) % (8 * SIZES[dtype])).astype(y.dtype)
    else:
        y = np.where((y == 0) | (y == (-1 if dtype in SIGNED else 0)), 3, y).astype(y.dtype)
    same(machine, llvm, of_one(name, dtype, dtype, dtype), [x, y, np.zeros_like(x)])


@pytest.mark.parametrize(
    "name", sorted(set(EXPANSIONS) - {"cast", "quotient", "modulo", "residue"})
)
def test_composites_are_expanded_the_same(machine: Any, llvm: Any, name: str) -> None:
    arity = 2 if name in ("floor_div", "rem", "pow", "atan2", "scale", "scale_near") else 1
    for dtype in ("float32",) if name in short.EXPANSIONS else WIDE:
        if (name, dtype) in LEFT_TO_THE_MACHINE:
            continue
        nest = of_one(name, dtype, *[dtype] * arity)
        values = [draw(dtype, (3001,), seed) for seed in range(arity)]
        if name == "scale_near":
            values[0] = np.random.default_rng(1).uniform(0.5, 2, 3001).astype(dtype)
            values[1] = np.random.default_rng(2).integers(-200, 200, 3001).astype(dtype)
        if name == "scale":
            values[1] = np.random.default_rng(2).integers(-2200, 2200, 3001).astype(dtype)
        same(machine, llvm, nest, [*values, np.zeros_like(values[0])])


def test_bits_scalars_tables_and_fallbacks(machine: Any, llvm: Any) -> None:
    b = CodeBuilder()
    x = b.load(0, "float32")
    whole = b.append("bitcast", "int32", (x,))
    low = b.append("and", "int32", (whole, b.constant(7, "int32")))
    entries = tuple([bits_of(v, "float32") for v in (0.1, -0.0, 3e38, np.inf, -1e-45, 7, 8, 9)])
    entry = b.append("table", "float32", (low,), entries)
    product = b.append("mul", "float32", (entry, b.append("scalar", "float32", (), 0)))
    flag = b.append("scalar", "bool", (), 1)
    chosen = b.append("select", "float32", (flag, product, x))
    code, (root,) = b.finish(chosen)
    operands = [Operand("float32"), Operand("float32", True)]
    nest = map_nest(0, operands, ["float32", "bool"], code, (1, root))
    x = draw("float32", (200,))
    for flag in (True, False):
        same(machine, llvm, nest, [x, np.zeros_like(x)], scalars=[1.7, flag])


def sine_where_it_is_large() -> tuple[Code, int]:
    """Twice a number up to 4, the sine of a larger one, of operand 0; and where the result is."""
    b = CodeBuilder()
    x = b.load(0, "float32")
    large = b.append("lt", "bool", (b.constant(4, "float32"), b.append("abs", "float32", (x,))))
    near = b.append("mul", "float32", (x, b.constant(2, "float32")))
    code, (root,) = b.finish(b.append("fallback", "float32", (near, large, x), "sin_far"))
    return code, root


@pytest.mark.parametrize("rare", [(), (0,), (255,), (256, 257), (999,), range(1000)])
@pytest.mark.parametrize("kind", ["map", "sums", "columns"])
def test_rare_cases_in_any_part_of_the_elements(
    machine: Any, llvm: Any, kind: str, rare: Sequence[int]
) -> None:
    code, root = sine_where_it_is_large()
    x = np.random.default_rng(3).uniform(-3, 3, 1000).astype(np.float32)
    x[[*rare]] = np.random.default_rng(4).uniform(5, 1e6, len(rare))
    if kind == "map":
        nest = map_nest(0, [Operand("float32"), Operand("float32", True)], [], code, (1, root))
        same(machine, llvm, nest, [x, np.zeros_like(x)])
        expected, over = np.zeros_like(x), x.copy()
        machine.kernel(nest)(x, expected)
        machine.kernel(nest)(over, over)  # in the operand's memory
        assert bits(over) == bits(expected)
        return
    b = CodeBuilder()
    after, (end,) = b.finish(b.append("result", "float32", (), (0, 0)))
    stages = (Reduce(code, (("sum", root),)), Row(after, ((1, end),)))
    out = Operand("float32", True)
    if kind == "sums":
        nest = Nest(1, (Operand("float32"), out), (), stages)
        same(machine, llvm, nest, [x.reshape(2, 500), np.zeros((2, 1), np.float32)])
    else:
        nest = Nest(1, (Operand("float32"), out), (), stages, lanes="outer")
        same(machine, llvm, nest, [x.reshape(10, 100).T, np.zeros((100, 1), np.float32)])


def test_code_without_a_branch_runs_where_nothing_is_rare() -> None:
    """What compilers take many elements of at a time."""
    code, root = sine_where_it_is_large()
    operands = [Operand("float32"), Operand("float32", True)]
    text = render(map_nest(0, operands, [], code, (1, root)), "kernel")
    looked, _, cases = text.partition("if (rare) {")
    rarely, _, nearly_always = cases.partition("else {")
    call = "? sin_far_float32("
    assert [part.count(call) for part in (looked, rarely, nearly_always)] == [0, 1, 0]


def test_an_output_may_overwrite_an_input_of_another_dtype(machine: Any) -> None:
    x = draw("float32", (1000,))
    expected = x.view(np.int32) ^ 5
    b = CodeBuilder()
    whole = b.append("bitcast", "int32", (b.load(0, "float32"),))
    code, (root,) = b.finish(b.append("xor", "int32", (whole, b.constant(5, "int32"))))
    kernel = machine.kernel(
        map_nest(0, [Operand("float32"), Operand("int32", True)], [], code, (1, root))
    )
    kernel(x, x.view(np.int32))
    np.testing.assert_array_equal(x.view(np.int32), expected)


@pytest.mark.parametrize("lanes", ["inner", "outer"])
def test_reductions_of_several_dtypes_have_the_same_bits(
    machine: Any, llvm: Any, lanes: str
) -> None:
    b = CodeBuilder()
    x, n = b.load(0, "float32"), b.load(1, "int16")
    wide = b.cast(x, "float64")
    positive = b.append("lt", "bool", (b.constant(0, "float32"), x))
    code, (a, c, d, e) = b.finish(x, wide, n, positive)
    reduce = Reduce(
        code, (("sum", a), ("prod", c), ("max", d), ("argmin", a), ("all", e), ("prod", a))
    )
    kinds = ["float32", "float64", "int16", "int64", "bool", "float32"]
    b = CodeBuilder()
    results = [b.append("result", k, (), (0, j)) for j, k in enumerate(kinds)]
    after, places = b.finish(*results)
    row = Row(after, tuple(enumerate(places, 2)))
    lane = "zero" if lanes == "inner" else "unit"
    operands = (Operand("float32"), Operand("int16"), *[Operand(k, True, lane) for k in kinds])
    nest = Nest(2, operands, (), (reduce, row), lanes)
    for size in (0, 1, 31, 64, 100, 2500):
        shape = (2, 150 if size < 1000 else 3, size)
        x, n = draw("float32", shape, size), draw("int16", shape, size)
        x[0, 0] = np.random.default_rng(size).uniform(0.9, 1.1, size)
        if lanes == "outer":
            x, n = (np.ascontiguousarray(v.swapaxes(1, 2)).swapaxes(1, 2) for v in (x, n))
        outs = [np.zeros((*shape[:2], 1), as_dtype(k).dtype) for k in kinds]
        same(machine, llvm, nest, [x, n, *outs], parts=2)


# Codes that hypothesis draws --------------------------------------------------------------------

_ON_FLOATS = ("add", "sub", "mul", "div", "min", "max", "fma", "neg", "abs", "sqrt", "floor",
              "ceil", "trunc", "round", "rsqrt")  # fmt: skip
_ON_INTEGERS = ("add", "sub", "mul", "min", "max", "and", "or", "xor", "neg", "abs", "not",
                "floor_div", "rem")  # fmt: skip
_ALONE = ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "round", "rsqrt", "not")
_ARITY = {**dict.fromkeys(_ALONE, 1), "fma": 3}
_KINDS = ("float32", "float64", "int8", "uint16", "int32", "uint32", "int64")


@st.composite
def codes(draw_: Any) -> tuple[Code, int]:
    """A few instructions over two float32 and one int32 operands; the result is any of them."""
    b = CodeBuilder(exact=draw_(st.booleans()))
    values = [b.load(0, "float32"), b.load(1, "float32"), b.load(2, "int32")]
    values.append(b.append("scalar", "float32", (), 0))
    values.append(b.append("index", "int64", (), -1))
    for _ in range(draw_(st.integers(1, 12))):
        first = draw_(st.sampled_from(values))
        dtype = b.dtype(first)
        alike = [v for v in values if b.dtype(v) == dtype]
        kind = draw_(st.sampled_from(["operate", "operate", "cast", "choose", "number"]))
        if kind == "number":
            values.append(b.constant(draw_(st.integers(-3, 100)), draw_(st.sampled_from(_KINDS))))
        elif kind == "cast":
            # Floats reach integers only over numbers that fit everywhere.
            to = draw_(st.sampled_from(_KINDS))
            if dtype in FLOATS and to in INTEGERS:
                known = b.append("eq", "bool", (first, first))
                some = b.append("select", dtype, (known, first, b.constant(0, dtype)))
                least = b.append("min", dtype, (some, b.constant(100, dtype)))
                first = b.append("max", dtype, (least, b.constant(0, dtype)))
            values.append(b.cast(first, to))
        elif kind == "choose":
            other, third = draw_(st.sampled_from(alike)), draw_(st.sampled_from(alike))
            relation = draw_(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]))
            chosen = b.append(relation, "bool", (first, other))
            values.append(b.append("select", dtype, (chosen, third, first)))
        else:
            name = draw_(st.sampled_from(_ON_FLOATS if dtype in FLOATS else _ON_INTEGERS))
            others = [draw_(st.sampled_from(alike)) for _ in range(_ARITY.get(name, 2) - 1)]
            values.append(b.append(name, dtype, (first, *others)))
    code, (root,) = b.finish(values[-1])
    return code, root


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(made=codes(), outer=st.integers(0, 2), lanes=st.sampled_from(["unit", "strided"]))
def test_any_code_has_the_same_bits(
    machine: Any, llvm: Any, made: tuple[Code, int], outer: int, lanes: str
) -> None:
    code, root = made
    dtype = code[root].dtype
    operands = [Operand("float32"), Operand("float32", False, lanes), Operand("int32")]
    nest = map_nest(outer, [*operands, Operand(dtype, True)], ["float32"], code, (3, root))
    shape = (*(3, 2)[:outer], 37)
    arrays = [draw("float32", shape), draw("float32", (*shape[:-1], 74), 1)[..., ::2]]
    if lanes == "unit":
        arrays[1] = np.ascontiguousarray(arrays[1])
    arrays += [draw("int32", shape, 2), np.zeros(shape, as_dtype(dtype).dtype)]
    same(machine, llvm, nest, arrays, scalars=[0.3])


def test_what_c_cannot_say_is_an_error() -> None:
    code = (*CodeBuilder().finish()[0],)
    with pytest.raises(ValueError, match="no stages"):
        render(Nest(0, (), (), ()), "kernel")
    with pytest.raises(ValueError, match="bad nest"):
        render(Nest(0, (), (), (Map(code, ((0, 0),)),)), "kernel")


@pytest.mark.parametrize("lanes", ["inner", "outer"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint64"])
@pytest.mark.parametrize("combine", ["sum", "prod", "max", "min", "argmax", "argmin"])
def test_running_results_are_the_same(
    machine: Compiler, llvm: Any, combine: str, dtype: str, lanes: str
) -> None:
    if dtype in FLOATS and combine.startswith("arg"):
        return
    nest = module("test_scans").scan(combine, dtype, lanes=lanes)
    x = draw(dtype, (70, 90))
    out = np.zeros((70, 90), as_dtype(nest.operands[1].dtype).dtype)
    turn = np.transpose if lanes == "outer" else np.asarray
    same(machine, llvm, nest, [turn(x), turn(out)])
