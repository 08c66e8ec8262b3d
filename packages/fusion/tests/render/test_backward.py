"""Operands whose elements lie in reverse order in memory."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

from ingle.fusion.kernel.code import DTYPES, SIZES, CodeBuilder
from ingle.fusion.kernel.nest import SHORT, Nest, Operand, map_nest
from ingle.fusion.kernel.validation import validate
from ingle.fusion.render.llvm.source import render
from ingle.fusion.render.llvm.targets import AVX2, AVX512, TARGETS
from ingle.tensor.dtypes import as_dtype
from ingle.testkit.bits import same_bits


def copy_nest(dtype: str, outer: int, length: int, backward: tuple[bool, bool]) -> Nest:
    """Elements from the last to the first one, as an operand has them or both."""
    b = CodeBuilder()
    code, (root,) = b.finish(b.load(0, dtype))
    operands = [
        Operand(dtype, k == 1, "strided" if turned else "unit", backward=turned)
        for k, turned in enumerate(backward)
    ]
    nest = map_nest(outer, operands, [], code, (1, root))
    return nest._replace(row_length=length if outer and length <= SHORT else 0)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("length", [1, 2, 7, 8, 12, 15, 16, 17, 31, 33, 65])
def test_nothing_else_is_read_or_written(machine: Any, dtype: str, length: int) -> None:
    """Backward, the first element of the memory is the last that is read: a wall is before it."""
    kind = as_dtype(dtype).dtype
    rng = np.random.default_rng(length)
    held, x = behind_a_wall(3 * length, kind)
    more, y = behind_a_wall(3 * length, kind)
    for backward in ((True, False), (False, True), (True, True)):
        for array in (x, y):
            array.view(np.uint8)[:] = rng.integers(0, 2 if dtype == "bool" else 256, array.nbytes)
        rows = x.reshape(3, length), y.reshape(3, length)
        source, target = (r[:, ::-1] if b else r for r, b in zip(rows, backward, strict=True))
        expected = source.copy()
        machine.kernel(copy_nest(dtype, 1, length, backward))(source, target)
        assert same_bits(target, expected)
        before = rows[1][1:].copy()
        target[0] = expected[1]
        machine.kernel(copy_nest(dtype, 0, 0, backward))(source[0], target[0])
        assert same_bits(target[0], expected[0])
        assert same_bits(rows[1][1:], before)
    del held, more


def behind_a_wall(count: int, dtype: Any) -> tuple[mmap.mmap, Any]:
    """Memory before whose first element nothing may be touched."""
    whole = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(whole))
    libc = ctypes.CDLL(None, use_errno=True)
    assert not libc.mprotect(ctypes.c_void_p(start), mmap.PAGESIZE, 0)
    return whole, np.frombuffer(whole, dtype, count, mmap.PAGESIZE)


@pytest.mark.parametrize("name", sorted(TARGETS))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bool", "int64"])
@pytest.mark.parametrize("length", [2, 100])
def test_whole_vectors_are_turned_round(machine: Any, name: str, dtype: str, length: int) -> None:
    target = TARGETS[name]
    text = render(copy_nest(dtype, 1, length, (True, True)), "kernel", target)
    lanes = target.width // max(SIZES[dtype], 4 if dtype == "float16" else 1)
    if target.masks or length > lanes:
        assert "shufflevector" in text
        assert ("masked.gather" in text) == (not target.masks)
    assert machine.object(text) if target in (AVX512, AVX2) else True


def test_backward_is_a_stride_along_the_lanes() -> None:
    nest = copy_nest("float32", 1, 100, (True, True))
    validate(nest)
    first, second = nest.operands
    for wrong in (first._replace(lane="unit"), first._replace(apart=2)):
        with pytest.raises(ValueError, match="operand 0 is backward"):
            validate(nest._replace(operands=(wrong, second)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("length", range(1, 36))
@pytest.mark.parametrize(("source", "target"), [("int64", "int8"), ("int32", "int16")])
def test_narrowing(machine: Any, source: str, target: str, length: int) -> None:
    b = CodeBuilder()
    code, (root,) = b.finish(b.cast(b.load(0, source), target))
    operands = [Operand(d, d == target, "strided", backward=True) for d in (source, target)]
    nest = map_nest(1, operands, [], code, (1, root))
    nest = nest._replace(row_length=length if length <= SHORT else 0)
    x = np.random.default_rng(length).integers(-100, 100, (4, length)).astype(source)
    y = np.full((4, length + 40), 111, target)
    machine.kernel(nest)(x[:, ::-1], y[:, 20 + length - 1 : 19 : -1])
    assert same_bits(y[:, 20 : 20 + length], x.astype(target))
    assert (y[:, :20] == 111).all()
    assert (y[:, 20 + length :] == 111).all()
