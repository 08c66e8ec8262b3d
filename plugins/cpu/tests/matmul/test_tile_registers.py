"""Products in registers of tiles (AMX), against NumPy and against each other."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest
from array_products import LAYOUTS, laid_out, multiply, problem_of, some_bytes
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.render.llvm.targets import AVX512
from ingle_cpu.jit import host
from ingle_cpu.jit.engine import IRSource, engine
from ingle_cpu.jit.object_symbols import undefined_symbols
from ingle_cpu.matmul import machine
from ingle_cpu.matmul.launches import Choice, choose
from ingle_cpu.matmul.microkernel import micro_source
from ingle_cpu.matmul.pack import pack_source
from ingle_cpu.matmul.tile import LINES, TILES, Tile, a_form, compute_dtype

SIZES = st.integers(4, 100)
HAS_TILES = pytest.mark.skipif(
    not machine.multiplies_tiles("bfloat16"), reason="this processor has no registers of tiles"
)
HAS_BYTES = pytest.mark.skipif(
    not machine.multiplies_tiles("int8"), reason="this processor has no registers of tiles"
)


def halves(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(ml_dtypes.bfloat16)


@pytest.mark.slow
@HAS_TILES
@settings(max_examples=100, deadline=None)
@given(
    m=SIZES, n=SIZES, half=st.integers(1, 80), layout_a=st.sampled_from(LAYOUTS),
    layout_b=st.sampled_from(LAYOUTS),
)  # fmt: skip
@example(m=13, n=70, half=1025, layout_a="rows", layout_b="rows")
@example(m=33, n=7, half=600, layout_a="transposed", layout_b="transposed")
@example(m=4, n=65, half=15, layout_a="reversed", layout_b="strided")
def test_halves_are_summed_in_float32(
    m: int, n: int, half: int, layout_a: str, layout_b: str
) -> None:
    a, b = halves((m, 2 * half)), halves((2 * half, n), 1)
    c = np.full((m, n), np.nan, np.float32)
    multiply(laid_out(a, layout_a), laid_out(b, layout_b), [c])
    assert choose(problem_of(a, b), 1).tile.instruction == TILES["bfloat16", "bfloat16"]
    exact = a.astype(np.float64) @ b.astype(np.float64)
    size = abs(a.astype(np.float64)) @ abs(b.astype(np.float64))
    assert (abs(c - exact) <= 2 * half * 2.0**-24 * size).all()
    # The order of sums is that of k, however the operands lie.
    plain = np.full((m, n), np.nan, np.float32)
    multiply(a, b, [plain])
    np.testing.assert_array_equal(c, plain)


@HAS_TILES
@pytest.mark.parametrize("tile", [(32, 2), (16, 4), (20, 1), (5, 3), (17, 2)])
@pytest.mark.parametrize("blocks", [(1, 1, 1), (3, 2, 2), (100, 100, 1), (4, 1, 100)])
def test_all_choices_give_the_same_bits(
    tile: tuple[int, int], blocks: tuple[int, int, int]
) -> None:
    a, b = halves((2, 50, 2300)), halves((2, 2300, 101), 1)
    expected = np.full((2, 50, 101), np.nan, np.float32)
    multiply(a, b, [expected])
    for pack_a in ("local", "before"):
        for pack_b in ("local", "before"):
            c = np.full((2, 50, 101), np.nan, np.float32)
            kind = TILES["bfloat16", "bfloat16"]
            multiply(a, b, [c], choice=Choice(Tile(kind, *tile), pack_a, pack_b, *blocks))
            np.testing.assert_array_equal(c, expected)


@HAS_TILES
@pytest.mark.parametrize("shape", [(64, 100, 96), (20, 33, 32), (96, 70, 2304), (4, 4, 64)])
@pytest.mark.parametrize("dtype", ["bfloat16", "uint8"])
def test_whole_rows_are_read_where_they_lie(shape: tuple[int, int, int], dtype: str) -> None:
    m, n, k = shape
    if dtype == "bfloat16":
        a, b = halves((2, m, k + 64)), halves((2, k, n), 1)
    elif not machine.multiplies_tiles("int8"):
        pytest.skip("this processor has no registers of tiles of bytes")
    else:
        k *= 2
        a, b = some_bytes((2, m, k + 64), dtype), some_bytes((2, k, n), "int8", 1)
    a = a[:, :, 32:-32]  # rows are further apart than they are long
    choice = choose(problem_of(a, b), 1)
    assert choice.tile.takes_lines
    assert not choice.pack_a
    other = choice._replace(tile=choice.tile._replace(kind=choice.tile.instruction), pack_a="local")
    made = "float32" if dtype == "bfloat16" else "int32"
    c, expected = (np.full((2, m, n), 7, made) for _ in range(2))
    multiply(a, b, [c], choice=choice)
    multiply(a, b, [expected], choice=other)
    np.testing.assert_array_equal(c, expected)
    if made == "int32":
        np.testing.assert_array_equal(c, a.astype(made) @ b.astype(made))


@HAS_TILES
@pytest.mark.parametrize("change", ["rows", "depth", "transposed"])
def test_other_rows_are_packed(change: str) -> None:
    a, b = halves((64, 96)), halves((96, 40), 1)
    assert choose(problem_of(a, b), 1).tile.takes_lines
    if change == "rows":
        a = halves((67, 96))
    elif change == "depth":
        a, b = a[:, :-2], b[:-2]
    else:
        a = np.ascontiguousarray(a.T).T
    choice = choose(problem_of(a, b), 1)
    assert choice.tile.in_tiles
    assert not choice.tile.takes_lines
    assert choice.pack_a


@HAS_TILES
def test_what_is_no_number_spreads_to_its_row_alone() -> None:
    a, b = halves((37, 50)), np.ones((50, 33), ml_dtypes.bfloat16)
    a[7, 3], a[8, 49], a[9] = np.nan, np.inf, 1e-39
    c = np.zeros((37, 33), np.float32)
    multiply(a, b, [c])
    assert np.isnan(c[7]).all()
    assert np.isposinf(c[8]).all()
    assert not c[9].any()
    assert np.isfinite(np.delete(c, (7, 8), 0)).all()


@pytest.mark.slow
@HAS_BYTES
@settings(max_examples=40, deadline=None)
@given(
    m=SIZES, n=SIZES, quads=st.integers(1, 40), layout_a=st.sampled_from(LAYOUTS),
    layout_b=st.sampled_from(LAYOUTS), dtypes=st.sampled_from([k for k in TILES if "int8" in k[0]]),
)  # fmt: skip
@example(m=13, n=70, quads=1025, layout_a="rows", layout_b="rows", dtypes=("int8", "int8"))
@example(m=33, n=7, quads=601, layout_a="transposed", layout_b="rows", dtypes=("uint8", "int8"))
def test_bytes_are_exact(
    m: int, n: int, quads: int, layout_a: str, layout_b: str, dtypes: tuple[str, str]
) -> None:
    a = laid_out(some_bytes((m, 4 * quads), dtypes[0]), layout_a)
    b = laid_out(some_bytes((4 * quads, n), dtypes[1], 1), layout_b)
    c = np.zeros((m, n), np.int32)
    multiply(a, b, [c])
    assert choose(problem_of(a, b), 1).tile.instruction == TILES[dtypes]
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("dtypes", [k for k in TILES if "int8" in k[0]])
@pytest.mark.parametrize("k", [2, 6, 62, 1026])
def test_bytes_that_are_no_whole_elements_are_summed_all(dtypes: tuple[str, str], k: int) -> None:
    a, b = some_bytes((64, k), dtypes[0]), some_bytes((k, 70), dtypes[1], 1)
    c = np.zeros((64, 70), np.int32)
    multiply(a, b, [c])
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("dtypes", TILES)
@pytest.mark.parametrize("lying", ["", LINES])
def test_tiles_are_instructions_of_the_processor(dtypes: tuple[str, str], lying: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    generator = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(
        cpu="sapphirerapids", opt=3, jit=True
    )
    tile = Tile(lying + TILES[dtypes], 20, 2)
    pack = pack_source(dtypes[0], AVX512, a_form(tile))
    micro = micro_source(tile, compute_dtype(dtypes[0]), AVX512)
    modules = [llvm.parse_assembly(source.text) for source in (pack, micro)]
    for module in modules:
        assert not undefined_symbols(generator.emit_object(module))
    assert generator.emit_assembly(modules[1]).count(f"tdp{tile.instruction}") >= 4


def test_who_may_not_use_tiles_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system ends a process that uses them without leave."""
    known = host.Host("x86_64-linux", "sapphirerapids", "+avx512f,+amx-tile,+amx-bf16,-amx-fp16")
    monkeypatch.setattr(host, "_known", lambda entry: known)
    monkeypatch.setattr(host, "_may_use_tiles", lambda: False)
    assert host.host.__wrapped__().present == {"avx512f"}
    monkeypatch.setattr(host, "_may_use_tiles", lambda: True)
    assert host.host.__wrapped__() == known


