"""The choice of how a product with windows is computed: these are packed, slid along, or read as
they lie."""

from __future__ import annotations

import functools
import math

from ingle.fusion.device import has_sizes
from ingle.fusion.device.kernels import SIZES

from .beside import Beside, beside_choice, beside_of
from .machine import second_level_bytes, target
from .microkernel import lanes_of
from .padded import IMAGE_SHARE, MOST_BYTES, Padded, padded_of
from .problem import DEPTH, Choice, Problem
from .tile import Tile, compute_dtype
from .tile_fit import (
    FEW,
    NEAR_BYTES,
    TURNED,
    cycles_of,
    fitting_tile,
    is_readable,
    local_blocks,
    near_panels,
    tile_for,
    tiles_of,
)
from .winograd import winograd_choice, winograd_of

FEWEST_OF_WINDOWS = 4
"""Tiles of rows that are worth a unit of work where each unit packs the windows that it needs."""
GROUP_BYTES = 8 << 10
"""Results of tiles that slide before the epilogue takes them: a part of the first-level cache."""
MOST_STACKED = 4
"""Rows of places in a tile, one below the other, each of which takes an address."""
COPYING = 11
"""Cycles that a vector of an image takes to copy between zeros."""
PACKING = {64: 4}
"""Cycles that a vector of a panel of windows takes to pack, by the bytes of a register; else as
many."""
TAPS_PACKING = {64: 5.5}
"""The same where its columns are taps, of which a row of places fills whole vectors."""
PAIRS = {64: 1.1}
"""By what cycles of tiles that slide with two vectors exceed those of their multiplications, by the
bytes of a register; else by nothing. There, a vector that slides always lies in two cache lines."""
PIECE = 50
"""Cycles that it takes to bring a tile's part of a row of places to the result."""


def with_windows(problem: Problem, dtype: str, lanes: int, workers: int) -> Choice:
    """Windows are packed, or slid along, by each unit of work; which takes fewer cycles."""
    patches = winograd_of(problem)
    if patches is not None:
        return winograd_choice(problem, patches, workers)
    lying = beside_of(problem)
    if lying is not None and _beside_pays(problem, lying, dtype, lanes):
        return beside_choice(problem, lying, workers)[0]
    packed, cycles = packed_windows(problem, dtype, lanes, workers)
    ways = [(packed, cycles), *slid_windows(problem, dtype, lanes, workers)]
    return min(ways, key=lambda way: way[1])[0]


def _beside_pays(problem: Problem, lying: Beside, dtype: str, lanes: int) -> bool:
    """Whether channels side by side take fewer cycles than panels do, of one worker: how many there
    are makes no difference, as the two sum in another order."""
    packed, cycles = packed_windows(problem, dtype, lanes, 1)
    if packed.pack_a:
        cycles += TURNED * tiles_of(problem, packed)
    return beside_choice(problem, lying, 1)[1] < math.prod(problem.batch) * cycles


