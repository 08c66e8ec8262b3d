"""Products of bytes as numbers of 16 bits, where the processor multiplies no four bytes at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import llvmlite.binding as llvm
import numpy as np
import pytest
from array_products import LAYOUTS, laid_out, multiply, problem_of, some_bytes, stand_in
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingle.fusion.kernel.code import Instruction
from ingle.fusion.kernel.nest import Operand
from ingle.fusion.render.llvm.targets import AVX2, AVX512, NEON, SSE2, Target
from ingle_cpu.matmul import machine
from ingle_cpu.matmul import problem as matmul_problem
from ingle_cpu.matmul.launches import Choice, Epilogue, choose
from ingle_cpu.matmul.microkernel import micro_source, most_rows, most_vectors
from ingle_cpu.matmul.tile import WORDS, Tile

SUMS = Epilogue((Instruction("result", "int32", (), (0, 0)),), (Operand("int32", True),), ((0, 0),))
BYTES = pytest.mark.parametrize(
    "dtypes", [(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")]
)
SIZES = st.integers(0, 40)
HAS_WORDS = pytest.mark.skipif(not machine.takes_bytes(2), reason="no instruction for two of them")


@pytest.fixture(scope="module", autouse=True)
def without_quads() -> Iterator[None]:
    """A processor that takes no four bytes at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matmul_problem, "multiplies_tiles", lambda dtype: False)
        for module in (machine, matmul_problem):
            patch.setattr(module, "takes_quads", lambda k: False)
        yield


@HAS_WORDS
@BYTES
@settings(max_examples=25, deadline=None)
@given(
    m=SIZES, n=SIZES, pairs=st.integers(1, 80), layout_a=st.sampled_from(LAYOUTS),
    layout_b=st.sampled_from(LAYOUTS),
)  # fmt: skip
@example(m=13, n=70, pairs=2051, layout_a="rows", layout_b="rows")
@example(m=33, n=7, pairs=1201, layout_a="transposed", layout_b="transposed")
def test_sums_are_exact(
    dtypes: tuple[str, str], m: int, n: int, pairs: int, layout_a: str, layout_b: str
) -> None:
    a = laid_out(some_bytes((m, 2 * pairs), dtypes[0]), layout_a)
    b = laid_out(some_bytes((2 * pairs, n), dtypes[1], 1), layout_b)
    assert choose(problem_of(a, b), 1).tile.kind == WORDS
    c = np.full((m, n), -1, np.int32)
    multiply(a, b, [c], SUMS)
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))


@BYTES
@pytest.mark.parametrize("other", [AVX512, AVX2, SSE2])
@pytest.mark.parametrize("way", ["local", "before"])
def test_every_tile_of_every_machine(
    dtypes: tuple[str, str], way: str, other: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the largest and the smallest numbers too, whose products are added in pairs."""
    if other.width > machine.target().width or machine.target() == NEON:
        pytest.skip("this machine cannot stand in for that one")
    stand_in(monkeypatch, other)
    a, b = some_bytes((2, 25, 650), dtypes[0]), some_bytes((2, 650, 51), dtypes[1], 1)
    a[0, :7], b[0, :, :7] = np.iinfo(dtypes[0]).min, np.iinfo(dtypes[1]).min
    a[1, :7], b[1, :, :7] = np.iinfo(dtypes[0]).max, np.iinfo(dtypes[1]).max
    expected = a.astype(np.int32) @ b.astype(np.int32)
    for vectors in range(1, most_vectors(other) + 1):
        for rows in (1, most_rows(other, vectors, WORDS)):
            c = np.full((2, 25, 51), -1, np.int32)
            multiply(a, b, [c], SUMS, choice=Choice(Tile(WORDS, rows, vectors), way, way, 3, 2, 1))
            np.testing.assert_array_equal(c, expected)


def test_sums_stay_in_registers() -> None:
    """One instruction multiplies two and adds the products, one more adds these to the sum."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for cpu, other in (("skylake-avx512", AVX512), ("znver3", AVX2)):
        generator = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(
            cpu=cpu, opt=3, jit=True
        )
        vectors = most_vectors(other)
        tile = Tile(WORDS, most_rows(other, vectors, WORDS), vectors)
        text = generator.emit_assembly(llvm.parse_assembly(micro_source(tile, "int32", other).text))
        blocks = re.split(r"^\.L\w+:", text, flags=re.MULTILINE)
        multiplying = [b for b in blocks if "vpmaddwd" in b]
        assert len(multiplying) == 2
        for block in multiplying:
            assert block.count("vpaddd") == block.count("vpmaddwd") >= tile.rows * vectors
            assert "%rsp" not in block


def test_what_the_machine_has_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    for other, taken in ((AVX512, True), (AVX2, True), (SSE2, True), (NEON, False)):
        monkeypatch.setattr(machine, "target", lambda other=other: other)
        found = [machine.takes_bytes(k) for k in (0, 1, 2, 3, 6)]
        assert found == [False, False, taken, False, taken]
