"""Kernels that add up windows: for each family of processors, and what they touch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.nest import (
    DotNumbers,
    Dots,
    Fold,
    FoldNumbers,
    Map,
    Nest,
    Operand,
)
from ingle.fusion.kernel.validation import validate
from ingle.fusion.render.llvm.source import render
from ingle.testkit.bits import same_bits

from .test_every_nth import before_a_wall
from .test_targets import MACHINES, undefined_symbols


def fold_nest(dtype: str, lane: str = "unit", factors: bool = False) -> Nest:
    """Rows of windows along one image axis."""
    b = CodeBuilder()
    element = b.load(0, dtype)
    operands = [Operand(dtype, False, lane), Operand(dtype, True)]
    if factors:
        element = b.append("mul", dtype, (element, b.load(1, dtype)))
        operands.insert(1, Operand(dtype, False, "zero"))
    code, (root,) = b.finish(element)
    scalars = ("int64",) * len(FoldNumbers._fields)
    return Nest(1, tuple(operands), scalars, (Fold(code, ((1 + factors, root),)),))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("windows", [1, 3, 15, 16, 17, 40])
def test_nothing_else_is_read_or_written(machine: Any, dtype: str, windows: int) -> None:
    taps, spread, start = 3, 2, 1
    width = windows + spread * (taps - 1) - 2 * start
    kind = np.dtype(dtype)
    held, x = before_a_wall(taps * windows, kind)
    more, y = before_a_wall(width, kind)
    x[:] = np.random.default_rng(windows).standard_normal(len(x))
    y[:] = 7
    want = np.zeros(width + 2 * start, kind)
    for t, part in enumerate(x.reshape(taps, windows)):
        want[t * spread : t * spread + windows] += part
    numbers = FoldNumbers(0, 1, taps, 1, spread, 0, start, 1, windows, 0, windows)
    args = np.array([1, width, 0, 1, 0, 1, *numbers], np.int64)
    pointers = np.array([x.ctypes.data, y.ctypes.data], np.uint64)
    machine.kernel(fold_nest(dtype)).function(pointers.ctypes.data, args.ctypes.data, 0, 1, 0)
    np.testing.assert_array_equal(y, want[start : start + width])
    del held, more


@pytest.mark.sampled(4, slow=1)
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("lane", ["unit", "strided"])
@pytest.mark.parametrize("factors", [False, True])
def test_objects_call_nothing(machine: Any, name: str, lane: str, factors: bool) -> None:
    target, triple, cpu = MACHINES[name]
    text = render(fold_nest("float32", lane, factors), "kernel", target)
    module = machine.binding.parse_assembly(text)
    module.triple = triple
    compiler = machine.binding.Target.from_triple(triple).create_target_machine(
        cpu=cpu, opt=1, reloc="pic", codemodel="small"
    )
    assert not undefined_symbols(compiler.emit_object(module))


def test_taps_of_the_next_image_are_fetched() -> None:
    target, *_ = MACHINES["avx2"]
    assert "@llvm.prefetch.p0" in render(fold_nest("float32"), "kernel", target)


def test_windows_are_added_up_alone() -> None:
    nest = fold_nest("float32")
    validate(nest)
    (stage,) = nest.stages
    for wrong in (
        nest._replace(outer=0),
        nest._replace(scalars=()),
        nest._replace(stages=(stage, Map(stage.code, stage.stores))),
        nest._replace(operands=nest.operands[::-1]),
        nest._replace(lanes="outer"),
        nest._replace(operands=fold_nest("float32", factors=True).operands),
    ):
        with pytest.raises(ValueError, match="bad nest"):
            validate(wrong)


@pytest.mark.sampled(3, slow=1)
@pytest.mark.parametrize("width", [3, 8, 13, 40, 300, 9000])
@pytest.mark.parametrize("pieces", [1, 3])
def test_images_of_each_channel_touch_nothing_else(machine: Any, width: int, pieces: int) -> None:
    """Rows on a copy between zeros, and rows too wide for it: all are done, by whoever has them."""
    height, (down, across), around = 11, (3, 5), 2
    rng = np.random.default_rng(width)
    nest = fold_nest("float32", factors=True)._replace(outer=2)
    held, x = before_a_wall(height * width, np.dtype(np.float32)) if width < 90 else (None, None)
    more, y = before_a_wall(height * width, np.dtype(np.float32)) if width < 90 else (None, None)
    if x is None or y is None:  # more than a page
        x, y = np.empty((2, height * width), np.float32)
    x[:], y[:] = rng.standard_normal(len(x)), 7
    taps = rng.standard_normal((down, across)).astype(np.float32)
    image = np.pad(x.reshape(height, width).astype(np.float64), ((1, 1), (around, around)))
    want = sum(
        taps[t, u] * image[t : t + height, u : u + width]
        for t in range(down)
        for u in range(across)
    )
    numbers = FoldNumbers(
        width, down, across, -1, -1, -1, -around, height, width, 0, 0, across, 1
    )  # fmt: skip
    strides = (0, 0, 1), (0, 0, 0), (0, width, 1)
    args = np.array([1, height, width, *sum(strides, ()), *numbers], np.int64)
    pointers = np.array([a.ctypes.data for a in (x, taps, y)], np.uint64)
    kernel = machine.kernel(nest)
    for k in range(pieces):
        begin, end = (height * n // pieces for n in (k, k + 1))
        kernel.function(pointers.ctypes.data, args.ctypes.data, begin, end, 0)
    np.testing.assert_allclose(y.reshape(height, width), want, atol=1e-5)
    kernel.function(pointers.ctypes.data, args.ctypes.data, 5, 5, 0)  # nothing to do
    del held, more


@pytest.mark.slow
@pytest.mark.parametrize("width", [5, 16, 28, 40])
def test_rows_that_share_what_they_see_have_the_bits_of_each_alone(
    machine: Any, width: int
) -> None:
    """Taps are added in one order, whichever rows of places are summed together."""
    height, across, pad, zeros = 13, 3, 2, 16
    rng = np.random.default_rng(width)
    x = rng.standard_normal((height, width)).astype(np.float32)
    image = np.pad(x.astype(np.float64), zeros)
    kernel = machine.kernel(fold_nest("float32", factors=True)._replace(outer=2))
    for down, spread in itertools.product((3, 4, 5, 7), (-2, -1, 1, 2)):
        taps = rng.standard_normal((down, across)).astype(np.float32)
        starts = [-pad + max(0, (n - 1) * spread) for n in taps.shape]
        numbers = FoldNumbers(
            width, down, across, spread, spread, *starts, height, width, 0, 0, across, 1
        )  # fmt: skip
        want = np.zeros((height, width))
        for tap in np.ndindex(down, across):
            top, left = (zeros + s - t * spread for s, t in zip(starts, tap, strict=True))
            want += taps[tap] * image[top : top + height, left : left + width]
        strides = (0, 0, 1), (0, 0, 0), (0, width, 1)
        args = np.array([1, height, width, *sum(strides, ()), *numbers], np.int64)
        found = []
        for pieces in (1, height):
            y = np.full((height, width), 7, np.float32)
            pointers = np.array([a.ctypes.data for a in (x, taps, y)], np.uint64)
            for k in range(pieces):
                begin, end = (height * n // pieces for n in (k, k + 1))
                kernel.function(pointers.ctypes.data, args.ctypes.data, begin, end, 0)
            found.append(y)
        np.testing.assert_allclose(found[0], want, atol=1e-5)
        assert same_bits(*found)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (1, 3), (3, 4), (2, 1), (4, 5)])
@pytest.mark.parametrize("taps", [(3, 3), (2, 5), (5, 1)])
def test_places_some_apart_touch_nothing_else(
    machine: Any, strides: tuple[int, int], taps: tuple[int, int]
) -> None:
    """Every so many rows and columns: phase by phase in a copy, where they are not too far apart;
    and the bits are the same whoever has which rows."""
    height, around, kind = 9, 2, np.dtype(np.float32)
    rng = np.random.default_rng(sum(strides))
    near = taps == (3, 3)
    lane = "strided" if strides[1] > 1 else "unit"
    nest = fold_nest("float32", lane, factors=True)._replace(outer=2)
    (stage,) = nest.stages
    apart = 2 if strides[1] == 2 else 0
    operands = nest.operands[0]._replace(apart=apart), *nest.operands[1:]
    nest = nest._replace(operands=operands, stages=(stage._replace(near=near),))
    factors = rng.standard_normal(taps).astype(kind)
    kernel = machine.kernel(nest)
    for spread, width in itertools.product((-1, 1), (1, 5, 8, 19, 40)):
        starts = [-around + max(0, (n - 1) * spread) for n in taps]
        # What the last places see ends before the image, with it, and behind it.
        for beyond in (-1, 0, 3):
            image = [
                max(1, (n - 1) * s + k - 2 * around + beyond)
                for n, s, k in zip((height, width), strides, taps, strict=True)
            ]
            held, x = before_a_wall(image[0] * image[1], kind)
            more, y = before_a_wall(height * width, kind)
            x[:] = rng.standard_normal(len(x))
            numbers = FoldNumbers(
                image[1], *taps, spread, spread, *starts, *image, 0, 0, taps[1], 1, *strides
            )  # fmt: skip
            zeros = 2 * around + 8
            padded = np.pad(x.reshape(image).astype(np.float64), zeros)
            want = np.zeros((height, width))
            for tap in np.ndindex(*taps):
                top, left = (zeros + s - t * spread for s, t in zip(starts, tap, strict=True))
                shown = padded[top :: strides[0], left :: strides[1]][:height, :width]
                want += factors[tap] * shown
            given = (0, 0, strides[1]), (0, 0, 0), (0, width, 1)
            args = np.array([1, height, width, *sum(given, ()), *numbers], np.int64)
            pointers = np.array([a.ctypes.data for a in (x, factors, y)], np.uint64)
            found = []
            for pieces in (1, 2, height):
                y[:] = 7
                for k in range(pieces):
                    begin, end = (height * n // pieces for n in (k, k + 1))
                    kernel.function(pointers.ctypes.data, args.ctypes.data, begin, end, 0)
                found.append(y.copy().reshape(height, width))
            np.testing.assert_allclose(found[0], want, atol=1e-4)
            assert same_bits(*found[:2])
            assert same_bits(*found[1:])
            del held, more


@pytest.mark.slow
@pytest.mark.parametrize("height", [1, 2, 9])
def test_rows_of_a_copy_that_has_no_room_for_one_are_not_copied(machine: Any, height: int) -> None:
    """Of 5 rows of taps and 2040 places the copy holds four: none of places that are apart."""
    width, down, step = 2040, 5, 3
    rng = np.random.default_rng(height)
    nest = fold_nest("float32", factors=True)._replace(outer=2)
    image = (height - 1) * step + down
    x = rng.standard_normal((image, width)).astype(np.float32)
    factors, y = rng.standard_normal(down).astype(np.float32), np.zeros((height, width), np.float32)
    numbers = FoldNumbers(
        width, down, 1, -1, -1, 0, 0, image, width, 0, 0, 1, 1, step, 1
    )  # fmt: skip
    given = (0, 0, 1), (0, 0, 0), (0, width, 1)
    args = np.array([1, height, width, *sum(given, ()), *numbers], np.int64)
    pointers = np.array([a.ctypes.data for a in (x, factors, y)], np.uint64)
    machine.kernel(nest).function(pointers.ctypes.data, args.ctypes.data, 0, height, 0)
    want = sum(factors[t] * x[t::step][:height].astype(np.float64) for t in range(down))
    np.testing.assert_allclose(y, want, atol=1e-5)


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("width", [1, 7, 16, 21])
def test_sums_of_taps_touch_nothing_else(machine: Any, step: int, width: int) -> None:
    height, (down, across), start = 5, (2, 3), (-1, -2)
    b = CodeBuilder()
    product = b.append("mul", "float32", (b.load(0, "float32"), b.load(1, "float32")))
    code, (root,) = b.finish(product)
    lane = "unit" if step == 1 else "strided"
    operands = Operand("float32"), Operand("float32", False, lane), Operand("float32", True)
    scalars = ("int64",) * len(DotNumbers._fields)
    nest = Nest(2, operands, scalars, (Dots(code, ((2, root),), across),))
    image = (height - 1) * step + down - 1, (width - 1) * step + across - 3
    image = max(1, image[0]), max(1, image[1])
    rng = np.random.default_rng(width)
    kind = np.dtype(np.float32)
    arrays = [before_a_wall(n, kind) for n in (height * width, image[0] * image[1], down * across)]
    held, (g, x, y) = [a for a, _ in arrays], [a for _, a in arrays]
    g[:], x[:], y[:] = rng.standard_normal(len(g)), rng.standard_normal(len(x)), 7
    numbers = DotNumbers(
        height, width, image[1], down, step, step, 1, 1, *start, *image, 1
    )  # fmt: skip
    strides = (0, 0, 1), (0, 0, step), (0, 0, 1)
    args = np.array([1, 1, width, *sum(strides, ()), *numbers], np.int64)
    pointers = np.array([a.ctypes.data for a in (g, x, y)], np.uint64)
    machine.kernel(nest).function(pointers.ctypes.data, args.ctypes.data, 0, 1, 0)
    far = height * step + down, width * step + across
    padded = np.zeros(far)
    low = -start[0], -start[1]
    inside = min(image[0], far[0] - low[0]), min(image[1], far[1] - low[1])
    shown = x.reshape(image)[: inside[0], : inside[1]]
    padded[low[0] : low[0] + inside[0], low[1] : low[1] + inside[1]] = shown
    for t in range(down):
        for u in range(across):
            seen = padded[t::step, u::step][:height, :width]
            want = float((seen * g.reshape(height, width)).sum())
            assert y[t * across + u] == pytest.approx(want, abs=1e-4)
    del held


@pytest.mark.parametrize("name", MACHINES)
def test_objects_that_sum_taps_call_nothing(machine: Any, name: str) -> None:
    target, triple, cpu = MACHINES[name]
    b = CodeBuilder()
    product = b.append("mul", "float32", (b.load(0, "float32"), b.load(1, "float32")))
    code, (root,) = b.finish(product)
    operands = Operand("float32"), Operand("float32"), Operand("float32", True)
    scalars = ("int64",) * len(DotNumbers._fields)
    nest = Nest(2, operands, scalars, (Dots(code, ((2, root),), 11),))
    module = machine.binding.parse_assembly(render(nest, "kernel", target))
    module.triple = triple
    compiler = machine.binding.Target.from_triple(triple).create_target_machine(
        cpu=cpu, opt=1, reloc="pic", codemodel="small"
    )
    assert not undefined_symbols(compiler.emit_object(module))
    with pytest.raises(ValueError, match="bad nest"):
        validate(nest._replace(outer=1))