def packed_windows(problem: Problem, dtype: str, lanes: int, workers: int) -> tuple[Choice, float]:
    """Units of work that pack windows, as many rows to each as can be; and cycles a step of k."""
    ready = is_readable(problem, dtype) and problem.at_once == 1
    pack_a = "" if ready else "before" if problem.turns == 1 else "local"
    kind = "packed" if pack_a else "direct"
    m, vectors = max(problem.m, 1), -(-max(problem.n, 1) // lanes)
    tile, cycles = fitting_tile(kind, m, vectors)
    tiles, panels = -(-m // tile.rows), -(-vectors // tile.vectors)
    deep = max(1, min(problem.k * problem.at_once, DEPTH)) * SIZES[dtype]
    near = near_panels(NEAR_BYTES // (deep * tile.vectors * lanes), panels) if tiles > FEW else 1
    columns = local_blocks(panels, problem, workers)
    rows = _blocks_of_windows(problem, columns, tiles, workers)
    if pack_a == "local":
        a_panel = cycles / panels + _packing(problem, lanes) * tile.vectors
        fewer = _blocks_that_pack(problem, panels, a_panel, TURNED * tiles, workers)
        columns, rows = (fewer, 1) if fewer <= columns else (columns, rows)
    choice = Choice(tile, pack_a, "local", rows, columns, near)
    return choice, cycles + _packing(problem, lanes) * rows * vectors


def _packing(problem: Problem, lanes: int) -> float:
    """Cycles that a vector of a panel of windows takes to pack."""
    windows = problem.windows
    assert windows is not None, "panels of windows are asked for"
    if not windows.over_places:
        return PACKING.get(target().width, COPYING)
    if target().width not in TAPS_PACKING or has_sizes(windows):
        return COPYING
    across = windows.places[-1]
    return TAPS_PACKING[target().width] * -(-across // lanes) * lanes / max(across, 1)


def _blocks_that_pack(
    problem: Problem, panels: int, a_panel: float, packing: float, workers: int
) -> int:
    """Blocks of columns of which each packs all rows anew: so many that all workers are done with
    theirs as soon as can be.

    Args:
        a_panel, packing: cycles that a panel takes a step of k, and those that the rows take.
    """
    matrices = max(math.prod(problem.batch), 1)

    def cycles(blocks: int) -> float:
        of_each = -(-matrices * blocks // workers)
        return of_each * (-(-panels // blocks) * a_panel + packing)

    return min(range(panels, 0, -1), key=cycles)


def slid_windows(
    problem: Problem, dtype: str, lanes: int, workers: int
) -> list[tuple[Choice, float]]:
    """Units that copy their part of the image between zeros; none where windows do not slide."""
    whole = image_of(problem)
    if whole is None or not problem.m:
        return []
    found = []
    for image in (whole, whole._replace(flat=True)):
        tile, cycles = min(sliding_tiles(problem.m, image, lanes), key=lambda one: one[1])
        choice = slid(problem, image, tile, workers)
        if choice is not None:
            found.append((choice, cycles + _copying(problem, image, choice)))
    return found


def sliding_tiles(m: int, image: Padded, lanes: int) -> list[tuple[Tile, float]]:
    """Tiles that may slide along an image, and the cycles that all of them take a step of k."""
    tile, cycles = fitting_tile("sliding", m, -(-image.columns // lanes))
    if image.flat:
        return [(tile, cycles)]
    pairs = PAIRS.get(target().width, 1.0)
    found = [(tile, cycles * image.rows * (pairs if tile.vectors == 2 else 1.0))]
    for rows in range(2, MOST_STACKED + 1):
        if _stacks(image, rows, lanes):
            tile = tile_for("stacked", m, rows, rows)
            each = -(-m // tile.rows) * cycles_of(tile.rows, rows)
            each *= pairs if rows == 2 else 1.0
            found.append((tile, each * (image.rows // rows)))
    return found


def _stacks(image: Padded, rows: int, lanes: int) -> bool:
    """Whether so many rows of places may count as one, with a vector for each."""
    return image.across <= lanes and image.rows % rows == 0


def slides_alike(problem: Problem, choice: Choice) -> bool:
    """Whether tiles that slide along an image slide along that of another problem as well."""
    image = image_of(problem) if choice.slides else None
    if image is None:
        return not choice.slides
    lanes = lanes_of(compute_dtype(problem.a_dtype), target())
    return choice.tile.kind != "stacked" or _stacks(image, choice.tile.vectors, lanes)


def slid(problem: Problem, image: Padded, tile: Tile, workers: int) -> Choice | None:
    """Units for a tile that slides; None where the smallest copies too much."""
    dtype = compute_dtype(problem.b_dtype)
    padded, size = _stacked(image, tile), SIZES[dtype]
    width = tile.vectors * lanes_of(dtype, target())
    tiles, panels = -(-problem.m // tile.rows), padded.panels(width)
    columns, most = local_blocks(panels, problem, workers), IMAGE_SHARE * second_level_bytes()
    while columns < panels and padded.nbytes(-(-panels // columns), width, size) > most:
        columns += 1
    each = -(-panels // columns)
    if padded.nbytes(each, width, size) > MOST_BYTES:
        return None
    rows = _blocks_of_windows(problem, columns, tiles, workers)
    # At least a row of places: what goes through the epilogue is as long as can be.
    near = max(1, min(each, GROUP_BYTES // (tile.rows * width * size)))
    pack_a = "" if is_readable(problem, dtype) else "before"
    return Choice(tile, pack_a, "flat" if image.flat else "padded", rows, columns, near)


def _copying(problem: Problem, image: Padded, choice: Choice) -> float:
    """Cycles a step of k in which all units copy their parts of the image, and results of it."""
    dtype = compute_dtype(problem.b_dtype)
    padded, lanes = _stacked(image, choice.tile), lanes_of(dtype, target())
    width, size = choice.tile.vectors * lanes, SIZES[dtype]
    each = -(-padded.panels(width) // choice.panel_blocks)
    units = choice.row_blocks * choice.panel_blocks
    copied = units * padded.channels * padded.channel(each, width, size) / size / lanes
    pieces = tiles_of(problem, choice) * padded.rows if padded.flat else 0
    return (COPYING * copied + PIECE * pieces) / problem.k


def _stacked(image: Padded, tile: Tile) -> Padded:
    """The image as a tile takes its rows of places."""
    return image.stack(tile.vectors) if tile.kind == "stacked" else image


def _blocks_of_windows(problem: Problem, columns: int, tiles: int, workers: int) -> int:
    """Blocks of rows: as few as give each worker something, since each has its windows made."""
    units = columns * max(math.prod(problem.batch), 1)
    wanted = 2 * workers if workers > 1 else 1
    return 1 if units >= wanted else min(-(-wanted // units), max(1, tiles // FEWEST_OF_WINDOWS))


def image_of(problem: Problem) -> Padded | None:
    """How the image of a problem lies between zeros, if it may."""
    if problem.windows is None or problem.a_dtype != problem.b_dtype:
        return None
    of = padded_of if has_sizes(problem.windows) else _known_padded  # symbols would meet numbers
    return of(problem.windows, problem.k, problem.b_dtype)


_known_padded = functools.lru_cache(maxsize=1024)(padded_of)


def padded(problem: Problem, choice: Choice) -> Padded | None:
    """How the image that tiles read lies between zeros; None if they read something else."""
    image = image_of(problem) if choice.slides else None
    if image is None:
        return None
    return _stacked(image._replace(flat=choice.pack_b == "flat"), choice.tile)
