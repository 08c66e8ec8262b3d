"""Convolutions by 3x3 or 5x5 taps with fewer multiplications: which are computed so, and how cut.

Winograd's F(2x2, 3x3), as Lavin and Gray use it (Fast algorithms for convolutional neural networks,
arXiv 1509.09308): four results next to each other take 16 multiplications for each channel and
feature and not 36. A *patch* of 4x4 elements of the image and the 3x3 taps are each turned into 16
numbers; products of these, summed over channels, are turned into the 2x2 results:

    results = A' [(G taps G') * (B' patch B)] A

With 5x5 taps a patch of 6x6 elements becomes 49 numbers, in place of 100 multiplications: along
each axis there are three taps, and two beside them. `winograd_turning_ir.py` says what A, B and G
are. So there are 16 or 49 products of matrices, features by channels by patches; of images along
three axes each tap along the first one has channels of its own. A unit of work takes patches that
stay in its caches from one end to the other. Where a result is not finite, it is computed anew as
the sum that defines it: what a number that is not finite does to its neighbours in a patch is
undone.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from ingle.fusion.device import has_sizes
from ingle.fusion.device.kernels import SIZES, Windows

from .machine import target
from .problem import Choice, Problem
from .taps_packing import WINOGRAD, is_wanted
from .tile import Tile
from .tile_fit import cycles_of, tile_for
from .window_args import WindowArgs, window_args
from .winograd_form import FORMS, PatchForm

WIDEST = 3
"""Vectors of a tile."""
REGISTERS = 32, 64
"""Bytes of a register of the processors that this was measured on, those with AVX2 or AVX-512."""
GAIN = 0.9
"""Of the cycles of tiles that slide, what this may take at most."""
FEWEST_PATCHES = 9
"""Of an image, for which it pays to turn the taps."""
OF_VECTORS = 0.5
"""Of the cycles of turning, those that a vector of patches takes however few of them are there."""
MOST_PLACES = 1 << 10
"""In a row: the patches of a row are taken at once."""
COLUMNS = 96
"""Patches that a unit of work takes."""
CALL = 40
"""Cycles that a tile takes besides, as in `beside.py`."""
NEAR = 16
"""Bytes of taps that a cycle brings."""
LATE = 0.1
"""Of a unit of work: so much later than the others the last worker is done."""
MOST_BYTES = 3 << 19
"""Of what its patches are turned into."""


class Winograd(NamedTuple):
    """A convolution as patches.

    Attributes:
        form: how patches are computed.
        windows: of the problem.
        flipped: whether the taps go backwards.
        tall, wide: rows of patches of an image, and patches of a row.
        rows: rows of patches of all images of a matrix.
        channels: of the images, times how many of these a place sees: several along three axes.
    """

    form: PatchForm
    windows: WindowArgs[int]
    flipped: bool
    tall: int
    wide: int
    rows: int
    channels: int

    @property
    def first(self) -> tuple[int, int]:
        """Where the first patch begins in the image."""
        back = self.form.taps - 1 if self.flipped else 0
        return self.windows.start1 - back, self.windows.start2 - back


def winograd_of(problem: Problem) -> Winograd | None:
    """The patches of a problem that is computed so; None for others.

    It depends on sizes alone, and not on how operands lie or how many images there are, since sums
    have another order and other errors than those of tiles that slide.
    """
    if not may_be_winograd(problem.windows, problem.a_dtype, problem.m, problem.k):
        return None
    if problem.b_dtype != problem.a_dtype or not math.prod(problem.batch) or not problem.m:
        return None
    repeats = zip(problem.batch, problem.a_strides, strict=False)
    if any(n > 1 and step for n, step in repeats):
        return None
    return _winograd(problem)


@functools.lru_cache(maxsize=1024)
def _winograd(problem: Problem) -> Winograd | None:
    assert problem.windows is not None, "it was looked at"
    of = window_args(problem.windows, problem.k, problem.b_dtype)
    if not of.image0 or not of.image1 or not of.image2 or of.places2 > MOST_PLACES:
        return None
    tall, wide = -(-of.places1 // 2), -(-of.places2 // 2)
    if tall * wide < FEWEST_PATCHES:
        return None
    form, channels = FORMS[problem.windows.kernel[-1]], of.channels * of.taps0
    if not _pays(form, problem.m, channels, (tall, wide), of.places1 * of.places2):
        return None
    return Winograd(form, of, of.spread2 < 0, tall, wide, of.places0 * tall, channels)


def _pays(
    form: PatchForm, features: int, channels: int, patches: tuple[int, int], places: int
) -> bool:
    """Whether patches, so many rows of so many, take fewer cycles than tiles that slide."""
    both = features * channels
    lanes = target().width // SIZES["float32"]
    tall, wide = patches
    # Lines are turned, and results made, by vectors along a row of patches, whose last one may be
    # short; columns of an image follow each other.
    short = -(-wide // lanes) * lanes / wide
    turned = tall * wide * (1 - OF_VECTORS + OF_VECTORS * short)
    turned *= lanes * (form.turning * channels + form.back * features)
    columns = -(-tall * wide // lanes) * lanes
    slid = places * both * form.taps**2 / 2
    return columns * both * form.numbers / 2 + turned <= GAIN * slid


def may_be_winograd(windows: Windows | None, dtype: str, m: int, k: int) -> bool:
    """Whether windows of some sizes, which may be symbols, may be taken as patches, by which sums
    have another order."""
    if (
        windows is None
        or windows.over_places
        or dtype != "float32"
        or target().width not in REGISTERS
    ):
        return False
    if len(windows.kernel) < 2 or any(step != 1 for step in windows.steps):
        return False
    taps, *others = windows.kernel[-2:]
    if taps not in FORMS or others != [taps] or windows.spread[-2:] not in ((1, 1), (-1, -1)):
        return False
    form, most = FORMS[taps], target().width  # a multiple of a vector's lanes
    if not has_sizes((m, k)) and not _pays(form, m, k // form.taps**2, (1, most), 4 * most):
        return False
    return is_wanted()


def rows_of(m: int) -> int:
    """Features of a tile, into which some divide evenly."""
    return tile_for("packed", m, WIDEST, WIDEST).rows


def winograd_choice(problem: Problem, lying: Winograd, workers: int) -> Choice:
    """Units of work; how they are cut decides no bit."""
    of_column = lying.form.numbers * lying.channels * SIZES[problem.a_dtype]
    most = min(COLUMNS, MOST_BYTES // of_column)
    bands = -(-lying.rows // max(1, most // lying.wide))
    row_blocks, matrices = 1, math.prod(problem.batch)
    if workers > 1:
        row_blocks, bands = _cut(lying, problem.m, bands, matrices, workers)
    return Choice(
        Tile("packed", rows_of(problem.m), WIDEST), "before", WINOGRAD, row_blocks, bands, 1
    )


@functools.lru_cache(maxsize=1024)
def _cut(
    lying: Winograd, features: int, fewest: int, matrices: int, workers: int
) -> tuple[int, int]:
    """Blocks of features and bands of rows of patches with which all workers are done soonest.

    Narrow bands leave vectors unfilled and read all taps again, blocks of features turn all patches
    again.

    Args:
        fewest: bands, for patches to stay near.
    """
    panels = -(-features // rows_of(features))

    def cycles(cut: tuple[int, int]) -> float:
        row_blocks, bands = cut
        each = -(-matrices * row_blocks * bands // workers)
        rows, more = divmod(lying.rows, bands)
        short = _unit(lying, features, row_blocks, rows) if more < bands else 0.0
        tall = _unit(lying, features, row_blocks, rows + 1) if more else 0.0
        return (each + LATE) * (short * (bands - more) + tall * more) / bands

    counts = [n << k for k in range(workers.bit_length() + 1) for n in (2, 3)]
    times = [1, *[n for n in counts if n <= 2 * workers]]
    counted = [fewest * more for more in times]
    counted += [-(-bands // workers) * workers for bands in counted]  # as many for each worker
    cuts = [
        (row_blocks, min(bands, lying.rows))
        for bands in counted for row_blocks in times if row_blocks <= panels
    ]  # fmt: skip
    return min(cuts, key=cycles)


def _unit(lying: Winograd, features: int, row_blocks: int, rows: int) -> float:
    """Cycles of a unit of work that has so many rows of patches."""
    form, high = lying.form, rows_of(features)
    lanes = target().width // SIZES["float32"]
    panels = -(-features // high // row_blocks)
    wholes, rest = divmod(-(-rows * lying.wide // lanes), WIDEST)
    step = wholes * cycles_of(high, WIDEST) + (cycles_of(high, rest) if rest else 0)
    step += high * SIZES["float32"] / NEAR
    step += CALL * (wholes + (rest > 0)) / lying.channels
    turned = form.turning * lying.channels + form.back * panels * high
    # What begins within a vector is stored into two cache lines.
    vectors = rows * -(-lying.wide // lanes) * (2 if lying.wide % lanes else 1)
    return form.numbers * lying.channels * panels * step + vectors * lanes * turned
