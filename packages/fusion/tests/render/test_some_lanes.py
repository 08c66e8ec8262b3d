"""Ends of rows of bytes and pairs of bytes, of which a machine may not load or store some alone."""

from __future__ import annotations

import ctypes
import mmap
import re
from typing import Any

import numpy as np
import pytest

from ingle.fusion.kernel.code import DTYPES, SIZES, CodeBuilder
from ingle.fusion.kernel.nest import Nest, Operand, Reduce, Row, map_nest, result_dtype
from ingle.fusion.render.llvm.some_lanes import MANY
from ingle.fusion.render.llvm.source import render
from ingle.fusion.render.llvm.targets import AVX2, AVX512, NEON, SSE2, TARGETS
from ingle.tensor.dtypes import as_dtype
from ingle.testkit.bits import same_bits

NARROW = sorted(d for d in DTYPES if SIZES[d] < 4)


def cast_nest(source: str, target: str, outer: int) -> Nest:
    """Elements as others, or as they are."""
    b = CodeBuilder()
    x = b.load(0, source)
    code, (root,) = b.finish(x if source == target else b.cast(x, target))
    return map_nest(outer, [Operand(source), Operand(target, True)], [], code, (1, root))


def sum_nest(dtype: str) -> Nest:
    """Sums of rows of what a mask leaves."""
    b = CodeBuilder()
    read = b.load(0, "bool"), b.load(1, dtype), b.constant(0, dtype)
    code, (root,) = b.finish(b.append("select", dtype, read))
    made = result_dtype("sum", dtype)
    b = CodeBuilder()
    after, (stored,) = b.finish(b.append("result", made, (), (0, 0)))
    operands = Operand("bool"), Operand(dtype), Operand(made, True, "zero")
    return Nest(1, operands, (), (Reduce(code, (("sum", root),)), Row(after, ((2, stored),))))


class Walled:
    """Memory before and behind which nothing may be touched."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 3 * mmap.PAGESIZE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        libc = ctypes.CDLL(None, use_errno=True)
        for page in (0, 2):
            place = ctypes.c_void_p(self.start + page * mmap.PAGESIZE)
            assert not libc.mprotect(place, mmap.PAGESIZE, 0)

    def array(self, count: int, dtype: Any, skipped: int) -> Any:
        """Elements some places behind the first wall, or before the second one if negative."""
        size = np.dtype(dtype).itemsize
        first = skipped * size if skipped >= 0 else mmap.PAGESIZE - (count + ~skipped) * size
        return np.frombuffer(self.memory, dtype, count, mmap.PAGESIZE + first)


@pytest.mark.sampled(25)
@pytest.mark.parametrize("name", ["avx2", "sse2"])
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("other", ["bool", "float16", "float32", "float64"])
@pytest.mark.parametrize("length", [1, 2, 5, 8, 13, 31, 37, 131])
def test_nothing_else_is_read_or_written(
    machine: Any, name: str, dtype: str, other: str, length: int
) -> None:
    if machine.target not in (AVX2, AVX512):
        pytest.skip("the machine has no such instructions")
    rng = np.random.default_rng(length)
    walled = Walled(), Walled()
    for source, target in ((dtype, other), (other, dtype)):
        kernels = [machine.kernel(cast_nest(source, target, o), TARGETS[name]) for o in (1, 0)]
        for skipped in (0, 1, 5, -1, -2, -4):
            x = walled[0].array(3 * length, as_dtype(source).dtype, skipped).reshape(3, length)
            y = walled[1].array(3 * length, as_dtype(target).dtype, skipped).reshape(3, length)
            x[:] = rng.integers(0, 2 if source == "bool" else 100, x.shape)
            expected = x.astype(y.dtype)
            kernels[0](x, y)
            assert same_bits(y, expected)
            y.view(np.uint8)[:] = 7
            kernels[1](x[1], y[1])
            assert same_bits(y[1], expected[1])
            assert (y[[0, 2]].view(np.uint8) == 7).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["avx2", "sse2"])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("length", [1, 6, 11, 49, 65, 100, 191])
def test_what_a_mask_leaves_is_added(machine: Any, name: str, dtype: str, length: int) -> None:
    if machine.target not in (AVX2, AVX512):
        pytest.skip("the machine has no such instructions")
    rng = np.random.default_rng(length)
    mask, x = rng.random((5, length)) < 0.5, rng.integers(0, 99, (5, length)).astype(dtype)
    y = np.zeros((5, 1), dtype)
    machine.kernel(sum_nest(dtype), TARGETS[name])(mask, x, np.broadcast_to(y, x.shape))
    assert (y[:, 0] == np.where(mask, x, 0).sum(1)).all()


@pytest.mark.parametrize("target", [AVX512, AVX2, SSE2, NEON])
def test_many_lanes_have_no_branch_each(target: Any) -> None:
    """LLVM makes branches of masked accesses that the machine has not."""
    nests = [sum_nest("float32")]
    if target.width >= MANY:
        nests += [cast_nest("int8", "int8", 1), cast_nest("bool", "int8", 0)]
    for nest in nests:
        text = render(nest, "kernel", target)
        assert bool(re.search(r"masked\.(load|store)\.v\d+i8", text)) == target.masks