def shapes_of_registers(name: str) -> Callable[[np.ndarray], None]:
    """The instruction that reads (`sttilecfg`) or says (`ldtilecfg`) the shapes of this thread's
    registers, 64 bytes that begin with 1 where there are some."""
    text = (
        f"define void @{name}(ptr %p) nounwind {{\n  call void @llvm.x86.{name}(ptr %p)\n"
        f"  ret void\n}}\ndeclare void @llvm.x86.{name}(ptr)\n"
    )
    (address,) = engine().addresses(IRSource(text, (name,), reduced=False))
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
    return lambda shapes: function(shapes.ctypes.data)


@HAS_TILES
def test_registers_are_let_go_of_whatever_shapes_they_had() -> None:
    a, b = halves((70, 64)), halves((64, 100), 1)
    expected, c = (np.full((70, 100), np.nan, np.float32) for _ in range(2))
    multiply(a, b, [expected])
    read, say = shapes_of_registers("sttilecfg"), shapes_of_registers("ldtilecfg")
    shapes = np.full(64, 7, np.uint8)
    read(shapes)
    assert not shapes.any()
    shapes[0] = 1
    shapes[16:32:2] = 32  # half as wide as tiles want them
    shapes[48:56] = 5
    say(shapes)
    multiply(a, b, [c])
    np.testing.assert_array_equal(c, expected)
    read(shapes)
    assert not shapes.any()


@HAS_TILES
def test_a_plan_for_all_sizes_takes_rows_that_fill_no_tile() -> None:
    @compile
    def product(x: it.Tensor, y: it.Tensor) -> it.Tensor:
        return it.matmul(x, y) * 2.0

    for m, k in ((64, 64), (96, 64), (128, 64), (33, 64), (47, 96), (65, 34), (64, 66), (128, 128)):
        a, b = halves((m, k)), halves((k, 40), 1)
        made = product(
            *[it.asarray(v.astype(np.float32), device="cpu").astype("bfloat16") for v in (a, b)]
        )
        exact = 2 * (a.astype(np.float32) @ b.astype(np.float32))
        np.testing.assert_allclose(made.astype("float32").numpy(), exact, rtol=0.01, atol=0.05)
