"""A few rows times a matrix that is read where it lies."""

import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from array_products import aligned, assert_guarded, multiply, problem_of, random

from ingle.fusion.render.llvm.targets import AVX2, AVX512, NEON, Target
from ingle_cpu.jit.object_symbols import undefined_symbols
from ingle_cpu.matmul import machine
from ingle_cpu.matmul.blocking import FEW_STREAMED, SMALL_BYTES, choose
from ingle_cpu.matmul.microkernel import lanes_of, micro_source
from ingle_cpu.matmul.problem import Choice
from ingle_cpu.matmul.streamed import MOST_STREAMED
from ingle_cpu.matmul.tile import Tile

MACHINES = [
    (AVX512, "x86_64-unknown-linux-gnu", "skylake-avx512"),
    (AVX2, "x86_64-unknown-linux-gnu", "haswell"),
    (NEON, "aarch64-unknown-linux-gnu", "neoverse-n1"),
]


class TestBits:
    @pytest.mark.sampled(6)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("n", [3, 64, 75, 1000, 2500])
    @pytest.mark.parametrize("k", [1, 9, 513, 1100])
    @pytest.mark.parametrize("m", range(1, MOST_STREAMED + 1))
    def test_are_those_of_tiles_in_registers(self, m: int, n: int, k: int, dtype: Any) -> None:
        a, b = random((m, k), dtype), random((k, n), dtype, 1)
        b[0, -1] = -0.0
        a[-1, 0] = np.inf
        expected = np.full((m, n), np.nan, dtype)
        tile = Tile("packed", m, 2)
        multiply(a, b, [expected], choice=Choice(tile, "local", "local", 1, 1, 1))
        for workers in (1, 2, 5):
            chosen = choose(problem_of(a, b), workers)
            is_whole = n % lanes_of(np.dtype(dtype).name, machine.target()) == 0
            is_near = is_whole and a.nbytes + b.nbytes <= SMALL_BYTES
            assert chosen.tile.kind == ("direct" if is_near and m > FEW_STREAMED else "streamed")
            c = aligned(expected.nbytes)
            multiply(a, b, [c.view(dtype).reshape(m, n)], choice=chosen)
            assert_guarded(c)
            np.testing.assert_array_equal(c.view(dtype).reshape(m, n), expected)

    def test_of_rows_that_lie_apart(self) -> None:
        a, b = random((3, 600), np.float32), random((600, 90), np.float32, 1)
        wide = np.full((1200, 100), np.nan, np.float32)
        wide[::2, 3:93] = b
        found = []
        for rows in (b, wide[::2, 3:93], np.ascontiguousarray(b[::-1])[::-1]):
            c = np.full((3, 90), np.nan, np.float32)
            multiply(a, rows, [c])
            found.append(c)
        np.testing.assert_array_equal(found[1], found[0])
        np.testing.assert_array_equal(found[2], found[0])


def test_rows_are_divided_among_workers() -> None:
    a, b = random((1, 20), np.float32), random((20, 4096), np.float32)
    for workers in (1, 2, 4):
        chosen = choose(problem_of(a, b), workers)
        assert chosen.panel_blocks >= workers


@pytest.mark.parametrize("rows", range(1, MOST_STREAMED + 1))
@pytest.mark.parametrize(("target", "triple", "cpu"), MACHINES)
def test_factors_stay_in_registers(target: Target, triple: str, cpu: str, rows: int) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    source = micro_source(Tile("streamed", rows, 8), "float32", target)
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3, jit=True)
    module = llvm.parse_assembly(source.text)
    assert not undefined_symbols(machine.emit_object(module))
    blocks = re.split(r"^\.L\w+:", machine.emit_assembly(module), flags=re.MULTILINE)
    several = [b for b in blocks if len(re.findall(r"vfmadd\w+ps|fmla", b)) > rows]
    assert several
    # All but the sums and rows of b is in registers while columns go by.
    assert not [b for b in several if re.search(r"vbroadcast|ld1r|%rsp\), %[xyz]mm|\[sp", b)]
