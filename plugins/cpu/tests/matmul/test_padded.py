"""Tiles that slide along images between zeros: the bits of packed windows, in guarded memory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from window_products import guarded, product, seen

from ingle.fusion.kernel.code import Instruction
from ingle.fusion.kernel.nest import Operand
from ingle.fusion.lowering.contraction import Windows
from ingle_cpu.matmul import blocking, machine, window_blocking
from ingle_cpu.matmul.launches import Epilogue, Problem, identity
from ingle_cpu.matmul.microkernel import lanes_of
from ingle_cpu.matmul.padded import padded_of
from ingle_cpu.matmul.tile import compute_dtype

Array = Any
CASES: tuple[tuple[Any, ...], ...] = (
    # batch, rows, channels, image, kernel, places, spread, start, and steps that are not 1
    (3, 8, 5, (9, 11), (3, 3), (9, 11), (1, 1), (-1, -1)),
    (2, 13, 3, (14, 14), (5, 5), (14, 14), (-1, -1), (2, 2)),  # gradients walk backwards
    (2, 5, 70, (20, 37), (3, 3), (20, 37), (2, 2), (-2, -2)),  # k in two blocks of sums
    (1, 3, 4, (40, 9), (4, 2), (37, 8), (1, 1), (0, 0)),  # no zeros at all
    (2, 6, 2, (8, 30), (2, 3), (5, 20), (1, 1), (2, 7)),  # a part of the image
    (1, 64, 3, (90, 5), (3, 5), (92, 1), (1, 1), (-2, 0)),  # one place in a row
    (4, 7, 6, (50,), (7,), (50,), (1,), (-3,)),
    (2, 7, 2, (1, 3), (1, 3), (1, 3), (1, 1), (0, -1)),
    (1, 9, 300, (30, 100), (3, 3), (30, 100), (1, 1), (-1, -1)),  # an image in several units
    (2, 5, 3, (8, 8), (3, 3), (8, 16), (1, 1), (-1, -5)),  # more zeros than taps
    (2, 8, 3, (16, 18), (3, 3), (8, 9), (1, 1), (-1, -1), (2, 2)),
    (1, 4, 3, (31, 45), (7, 7), (16, 23), (1, 1), (-3, -3), (2, 2)),
    (2, 6, 4, (9, 40), (3, 4), (3, 19), (2, 3), (-2, -4), (3, 2)),  # taps of both phases
    (2, 6, 4, (9, 80), (1, 3), (9, 17), (1, -1), (0, 7), (1, 2)),  # windows see less than a row
    (1, 7, 2, (40,), (2,), (9,), (40,), (-5,), (2,)),
    (1, 300, 1, (2, 130), (1, 2), (1, 64), (1, 1), (1, 1), (2, 2)),  # a row to its very end
    (2, 9, 60, (12, 7), (3, 3), (12, 7), (1, 1), (-1, -1)),  # rows one below the other, k in blocks
    (2, 17, 3, (24, 15), (3, 3), (12, 7), (1, 1), (-1, -1), (2, 2)),
    (1, 3, 2, (12, 1), (3, 1), (12, 1), (2, 1), (-2, 0)),
    (1, 5, 90, (60, 6), (5, 5), (60, 6), (1, 1), (-2, -2)),  # in several units
)


def stored(array: Array, dtype: str) -> tuple[Array, Array]:
    """Numbers as they are in memory of a dtype, between NaNs; and what they are there."""
    if dtype != "bfloat16":
        kept = guarded(array.astype(dtype))
        return kept, kept
    bits = array.astype(np.float32).view(np.uint32) >> 16  # cut off, not rounded
    kept = guarded(bits.astype(np.uint16))
    return kept, (kept.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.sampled(5, slow=2)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_bits_are_those_of_packed_windows(case: tuple[Any, ...], dtype: str) -> None:
    batch, rows, channels, image, kernel, places, spread, start, *rest = case
    rng = np.random.default_rng(0)
    x, of_x = stored(rng.standard_normal((batch, channels, *image)), dtype)
    k = channels * math.prod(kernel)
    a, of_a = stored(rng.standard_normal((rows, k)), dtype)
    steps = [s // x.itemsize for s in x.strides]
    (apart,) = rest or [(1,) * len(kernel)]
    windows = Windows(
        False, kernel, places, apart, spread, start, image, steps[1], tuple(steps[2:])
    )
    problem = Problem(
        dtype, dtype, (batch,), rows, math.prod(places), k, (0, k, 1), (steps[0], 0, 0), windows
    )
    made = compute_dtype(dtype)
    lanes = lanes_of(made, machine.target())
    windows_of = seen(of_x.astype(np.float64), kernel, places, spread, start, apart)
    expected = np.einsum("ik,bkj->bij", of_a.astype(np.float64), windows_of)
    for workers in (1, 3):
        packed, _ = window_blocking.packed_windows(problem, made, lanes, workers)
        by_panels = product(a, x, problem, packed)
        image = window_blocking.image_of(problem)
        assert image is not None
        flat = image._replace(flat=True)
        ways = [(image, tile) for tile, _ in window_blocking.sliding_tiles(rows, image, lanes)]
        ways += [(flat, tile) for tile, _ in window_blocking.sliding_tiles(rows, flat, lanes)]
        for lying, tile in ways:
            choice = window_blocking.slid(problem, lying, tile, workers)
            assert choice is not None
            found = product(a, x, problem, choice)
            assert np.array_equal(found, by_panels), choice
    tolerance = 1e-4 if made == "float32" else 1e-12
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("across", [15, 5])
def test_an_epilogue_sees_places_alone(across: int, flat: bool) -> None:
    """Not what tiles compute behind the ends of rows."""
    rng = np.random.default_rng(0)
    x = guarded(rng.standard_normal((2, 3, 12, across)).astype(np.float32))
    a = guarded(rng.standard_normal((9, 27)).astype(np.float32))
    size, places = (12, across), 12 * across
    windows = Windows(False, (3, 3), size, (1, 1), (1, 1), (-1, -1), size, places, (across, 1))
    problem = Problem(
        "float32", "float32", (2,), 9, places, 27, (0, 27, 1), (3 * places, 0, 0), windows
    )  # fmt: skip
    image = window_blocking.image_of(problem)
    assert image is not None
    image = image._replace(flat=flat)
    tiles = window_blocking.sliding_tiles(9, image, lanes_of("float32", machine.target()))
    choice = window_blocking.slid(problem, image, tiles[-1][0], 2)
    assert choice is not None
    plain = product(a, x, problem, choice)
    code = identity("float32").code
    twice = Epilogue(
        (*code, Instruction("add", "float32", (0, 0))),
        (Operand("float32", True),),
        ((0, 1),),
    )
    assert np.array_equal(product(a, x, problem, choice, twice), plain + plain)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_slide_as_the_float32_that_they_are_summed_in(dtype: str) -> None:
    """The copy and the rows of a are float32, so that nothing has to be packed for each tap."""
    size, places = (56, 56), 56 * 56
    windows = Windows(False, (7, 7), size, (2, 2), (1, 1), (-3, -3), (112, 112), 112**2, (112, 1))
    problem = Problem(
        dtype, dtype, (2,), 64, places, 147, (0, 147, 1), (3 * 112**2, 0, 0), windows
    )  # fmt: skip
    choice = blocking.choose(problem, 1)
    alike = blocking.choose(problem._replace(a_dtype="float32", b_dtype="float32"), 1)
    assert choice.slides
    assert choice.pack_a == "before"
    assert choice._replace(pack_a="") == alike


def test_windows_that_do_not_slide_are_packed() -> None:
    """With a step of 3, of a transposed image, and over several images."""
    usual = Windows(False, (3, 3), (8, 8), (1, 1), (1, 1), (-1, -1), (8, 8), 64, (8, 1))
    assert padded_of(usual, 9, "float32") is not None
    for other in (
        usual._replace(places=(4, 3), steps=(2, 3)),
        usual._replace(strides=(1, 8)),
        usual._replace(turns=2),
        usual._replace(over_places=True),
    ):
        assert padded_of(other, 9, "float32") is None


@pytest.mark.parametrize("said", ["256K", "1024K", "2M"])
def test_a_copy_leaves_room_in_the_second_level_cache(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large that is: 64 channels of 112x112 are cut into units whose part is small."""
    (tmp_path / "size").write_text(said + "\n")
    monkeypatch.setattr(machine, "CACHE", tmp_path / "size")
    machine.second_level_bytes.cache_clear()
    try:
        held = machine.second_level_bytes()
        assert held == int(said[:-1]) << {"K": 10, "M": 20}[said[-1]]
        size, places = (112, 112), 112 * 112
        windows = Windows(False, (3, 3), size, (1, 1), (1, 1), (-1, -1), size, places, (112, 1))
        problem = Problem(
            "float32", "float32", (8,), 64, places, 576, (0, 576, 1), (64 * places, 0, 0), windows
        )  # fmt: skip
        ways = window_blocking.slid_windows(problem, "float32", 8, 1)
        assert len(ways) == 2
        for choice, _ in ways:
            lying = window_blocking.padded(problem, choice)
            assert lying is not None
            width, _, panels = blocking.widths(problem, choice)
            assert lying.nbytes(-(-panels // choice.panel_blocks), width, 4) <= held // 2
    finally:
        machine.second_level_bytes.cache_clear()


@pytest.mark.parametrize("said", [None, "", "0", "K", "some"])
def test_a_cache_of_unknown_size_is_a_usual_one(
    said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if said is not None:
        (tmp_path / "size").write_text(said)
    monkeypatch.setattr(machine, "CACHE", tmp_path / "size")
    machine.second_level_bytes.cache_clear()
    try:
        assert machine.second_level_bytes() == machine.USUAL_CACHE
    finally:
        machine.second_level_bytes.cache_clear()
