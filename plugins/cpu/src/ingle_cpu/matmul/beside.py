"""Gradients of weights from copies of images whose channels lie side by side.

What a gradient of a weight multiplies g by are windows whose columns are channels and taps. In
panels each element of an image is there once for every tap, and where g has few features, to write
and read that takes a quarter of the time. In a copy of the image between zeros, with the channels
of a pixel side by side, what a place sees by one tap is a run of channels: tiles of the kind
"sliding" read it there, and k goes along the places, whose offsets in the copy are the same for
all taps. Nothing is packed but the copy.

Sums wait in the worker's memory, tap by tap; when all images have gone by, they are put in the
order of the weight, and the epilogue is an entry of its own. How k is summed follows from the
problem alone: some images at a time, in blocks of places.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from ingle.fusion.device.kernels import SIZES, Windows

from .machine import target
from .microkernel import lanes_of, most_rows, most_vectors
from .problem import Choice, Problem
from .tile import Tile
from .tile_fit import cycles_of
from .window_args import WindowArgs, window_args

BESIDE = "beside"
"""How b is packed then, in a `Choice`."""
MOST_BYTES = 160 << 10
"""Of a copy, and of all that are read at once: they stay in the second-level cache."""
CALL = 40
"""Cycles that a tile takes to add its sums to those of earlier images."""
STEP = 1.5
"""Cycles that a step of k takes besides: the second-level cache brings what tiles read."""
REGISTERS = 32, 64
"""Bytes of a register of the processors that this was measured on, those with AVX2 or AVX-512. With
the latter masks make packing cheaper, but where rows of places are shorter than a register.
"""
COPY = 4
"""Cycles in which a vector of an image is copied."""
TOGETHER = 128
"""Places that are summed at once: what a tap sees there fits in the first-level cache."""


class Beside(NamedTuple):
    """How an image lies in its copy; in elements.

    Attributes:
        windows: the windows of the problem.
        low1, low2: the first row and column of the copy, as the image counts: none or below zero.
        tall, wide: rows and columns of the copy.
        together: images whose places are summed at once.
    """

    windows: WindowArgs[int]
    low1: int
    low2: int
    tall: int
    wide: int
    together: int

    @property
    def taps(self) -> int:
        """Of a channel."""
        return self.windows.taps1 * self.windows.taps2

    @property
    def pixels(self) -> int:
        """Of the copy."""
        return self.tall * self.wide


@functools.lru_cache(maxsize=1024)
def beside_of(problem: Problem) -> Beside | None:
    """How images would be copied; None where that is not possible, or a copy would be large.

    Rows of g and of the images have to lie as they are read, and channels to fill vectors.
    """
    windows, dtype = problem.windows, problem.a_dtype
    if windows is None or not may_be_beside(windows, dtype):
        return None
    if problem.b_dtype != dtype or problem.a_strides[-1] != 1:
        return None
    if not (problem.m and problem.n and problem.k and math.prod(problem.batch)):
        return None
    of: WindowArgs[int] = window_args(windows, problem.n, dtype)
    if not of.taps0 == of.places0 == of.image0 == 1 or of.start0 or of.stride2 != SIZES[dtype]:
        return None
    lanes = lanes_of(dtype, target())
    if of.channels % lanes or not of.image1 or not of.image2:
        return None
    if of.image2 < lanes and not target().masks:
        return None
    low1, tall = _reach(of.taps1, of.places1, of.step1, of.spread1, of.start1, of.image1)
    low2, wide = _reach(of.taps2, of.places2, of.step2, of.spread2, of.start2, of.image2)
    room = MOST_BYTES // (of.channels * tall * wide * SIZES[dtype])
    together = min(problem.turns, max(1, TOGETHER // problem.k), room)
    return Beside(of, low1, low2, tall, wide, together) if room else None


def may_be_beside(windows: Windows | None, dtype: str) -> bool:
    """Whether windows of some sizes may be read so, by which sums have another order."""
    if windows is None or not windows.over_places or target().width not in REGISTERS:
        return False
    return dtype in ("float32", "float64")


def _reach(
    taps: int, places: int, step: int, spread: int, start: int, image: int
) -> tuple[int, int]:
    """The first element of an axis that is in the image or seen, and how many there are."""
    far, last = (taps - 1) * spread, start + (places - 1) * step
    low = min(0, start + min(far, 0))
    return low, max(image, last + max(far, 0) + 1) - low


def beside_choice(problem: Problem, lying: Beside, workers: int) -> tuple[Choice, float]:
    """Units of work, and the cycles a step of k takes in all of them."""
    dtype = problem.a_dtype
    lanes, taps, m = lanes_of(dtype, target()), lying.taps, problem.m
    of_channels = lying.windows.channels // lanes
    matrices = math.prod(problem.batch)
    deep = problem.k * lying.together
    found = []
    for vectors in range(1, most_vectors(target()) + 1):
        if of_channels % vectors:
            continue
        most = most_rows(target(), vectors, "sliding")
        # Rows of even tiles, or of some more of them, which workers may divide evenly.
        for high in (most, max(1, most - 2)):
            tile = Tile("sliding", -(-m // -(-m // high)), vectors)
            tiles, panels = -(-m // tile.rows), of_channels // vectors
            one = cycles_of(tile.rows, vectors) + STEP + CALL / deep
            copied = COPY * lying.windows.image1 * lying.windows.image2 / problem.k
            for blocks in range(1, panels + 1):
                if panels % blocks:
                    continue
                for row_blocks in range(1, min(tiles, workers) + 1):
                    of_unit = -(-tiles // row_blocks) * (panels // blocks) * taps * one
                    of_unit += copied * of_channels / blocks
                    each = -(-matrices * blocks * row_blocks // workers)
                    found.append((each * of_unit, blocks * row_blocks, tile, row_blocks, blocks))
    cycles, _, tile, row_blocks, blocks = min(found)
    nbytes = lying.windows.channels // blocks * lying.pixels * SIZES[dtype]
    images = min(problem.turns, MOST_BYTES // nbytes)
    near = images // lying.together * lying.together
    return Choice(tile, "", BESIDE, row_blocks, blocks, near), cycles
