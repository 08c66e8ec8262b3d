"""Panels of any width, of operands that lie along k, along i or apart, against NumPy."""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np
import pytest

import ingle.tensor as it
from ingle_cpu.matmul.blocking import choose
from ingle_cpu.matmul.entries_table import entries_table
from ingle_cpu.matmul.machine import target
from ingle_cpu.matmul.pack_launches import packed
from ingle_cpu.matmul.packing import Packing
from ingle_cpu.matmul.plan import A, Pointer
from ingle_cpu.matmul.problem import Problem

TO = Pointer("scratch", 0)


def run(packing: Packing, source: int, made: int) -> None:
    """Packs from one address to another."""
    it.zeros(1, device="cpu").numpy()
    table = entries_table([packed(packing, (A, TO))], {A: (0, 0), TO: (1, 0)})
    table.bases[:] = [source, made]
    table.run()


@pytest.mark.parametrize("lying", ["along i", "along k", "apart", "backwards"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_panels(dtype: str, lying: str) -> None:
    rng = np.random.default_rng(0)
    for width in range(1, 20):
        for count, depth in ((width, 8), (width + 3, 21), (max(1, width - 1), 16), (2 * width, 5)):
            matrix = rng.standard_normal((depth, count)).astype(dtype)
            if lying == "along k":
                matrix = np.ascontiguousarray(matrix.T).T
            elif lying == "apart":
                matrix = np.repeat(np.repeat(matrix, 2, 0), 3, 1)[::2, ::3]
            elif lying == "backwards":
                matrix = np.ascontiguousarray(matrix[::-1, ::-1])[::-1, ::-1]
            packing = Packing(dtype, (), matrix.strides, count, depth, width, width)
            made = np.full(packing.nbytes // 4, 7, np.float32 if dtype == "float16" else dtype)
            run(packing, matrix.ctypes.data, made.ctypes.data)
            wanted = np.zeros((depth, packing.panels * width), made.dtype)
            wanted[:, :count] = matrix
            panels = wanted.reshape(depth, packing.panels, width).transpose(1, 0, 2)
            assert (made[: panels.size] == panels.ravel()).all(), (width, count, depth)
            assert (made[panels.size :] == 7).all()


@pytest.mark.skipif(sys.platform == "win32", reason="memory is protected by mprotect")
@pytest.mark.parametrize("width", [4, 6, 12, 16, 24])
def test_rows_in_whole_vectors_stay_inside(width: int) -> None:
    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    assert not libc.mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE, 0)
    depth = 9
    matrix = np.frombuffer(memory, np.float32, mmap.PAGESIZE // 4)[-depth * width :]
    matrix[:] = np.arange(depth * width)
    packing = Packing("float32", (), (4 * width, 4), width, depth, width, width)
    made = np.full(depth * width + 16, 7, np.float32)
    run(packing, matrix.ctypes.data, made.ctypes.data)
    assert (made[: depth * width] == matrix).all()
    assert (made[depth * width :] == 7).all()


@pytest.mark.parametrize("shape", [(1024, 256, 4096), (512, 128, 1024), (256, 256, 512)])
def test_rows_that_lie_along_columns_are_packed_for_high_tiles(
    shape: tuple[int, int, int],
) -> None:
    # Each tile of rows takes a cache line for every step of k: so there should be few. But where
    # few registers are, a tile of more rows would have a single vector, which takes longer.
    m, n, k = shape
    of_rows, turned = (
        choose(Problem("float32", "float32", (), m, n, k, strides, (n, 1)), 1)
        for strides in ((k, 1), (1, m))
    )
    assert turned.pack_a
    assert turned.tile.vectors >= 2
    assert turned.tile.rows > of_rows.tile.rows - (target().registers < 32)
    assert (turned.pack_a == "local") == (m * k > 1 << 18)
