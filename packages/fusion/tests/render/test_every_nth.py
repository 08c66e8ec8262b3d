"""Operands whose elements are every nth one in memory, for a small n."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

from ingle.fusion.kernel.code import DTYPES, SIZES, CodeBuilder
from ingle.fusion.kernel.nest import MOST_APART, SHORT, Nest, Operand, map_nest
from ingle.fusion.kernel.validation import validate
from ingle.fusion.render.llvm.source import render
from ingle.fusion.render.llvm.targets import AVX2, AVX512, TARGETS
from ingle.tensor.dtypes import as_dtype
from ingle.testkit.bits import same_bits


def copy_nest(dtype: str, outer: int, length: int = 0, apart: int = 2) -> Nest:
    """Every second element to every second place, or others as far apart."""
    b = CodeBuilder()
    code, (root,) = b.finish(b.load(0, dtype))
    operands = [Operand(dtype, k == 1, "strided", apart=apart) for k in (0, 1)]
    nest = map_nest(outer, operands, [], code, (1, root))
    return nest._replace(row_length=length if outer and length <= SHORT else 0)


def turns_nest(dtype: str, outer: int, length: int = 0) -> Nest:
    """The elements of two rows in turns."""
    b = CodeBuilder()
    code, roots = b.finish(b.load(0, dtype), b.load(1, dtype))
    second = Operand(dtype, True, "strided", apart=2, beside=2)
    operands = [*[Operand(dtype)] * 2, second._replace(beside=None), second]
    nest = map_nest(outer, operands, [], code, (2, roots[0]), (3, roots[1]))
    return nest._replace(row_length=length if outer and length <= SHORT else 0)


def narrowing_nest(source: str, target: str, length: int) -> Nest:
    """Every second element as a smaller number."""
    b = CodeBuilder()
    code, (root,) = b.finish(b.cast(b.load(0, source), target))
    operands = [Operand(source, apart=2, lane="strided"), Operand(target, True, "strided")]
    operands[1] = operands[1]._replace(apart=2)
    nest = map_nest(1, operands, [], code, (1, root))
    return nest._replace(row_length=length if length <= SHORT else 0)


def before_a_wall(count: int, dtype: Any) -> tuple[mmap.mmap, Any]:
    """Memory behind whose last element nothing may be touched."""
    room = -(-count * dtype.itemsize // mmap.PAGESIZE) * mmap.PAGESIZE
    whole = mmap.mmap(-1, room + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(whole))
    libc = ctypes.CDLL(None, use_errno=True)
    assert not libc.mprotect(ctypes.c_void_p(start + room), mmap.PAGESIZE, 0)
    return whole, np.frombuffer(whole, dtype, count, room - count * dtype.itemsize)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("length", [1, 2, 7, 8, 12, 15, 16, 17, 31, 33, 65])
@pytest.mark.parametrize("apart", range(2, MOST_APART + 1))
def test_nothing_else_is_read_or_written(machine: Any, dtype: str, length: int, apart: int) -> None:
    kind = as_dtype(dtype).dtype
    rng = np.random.default_rng(length)
    rows, wide = 3, apart * (length - 1) + 1
    held, x = before_a_wall(rows * wide, kind)
    more, y = before_a_wall(rows * wide, kind)
    for array in (x, y):
        array.view(np.uint8)[:] = rng.integers(0, 2 if dtype == "bool" else 256, array.nbytes)
    x, y = x.reshape(rows, wide), y.reshape(rows, wide)
    expected = y.copy()
    expected[:, ::apart] = x[:, ::apart]
    machine.kernel(copy_nest(dtype, 1, length, apart))(x[:, ::apart], y[:, ::apart])
    assert same_bits(y, expected)
    y[0] = expected[1]
    machine.kernel(copy_nest(dtype, 0, 0, apart))(x[0, ::apart], y[0, ::apart])
    expected[1, ::apart] = x[0, ::apart]
    assert same_bits(y[0], expected[1])
    del held, more


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 12, 15, 16, 17, 31, 33, 65])
def test_elements_of_two_take_turns(machine: Any, dtype: str, length: int) -> None:
    kind = as_dtype(dtype).dtype
    rng = np.random.default_rng(length)
    rows, wide = 3, 2 * length + 1
    held, y = before_a_wall(rows * wide - 1, kind)
    a, b = (
        rng.integers(0, 2, (rows, length)).astype(kind)
        if dtype == "bool"
        else rng.integers(0, 256, (rows, length * kind.itemsize)).astype(np.uint8).view(kind)
        for _ in range(2)
    )
    y.view(np.uint8)[:] = rng.integers(0, 2 if dtype == "bool" else 256, y.nbytes)
    before = y.copy()
    first, second = (
        np.lib.stride_tricks.as_strided(
            y[k:], (rows, length), (wide * kind.itemsize, 2 * kind.itemsize)
        )
        for k in (0, 1)
    )
    machine.kernel(turns_nest(dtype, 1, length))(a, b, first, second)
    assert same_bits(first, a)
    assert same_bits(second, b)
    between = np.arange(wide - 1, y.size, wide)
    assert same_bits(y[between], before[between])
    machine.kernel(turns_nest(dtype, 0))(b[0], a[0], first[0], second[0])
    assert same_bits(first[0], b[0])
    assert same_bits(second[0], a[0])
    assert same_bits(y[between], before[between])
    del held


@pytest.mark.sampled(4)
@pytest.mark.parametrize("length", range(1, 36))
@pytest.mark.parametrize(("source", "target"), [("int64", "int8"), ("int32", "int16")])
def test_narrowing(machine: Any, source: str, target: str, length: int) -> None:
    x = np.random.default_rng(length).integers(-100, 100, (4, 2 * length)).astype(source)
    y = np.full((4, 2 * length), 111, target)
    machine.kernel(narrowing_nest(source, target, length))(x[:, ::2], y[:, ::2])
    assert same_bits(y[:, ::2], x[:, ::2].astype(target))
    assert (y[:, 1::2] == 111).all()


@pytest.mark.sampled(5, slow=2)
@pytest.mark.parametrize("name", sorted(TARGETS))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bool", "int64"])
@pytest.mark.parametrize("apart", range(2, MOST_APART + 1))
def test_vectors_of_neighbours_are_loaded(machine: Any, name: str, dtype: str, apart: int) -> None:
    target = TARGETS[name]
    text = render(copy_nest(dtype, 1, 100, apart), "kernel", target)
    lanes = target.width // max(SIZES[dtype], 4 if dtype == "float16" else 1)
    near = apart <= max(4, lanes // 2)
    assert (f"load <{lanes} x" in text) == near
    assert ("masked.scatter" in text) == (not target.masks or not near)
    assert machine.object(text) if target in (AVX512, AVX2) else True


def test_a_small_stride_is_one_along_the_lanes() -> None:
    nest = copy_nest("float32", 1)
    validate(nest)
    with pytest.raises(ValueError, match="operand 0 is 2 apart"):
        validate(nest._replace(lanes="outer"))
    for far in (1, MOST_APART + 1):
        with pytest.raises(ValueError, match=f"operand 0 is {far} apart; it may be 2 to"):
            validate(copy_nest("float32", 1, 0, far))
    unit = nest._replace(operands=(nest.operands[0]._replace(lane="unit"), nest.operands[1]))
    with pytest.raises(ValueError, match="operand 0 is 2 apart"):
        validate(unit)


@pytest.mark.parametrize("length", [3, 16, 40])
def test_bits_and_numbers_take_turns(machine: Any, length: int) -> None:
    b = CodeBuilder()
    code, roots = b.finish(b.load(0, "uint32"), b.load(1, "float32"))
    first = Operand("uint32", True, "strided", apart=2)
    second = Operand("float32", True, "strided", apart=2, beside=2)
    operands = [Operand("uint32"), Operand("float32"), first, second]
    nest = map_nest(1, operands, [], code, (2, roots[0]), (3, roots[1]))
    x = np.random.default_rng(length).standard_normal((2, 3, length)).astype(np.float32)
    y = np.zeros((3, 2 * length), np.float32)
    machine.kernel(nest)(x[0].view(np.uint32), x[1], y.view(np.uint32)[:, ::2], y[:, 1::2])
    assert same_bits(y[:, ::2], x[0])
    assert same_bits(y[:, 1::2], x[1])


def test_turns_are_of_two_outputs_of_one_stage() -> None:
    nest = turns_nest("float32", 1)
    validate(nest)
    *others, last = nest.operands
    for wrong in (last._replace(beside=3), last._replace(beside=0), last._replace(dtype="int16")):
        with pytest.raises(ValueError, match="operand 3 takes turns with operand"):
            validate(nest._replace(operands=(*others, wrong)))


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_turns_are_stored_by_whole_vectors(machine: Any, name: str) -> None:
    text = render(turns_nest("float32", 1, 100), "kernel", TARGETS[name])
    assert "masked.scatter" not in text
    assert f"store <{TARGETS[name].width // 4} x float>" in text
    assert machine.object(text) if TARGETS[name] in (AVX512, AVX2) else True
