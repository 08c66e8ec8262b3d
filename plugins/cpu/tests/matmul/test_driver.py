"""Contractions of any shape and strides against NumPy in float64."""

import re
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest
from array_products import (
    LAYOUTS,
    aligned,
    assert_guarded,
    elements,
    laid_out,
    multiply,
    problem_of,
    random,
    some_bytes,
    stand_in,
    table_of,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingle.fusion.kernel.code import CodeBuilder, Instruction, bits_of
from ingle.fusion.kernel.nest import Operand
from ingle.fusion.render.llvm.targets import AVX2, AVX512, NEON, SSE2, Target, target_of
from ingle.fusion.support.disk_store import DiskStore
from ingle_cpu.jit.engine import Engine
from ingle_cpu.jit.host import Host, host
from ingle_cpu.jit.object_symbols import undefined_symbols
from ingle_cpu.matmul import machine
from ingle_cpu.matmul import problem as matmul_problem
from ingle_cpu.matmul.driver import driver_source
from ingle_cpu.matmul.launches import (
    Choice,
    Epilogue,
    Problem,
    choose,
    contraction,
    identity,
)
from ingle_cpu.matmul.microkernel import micro_source, most_rows, most_vectors
from ingle_cpu.matmul.pack import pack_source
from ingle_cpu.matmul.padded import PHASES, pad_source
from ingle_cpu.matmul.plan import B, Pointer
from ingle_cpu.matmul.tile import QUADS, Tile
from ingle_cpu.matmul.window_blocking import MOST_STACKED

SIZES = st.integers(0, 100)
DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
ROUNDING = {"float32": 2.0**-24, "float64": 2.0**-53, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def check(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    expected = wide_a @ wide_b
    # Rounding errors of a sum in some order: k steps, relative to the sum of the magnitudes.
    steps = min(a.shape[-1], 512) + a.shape[-1] // 512 + 1
    unit = ROUNDING["float64" if c.dtype == np.float64 else "float32"]
    bound = steps * unit * (np.abs(wide_a) @ np.abs(wide_b))
    bound = bound + ROUNDING[c.dtype.name] * np.abs(expected) * 1.01 + 1e-300
    # Half types round small results to multiples of their smallest number.
    smallest = {"float16": 2.0**-25, "bfloat16": 2.0**-134}.get(c.dtype.name, 0.0)
    np.testing.assert_array_less(np.abs(c.astype(np.float64) - expected), bound + smallest + 1e-307)


class TestProducts:
    @pytest.mark.slow
    @settings(max_examples=250, deadline=None)
    @given(
        m=SIZES, n=SIZES, k=SIZES, layout_a=st.sampled_from(LAYOUTS),
        layout_b=st.sampled_from(LAYOUTS), dtype=st.sampled_from(DTYPES),
    )  # fmt: skip
    @example(m=0, n=5, k=5, layout_a="rows", layout_b="rows", dtype=np.float32)
    @example(m=5, n=0, k=5, layout_a="rows", layout_b="rows", dtype=np.float32)
    @example(m=5, n=7, k=0, layout_a="rows", layout_b="rows", dtype=np.float32)
    @example(m=1, n=96, k=100, layout_a="rows", layout_b="rows", dtype=np.float32)
    @example(m=100, n=1, k=100, layout_a="rows", layout_b="rows", dtype=np.float32)
    @example(m=1, n=96, k=100, layout_a="rows", layout_b="transposed", dtype=np.float64)
    def test_any_shape_and_layout(
        self, m: int, n: int, k: int, layout_a: str, layout_b: str, dtype: Any
    ) -> None:
        a = laid_out(random((m, k), dtype), layout_a)
        b = laid_out(random((k, n), dtype, 1), layout_b)
        c = np.full((m, n), np.nan, dtype)
        multiply(a, b, [c])
        check(a, b, c)

    @settings(max_examples=60, deadline=None)
    @given(
        batch=st.lists(st.integers(0, 4), max_size=3), m=st.integers(0, 40),
        n=st.integers(0, 70), k=st.integers(0, 40), layout=st.sampled_from(LAYOUTS),
        shared=st.sampled_from(["none", "a", "b"]),
    )  # fmt: skip
    def test_batches(
        self, batch: list[int], m: int, n: int, k: int, layout: str, shared: str
    ) -> None:
        a = laid_out(random((*batch, m, k), np.float32), layout)
        b = laid_out(random((*batch, k, n), np.float32, 1), layout)
        if shared == "a":
            a = np.broadcast_to(a[(0,) * len(batch)], a.shape) if 0 not in batch else a
        if shared == "b":
            b = np.broadcast_to(b[(0,) * len(batch)], b.shape) if 0 not in batch else b
        c = np.full((*batch, m, n), np.nan, np.float32)
        multiply(a, b, [c])
        check(a, b, c)

    @pytest.mark.parametrize("shape", [(70, 130, 2049), (3, 64, 5000), (600, 300, 513)])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_large_ones_in_several_blocks(self, shape: tuple[int, int, int], dtype: Any) -> None:
        m, n, k = shape
        a, b = random((m, k), dtype), random((k, n), dtype, 1)
        c = np.full((m, n), np.nan, dtype)
        multiply(a, b, [c])
        check(a, b, c)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_what_is_no_number_spreads_to_its_row_and_nowhere_else(self, value: float) -> None:
        a, b = random((13, 20), np.float32), random((20, 33), np.float32)
        a[7, 3] = value
        c = np.zeros((13, 33), np.float32)
        multiply(a, b, [c])
        assert not np.isfinite(c[7]).any()
        assert np.isfinite(np.delete(c, 7, 0)).all()

    def test_the_output_may_be_strided_and_nothing_else_is_written(self) -> None:
        a, b = random((19, 30), np.float32), random((30, 75), np.float32)
        wide = np.full((40, 160), 7, np.float32)
        c = wide[1:39:2, 3:153:2]
        strided = identity("float32")._replace(operands=(Operand("float32", True, "strided"),))
        multiply(a, b, [c], strided)
        check(a, b, c)
        wide[1:39:2, 3:153:2] = 7
        assert (wide == 7).all()

    def test_a_narrow_output_beside_other_memory(self) -> None:
        a, b = random((19, 30), np.float32), random((30, 5), np.float32)
        wide = np.full((21, 9), 7, np.float32)
        multiply(a, b, [wide[1:20, 2:7]])
        check(a, b, wide[1:20, 2:7])
        wide[1:20, 2:7] = 7
        assert (wide == 7).all()


class TestChoices:
    PROBLEM: tuple[int, int, int] = (50, 192, 700)

    def run(self, choice: Choice) -> np.ndarray:
        m, n, k = self.PROBLEM
        c = np.full((m, n), np.nan, np.float32)
        multiply(random((m, k), np.float32), random((k, n), np.float32, 1), [c], choice=choice)
        return c

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("tile", [(6, 4), (8, 3), (12, 2), (5, 1), (1, 4)])
    @pytest.mark.parametrize("kind", ["packed", "direct"])
    @pytest.mark.parametrize("blocks", [(1, 1, 1), (3, 2, 2), (100, 100, 1), (4, 1, 100)])
    def test_all_give_the_same_bits(
        self, tile: tuple[int, int], kind: str, blocks: tuple[int, int, int]
    ) -> None:
        m, n, k = self.PROBLEM
        first = self.run(choose(Problem("float32", "float32", (), m, n, k, (k, 1), (n, 1)), 1))
        ways = [("local", "local"), ("local", "before"), ("before", "local"), ("before", "before")]
        for pack in ways if kind == "packed" else [("", ""), ("", "before"), ("", "local")]:
            made = Choice(Tile(kind, *tile), *pack, *blocks)
            np.testing.assert_array_equal(self.run(made), first)

    @pytest.mark.parametrize(
        ("shape", "layouts"),
        [
            ((130, 700, 300), ("rows", "transposed")), ((500, 200, 100), ("transposed", "rows")),
            ((31, 1000, 40), ("strided", "reversed")), ((700, 70, 2100), ("rows", "rows")),
        ],
    )  # fmt: skip
    def test_the_number_of_workers_changes_no_bit(
        self, shape: tuple[int, int, int], layouts: tuple[str, str]
    ) -> None:
        m, n, k = shape
        a = laid_out(random((m, k), np.float32), layouts[0])
        b = laid_out(random((k, n), np.float32, 1), layouts[1])
        found = []
        for workers in (1, 2, 3, 8):
            c = np.full((m, n), np.nan, np.float32)
            multiply(a, b, [c], choice=choose(problem_of(a, b), workers))
            found.append(c)
        check(a, b, found[0])
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])

    def test_panels_packed_once_serve_again(self) -> None:
        a, b = random((40, 90), np.float32), random((90, 130), np.float32, 1)
        chosen = Choice(Tile("packed", 6, 4), "local", "before", 4, 1, 1)
        c, again = np.zeros((2, 40, 130), np.float32)
        made = contraction(
            problem_of(a, b), identity("float32"), [elements(c)], workers=1, choice=chosen
        )
        panels = np.zeros(made.scratch[1] + 64, np.uint8)
        panels = panels[-panels.ctypes.data % 64 :]
        multiply(a, b, [c], choice=chosen)
        self.pack(made, b, panels)
        multiply(a, b * np.nan, [again], choice=chosen, packed_b=panels)
        np.testing.assert_array_equal(again, c)

    @staticmethod
    def pack(made: Any, b: np.ndarray, panels: np.ndarray) -> None:
        table_of(
            made._replace(entries=made.entries[:1]), {B: b, Pointer("scratch", 1): panels}
        ).run()


HAS_PAIRS = pytest.mark.skipif(
    not machine.multiplies_pairs(), reason="this processor multiplies no pairs of bfloat16"
)


@pytest.fixture(scope="class")
def without_tiles() -> Iterator[None]:
    """A processor without registers of tiles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matmul_problem, "multiplies_tiles", lambda dtype: False)
        yield


@pytest.mark.usefixtures("without_tiles")
class TestPairs:
    """Products of bfloat16 whose k is even, by the processor's instruction for two of them."""

    @staticmethod
    def one_by_one(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The same product as float32, each number by itself."""
        a, b = (np.ascontiguousarray(x.astype(np.float32)) for x in (a, b))
        problem = problem_of(a, b)
        chosen = Choice(Tile("packed", 6, 2), "before", "before", 1, 1, 1)
        c = np.full((*a.shape[:-1], b.shape[-1]), np.nan, np.float32)
        multiply(a, b, [c], choice=chosen if 0 not in c.shape else choose(problem, 1))
        return c

    @pytest.mark.slow
    @HAS_PAIRS
    @settings(max_examples=150, deadline=None)
    @given(
        m=SIZES, n=SIZES, half=st.integers(1, 60), layout_a=st.sampled_from(LAYOUTS),
        layout_b=st.sampled_from(LAYOUTS),
    )  # fmt: skip
    @example(m=13, n=70, half=1025, layout_a="rows", layout_b="rows")
    @example(m=33, n=7, half=300, layout_a="transposed", layout_b="transposed")
    @example(m=1, n=65, half=16, layout_a="rows", layout_b="rows")
    def test_bits_are_those_of_float32(
        self, m: int, n: int, half: int, layout_a: str, layout_b: str
    ) -> None:
        a = laid_out(random((m, 2 * half), ml_dtypes.bfloat16), layout_a)
        b = laid_out(random((2 * half, n), ml_dtypes.bfloat16, 1), layout_b)
        problem = problem_of(a, b)
        c = np.full((m, n), np.nan, np.float32)
        multiply(a, b, [c])
        assert choose(problem, 1).tile.kind == "pairs"
        np.testing.assert_array_equal(c, self.one_by_one(a, b))

    @HAS_PAIRS
    @pytest.mark.parametrize("tile", [(6, 4), (8, 3), (12, 2), (5, 1), (1, 4)])
    @pytest.mark.parametrize("blocks", [(1, 1, 1), (3, 2, 2), (100, 100, 1), (4, 1, 100)])
    def test_all_choices_give_the_same_bits(
        self, tile: tuple[int, int], blocks: tuple[int, int, int]
    ) -> None:
        a, b = (random(s, ml_dtypes.bfloat16) for s in ((3, 50, 2300), (3, 2300, 101)))
        expected = np.stack([self.one_by_one(x, y) for x, y in zip(a, b, strict=True)])
        for pack_a in ("local", "before"):
            for pack_b in ("local", "before"):
                c = np.full((3, 50, 101), np.nan, np.float32)
                chosen = Choice(Tile("pairs", *tile), pack_a, pack_b, *blocks)
                multiply(a, b, [c], choice=chosen)
                np.testing.assert_array_equal(c, expected)

    @HAS_PAIRS
    def test_what_is_no_number_spreads_to_its_row_and_what_is_tiny_counts_as_zero(self) -> None:
        a, b = random((13, 20), ml_dtypes.bfloat16), np.ones((20, 33), ml_dtypes.bfloat16)
        a[7, 3], a[8, 4], a[9] = np.nan, np.inf, 1e-39
        c = np.zeros((13, 33), np.float32)
        multiply(a, b, [c])
        assert np.isnan(c[7]).all()
        assert np.isposinf(c[8]).all()
        assert not c[9].any()
        assert np.isfinite(np.delete(c, (7, 8), 0)).all()

    def test_odd_sums_and_other_half_types_are_computed_in_float32(self) -> None:
        odd = random((5, 7), ml_dtypes.bfloat16), random((7, 6), ml_dtypes.bfloat16)
        other = random((5, 8), np.float16), random((8, 6), np.float16)
        for a, b in (odd, other):
            assert choose(problem_of(a, b), 1).tile.kind == "packed"


HAS_QUADS = pytest.mark.skipif(
    not machine.takes_quads(4), reason="this processor multiplies no four bytes at once"
)


@pytest.mark.usefixtures("without_tiles")
@pytest.mark.parametrize("b_dtype", ["int8", "uint8"])
@pytest.mark.parametrize("a_dtype", ["int8", "uint8"])
class TestBytes:
    """Products of bytes whose k is a multiple of four, summed in int32."""

    @pytest.mark.slow
    @HAS_QUADS
    @settings(max_examples=60, deadline=None)
    @given(
        m=SIZES, n=SIZES, quads=st.integers(1, 40), layout_a=st.sampled_from(LAYOUTS),
        layout_b=st.sampled_from(LAYOUTS),
    )  # fmt: skip
    @example(m=13, n=70, quads=1025, layout_a="rows", layout_b="rows")
    @example(m=33, n=7, quads=600, layout_a="transposed", layout_b="transposed")
    def test_sums_are_exact(
        self, a_dtype: str, b_dtype: str, m: int, n: int, quads: int, layout_a: str, layout_b: str
    ) -> None:
        a = laid_out(some_bytes((m, 4 * quads), a_dtype), layout_a)
        b = laid_out(some_bytes((4 * quads, n), b_dtype, 1), layout_b)
        c = np.full((m, n), -1, np.int32)
        multiply(a, b, [c], SUMS)
        np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))

    @pytest.mark.parametrize("other", [AVX512, AVX2])
    @pytest.mark.parametrize("way", ["local", "before"])
    def test_tiles_and_machines(
        self, a_dtype: str, b_dtype: str, way: str, other: Target, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stand_in(monkeypatch, other)
        if not machine.takes_quads(4):
            pytest.skip("this machine cannot stand in for that one")
        a, b = some_bytes((2, 50, 1300), a_dtype), some_bytes((2, 1300, 101), b_dtype, 1)
        a[0, :7], b[0, :, :7] = np.iinfo(a_dtype).min, np.iinfo(b_dtype).max
        expected = a.astype(np.int32) @ b.astype(np.int32)
        kind = QUADS[a_dtype, b_dtype]
        for vectors in range(1, most_vectors(other) + 1):
            for rows in (1, most_rows(other, vectors, kind)):
                c = np.full((2, 50, 101), -1, np.int32)
                chosen = Choice(Tile(kind, rows, vectors), way, way, 3, 2, 1)
                multiply(a, b, [c], SUMS, choice=chosen)
                np.testing.assert_array_equal(c, expected)

    def test_one_instruction_and_no_memory_but_panels(self, a_dtype: str, b_dtype: str) -> None:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        kind = QUADS[a_dtype, b_dtype]
        for cpu, other in (("icelake-server", AVX512), ("alderlake", AVX2)):
            generator = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(
                cpu=cpu, opt=3, jit=True
            )
            vectors = most_vectors(other)
            tile = Tile(kind, most_rows(other, vectors, kind), vectors)
            source = micro_source(tile, "int32", other)
            text = generator.emit_assembly(llvm.parse_assembly(source.text))
            blocks = re.split(r"^\.L\w+:", text, flags=re.MULTILINE)
            multiplying = [b for b in blocks if "vpdpbusd" in b]
            assert len(multiplying) >= 2
            assert not [b for b in multiplying if "%rsp" in b]


SUMS = Epilogue((Instruction("result", "int32", (), (0, 0)),), (Operand("int32", True),), ((0, 0),))


def relu_of_bias() -> Epilogue:
    """relu(sum + bias), NaN stays NaN."""
    b = CodeBuilder()
    x = b.append(
        "add", "float32", (b.append("result", "float32", (), (0, 0)), b.load(0, "float32"))
    )
    zero = b.constant(0, "float32")
    chosen = b.append("select", "float32", (b.append("lt", "bool", (x, zero)), zero, x))
    code, (root,) = b.finish(chosen)
    return Epilogue(code, (Operand("float32"), Operand("float32", True)), ((1, root),))


class TestEpilogues:
    def test_bias_and_relu(self) -> None:
        a, b, bias = random((37, 50), np.float32), random((50, 83), np.float32), random((83,), "f4")
        a[5, 5] = np.nan
        c = np.zeros((37, 83), np.float32)
        multiply(a, b, [np.broadcast_to(bias, c.shape), c], relu_of_bias())
        expected = np.maximum(a.astype(np.float64) @ b + bias, 0)
        np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-4)
        assert np.isnan(c[5]).all()

    def test_addition_in_place(self) -> None:
        b = CodeBuilder()
        total = b.append(
            "add", "float32", (b.append("result", "float32", (), (0, 0)), b.load(0, "float32"))
        )
        code, (root,) = b.finish(total)
        epilogue = Epilogue(code, (Operand("float32", True),), ((0, root),))
        x, y = random((30, 5000), np.float32), random((5000, 90), np.float32, 1)
        c = random((30, 90), np.float32, 2)
        before = c.copy()
        multiply(x, y, [c], epilogue)
        np.testing.assert_allclose(c, before + x.astype(np.float64) @ y, rtol=1e-4, atol=2e-3)

    @pytest.mark.parametrize("shape", [(20, 130, 1), (64, 260, 130), (13, 70, 0), (9, 40, 3000)])
    def test_dense_operands_that_tiles_fetch_ahead(self, shape: tuple[int, int, int]) -> None:
        m, n, k = shape
        b = CodeBuilder()
        scaled = b.append(
            "mul", "float32", (b.append("result", "float32", (), (0, 0)), b.load(0, "float32"))
        )
        code, (root,) = b.finish(b.append("add", "float32", (scaled, b.load(1, "float32"))))
        operands = (Operand("float32"), Operand("float32"), Operand("float32", True))
        x, y = random((m, k), np.float32), random((k, n), np.float32, 1)
        factor, offset = random((m, n), np.float32, 2), random((m, n), np.float32, 3)
        c = np.full((m, n), np.nan, np.float32)
        multiply(x, y, [factor, offset, c], Epilogue(code, operands, ((2, root),)))
        expected = x.astype(np.float64) @ y * factor + offset
        np.testing.assert_allclose(c, expected, rtol=1e-4, atol=2e-3)

    def test_several_outputs_scalars_and_indices(self) -> None:
        b = CodeBuilder()
        sums = b.append("result", "float32", (), (0, 0))
        scaled = b.append("mul", "float32", (sums, b.append("scalar", "float32", (), 0)))
        column = b.append("index", "int64", (), -1)
        row = b.append("index", "int64", (), 1)
        matrix = b.append("index", "int64", (), 0)
        hundred = b.constant(100, "int64")
        place = b.append("mul", "int64", (row, hundred))
        place = b.append("add", "int64", (place, column))
        place = b.append(
            "add", "int64", (place, b.append("mul", "int64", (matrix, b.constant(10**6, "int64"))))
        )
        code, (one, two) = b.finish(scaled, place)
        operands = (Operand("float32", True), Operand("int64", True))
        epilogue = Epilogue(code, operands, ((0, one), (1, two)), ("float32",))
        x, y = random((3, 20, 30), np.float32), random((3, 30, 90), np.float32, 1)
        c, places = np.zeros((3, 20, 90), np.float32), np.zeros((3, 20, 90), np.int64)
        multiply(x, y, [c, places], epilogue, [bits_of(0.5, "float32")])
        np.testing.assert_allclose(c, x @ y / 2, rtol=1e-4, atol=1e-4)
        i, j, k = np.indices(places.shape)
        np.testing.assert_array_equal(places, i * 10**6 + j * 100 + k)

    def test_float32_result_of_half_types(self) -> None:
        a, b = random((37, 50), ml_dtypes.bfloat16), random((50, 83), ml_dtypes.bfloat16)
        c = np.zeros((37, 83), np.float32)
        multiply(a, b, [c])
        check(a, b, c)

    def test_an_operand_whose_strides_do_not_fit_its_lane(self) -> None:
        with pytest.raises(ValueError, match="stride 2 along j"):
            contraction(
                problem_of(np.zeros((4, 4)), np.zeros((4, 4))),
                identity("float64"),
                [(8, 2)],
                workers=1,
            )

    def test_too_many_batch_axes(self) -> None:
        a = np.zeros((1, 2, 1, 2, 3, 3), np.float32)
        with pytest.raises(ValueError, match="at most 3"):
            multiply(a, a, [a.copy()])


class TestTargets:
    @pytest.fixture(params=[AVX2, SSE2])
    def other(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Target:
        """Other processors that this one can stand in for."""
        found: Target = request.param
        if target_of(host().present) == SSE2 and found == AVX2:
            pytest.skip("this machine has no AVX2")
        if not host().triple.startswith("x86_64"):
            pytest.skip("this machine is no x86-64")
        stand_in(monkeypatch, found)
        return found

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize("shape", [(1, 70, 33), (7, 5, 65), (53, 14, 75), (300, 33, 20)])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_products_on_lesser_machines(
        self, other: Target, layout: str, shape: tuple[int, int, int], dtype: Any
    ) -> None:
        m, n, k = shape
        a, b = laid_out(random((m, k), dtype), layout), laid_out(random((k, n), dtype, 1), layout)
        c = aligned(m * n * a.itemsize)
        multiply(a, b, [c.view(dtype).reshape(m, n)])
        assert_guarded(c)
        check(a, b, c.view(dtype).reshape(m, n))

    @pytest.mark.slow
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize(
        ("machine", "kind"),
        [
            (Host("aarch64-unknown-linux-gnu", "generic", "+neon"), NEON),
            (Host("x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma,+f16c"), AVX2),
            (Host("x86_64-unknown-linux-gnu", "skylake-avx512", ""), AVX512),
        ],
    )
    def test_code_for_other_machines_needs_nothing_from_outside(
        self, dtype: str, machine: Host, kind: Target
    ) -> None:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        engine = Engine(machine, DiskStore(None))
        vectors = most_vectors(kind)
        sources = [pack_source(dtype, kind), driver_source()]
        for way, rows in (("packed", most_rows(kind, vectors)), ("direct", 6), ("dot", 4)):
            sources.append(micro_source(Tile(way, rows, vectors), dtype, kind))
        sources += [pad_source(dtype, phases, kind) for phases in PHASES]
        for source in sources:
            assert not undefined_symbols(engine.object_code(source))

    def test_pairs_are_multiplied_by_one_instruction(self) -> None:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        generator = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(
            cpu="sapphirerapids", opt=3, jit=True
        )
        pack = pack_source("bfloat16", AVX512, "pairs")
        micro = micro_source(Tile("pairs", most_rows(AVX512, 4), 4), "float32", AVX512)
        modules = [llvm.parse_assembly(source.text) for source in (pack, micro)]
        for module in modules:
            assert not undefined_symbols(generator.emit_object(module))
        blocks = re.split(r"^\.L\w+:", generator.emit_assembly(modules[1]), flags=re.MULTILINE)
        multiplying = [b for b in blocks if "vdpbf16ps" in b]
        assert len(multiplying) >= 2
        assert not [b for b in multiplying if "%rsp" in b]

    @pytest.mark.parametrize(
        ("way", "kind", "vectors"),
        [
            (way, kind, vectors)
            for kind in (AVX512, AVX2, NEON)
            for ways, each in (
                (("packed", "direct", "sliding"), {most_vectors(kind), 3}),
                (("stacked",), range(2, MOST_STACKED + 1)),
            )
            for way in ways
            for vectors in each
        ],
    )
    def test_tiles_stay_in_registers(self, kind: Target, vectors: int, way: str) -> None:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        machine = {
            "avx512": Host("x86_64-unknown-linux-gnu", "skylake-avx512", ""),
            "avx2": Host("x86_64-unknown-linux-gnu", "haswell", ""),
            "neon": Host("aarch64-unknown-linux-gnu", "neoverse-n1", ""),
        }[kind.name]
        source = micro_source(Tile(way, most_rows(kind, vectors, way), vectors), "float32", kind)
        generator = llvm.Target.from_triple(machine.triple).create_target_machine(
            cpu=machine.cpu, features=machine.features, opt=3, jit=True
        )
        text = generator.emit_assembly(llvm.parse_assembly(source.text))
        blocks = re.split(r"^\.L\w+:", text, flags=re.MULTILINE)
        multiplying = [b for b in blocks if re.search(r"vfmadd|fmla", b)]
        assert len(multiplying) >= 2
        # Neither sums nor addresses are fetched from the stack while k goes by.
        assert not [b for b in multiplying if re.search(r"%rsp|\[sp", b)]
