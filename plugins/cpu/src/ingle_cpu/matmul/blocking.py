"""The choice of how a product is computed: which tile, what is packed, how the work is cut."""

from __future__ import annotations

import math

from ingle.fusion.device.kernels import SIZES

from .amx import ROWS as STEP
from .dot import COLUMNS
from .machine import target
from .microkernel import lanes_of, most_vectors
from .problem import DEPTH, Choice, Problem, Variation
from .streamed import MOST_STREAMED, streamed_columns
from .tile import LINES, Tile, compute_dtype
from .tile_fit import (
    FEW,
    NEAR_BYTES,
    TURNED,
    fitting_tile,
    is_readable,
    local_blocks,
    near_panels,
    tile_for,
)
from .window_blocking import padded, with_windows

DEPTH_BLOCK = 512
"""How many products are summed in registers before they are added to the tile."""
TILES_NEAR_BYTES = 512 << 10
"""What stays near, as `NEAR_BYTES`, for registers of tiles, whose processors have more of it."""
ROWS_BYTES = 320 << 10
"""Rows of a that stay there while columns of b go by."""
SMALL_BYTES = 48 << 10
"""Operands that fit the first-level cache are read where they lie."""
FEW_DOTS = 24
"""As `FEW`, where b lies along k, and packing would have to transpose it."""
AGAIN_BYTES = 2 << 20
"""A matrix a of up to so many bytes may be read again for each block of columns: it stays near.
Half of that if its rows are packed first, which takes it through that cache once more."""
TALL = 2
"""How many times as many rows of a as columns of b make it the larger operand."""
FEW_PANELS = 4
"""Up to so many, rows that lie apart are read for each of them in less time than they are packed,
where registers of tiles multiply."""
SHALLOW = 256
"""Below such a k, columns are not divided among workers: the epilogue runs along rows."""
EVEN = 0.93
"""How much of the workers' time a division among them should use."""
UNITS = 8
"""Units of work for each worker: as many as the thread pool has chunks."""
FEWEST_TILES = 2
"""Tiles of rows that are worth a unit of work."""
FEW_STREAMED = 2
"""Rows of a product of small operands whose sums may wait in memory."""
ROW_BYTES = 1 << 10
"""Of a row of b, what a worker reads at once at least where it streams by: some cache lines."""


def choose(problem: Problem, workers: int, variation: Variation | None = None) -> Choice:
    """How to compute a problem: a guess, or the guess with something changed."""
    dtype = compute_dtype(problem.a_dtype)
    lanes = lanes_of(dtype, target())
    if problem.windows is not None:
        return with_windows(problem, dtype, lanes, workers)
    made = variation or first_guess(problem, workers)
    kind, pack_a, pack_b = _special(problem, dtype, lanes), "", ""
    if kind == "dot":
        ready = [s == 1 or problem.k <= 1 for s in _along_k(problem)]
        pack_a, pack_b = ("" if is_ready else "before" for is_ready in ready)
    elif kind == "streamed":
        made = made._replace(vectors=_streamed_vectors(problem, dtype, lanes, workers))
    elif not kind:
        pack_b = made.pack_b
        pack_a = made.pack_a or ("" if is_readable(problem, dtype) else "before")
        kind = problem.packed_kind if pack_a else "direct"
    tile = tile_for(kind, max(problem.m, 1), -(-max(problem.n, 1) // lanes), made.vectors)
    tiles = -(-max(problem.m, 1) // tile.rows)
    panels = -(-max(problem.n, 1) // (tile.vectors * lanes))
    if tile.in_tiles and panels <= FEW_PANELS and _in_lines(problem, tile):
        tile, pack_a = tile._replace(kind=LINES + kind), ""
    deep = max(1, min(problem.k // tile.numbers, DEPTH)) * SIZES[dtype]
    kept = TILES_NEAR_BYTES if tile.in_tiles else NEAR_BYTES
    near = near_panels(int(kept * made.scale) // (deep * tile.vectors * lanes), panels)
    if pack_b == "local":
        # With few tiles, a panel is used while it is in the first-level cache.
        near = near if tiles > FEW else 1
        return Choice(tile, pack_a, pack_b, 1, local_blocks(panels, problem, workers), near)
    fits = tiles
    if near < panels or pack_a == "local":
        fits = max(1, int(ROWS_BYTES * made.scale) // (deep * tile.rows))
    return Choice(tile, pack_a, pack_b, *_blocks(problem, tiles, panels, fits, workers), near)


def _in_lines(problem: Problem, tile: Tile) -> bool:
    """Whether registers of tiles can read rows of a where they lie: full ones, of whole lines."""
    fills = problem.m % tile.rows == 0 and problem.k % (STEP * tile.numbers) == 0
    return problem.a_strides[-1] == 1 and fills


def first_guess(problem: Problem, workers: int) -> Variation:
    """What is chosen without a measurement."""
    dtype = compute_dtype(problem.a_dtype)
    lanes, readable = lanes_of(dtype, target()), is_readable(problem, dtype)
    vectors = _fitting_vectors(problem, readable, lanes)
    panels = max(problem.n, 1) / (vectors * lanes)
    tile = Tile(problem.packed_kind, 1, 1)
    most = AGAIN_BYTES // 2 if _is_turned(problem, readable) else AGAIN_BYTES
    again = problem.m * problem.k // tile.numbers * SIZES[dtype] <= most
    # Registers of tiles multiply so fast that the packing counts: the larger operand is packed by
    # the units that read it, in their caches.
    again = again and not (tile.in_tiles and problem.m >= TALL * problem.n)
    divided = local_blocks(math.ceil(panels), problem, workers) > 1
    if again and (problem.k >= SHALLOW or not divided) and _is_even(panels, problem, workers):
        return Variation(vectors, "" if readable else "before", "local", 1.0)
    return Variation(vectors, "" if readable else "local", "before", 1.0)


def variations(problem: Problem, workers: int) -> list[tuple[Variation, ...]]:
    """What to try: of each group the best is kept, and the next group changes that."""
    dtype = compute_dtype(problem.a_dtype)
    if _special(problem, dtype, lanes_of(dtype, target())):
        return []
    guess = first_guess(problem, workers)
    most = guess.vectors
    narrower = tuple(guess._replace(vectors=v) for v in range(most - 1, most // 2 - 1, -1) if v)
    other = {"local": "before", "before": "local"}[guess.pack_b]
    packed = [guess._replace(pack_b=other)]
    ways = {"local": ("", "before"), "before": ("", "local")}[guess.pack_b]
    packed += [guess._replace(pack_a=way) for way in ways if way != guess.pack_a]
    scaled = tuple(guess._replace(scale=s) for s in (0.5, 2.0))
    return [narrower, tuple(packed), scaled]


def _special(problem: Problem, dtype: str, lanes: int) -> str:
    """The kind of tile if b is read where it lies, or operands lie along k, or nothing."""
    if _is_dot(problem, dtype):
        return "dot"
    if not is_readable(problem, dtype):
        return ""
    if problem.b_strides[-1] != 1:
        return ""
    whole = problem.n % lanes == 0
    small = problem.k * (problem.n + problem.m) * SIZES[dtype] <= SMALL_BYTES
    # Of what is near, loads and stores of sums take longer than b does.
    near = small and whole and problem.m > FEW_STREAMED
    if problem.m <= MOST_STREAMED and not near:
        return "streamed"
    return "direct" if whole and (small or problem.m <= FEW) else ""


def sums_alike(one: Problem, other: Problem) -> bool:
    """Whether two products along the same k, of rows in any number, give the same bits."""
    kinds = ["dot" if _is_dot(p, compute_dtype(p.a_dtype)) else p.packed_kind for p in (one, other)]
    return kinds[0] == kinds[1]


def _is_dot(problem: Problem, dtype: str) -> bool:
    """Whether sums are taken lane by lane, as both operands lie along k.

    It decides the bits, and the same product has them wherever its operands come from: what a plan
    reads backwards, in steps or repeated is a copy if it was computed before. Such a copy keeps the
    order of the axes, so that is all that counts. A vector lies along k anyway.
    """
    if not problem.a_dtype == problem.b_dtype == dtype:
        return False
    m, n, k = problem.m, problem.n, problem.k
    a_in_rows = m == 1 or not _is_transposed(problem.a_strides, k)
    b_in_columns = n == 1 or _is_transposed(problem.b_strides, n)
    return a_in_rows and b_in_columns and min(m, n) <= FEW_DOTS


def _is_transposed(strides: tuple[int, ...], columns: int) -> bool:
    """Whether a matrix of several rows lies in memory column by column."""
    return columns > 1 and abs(strides[-2]) < abs(strides[-1])


def _along_k(problem: Problem) -> tuple[int, int]:
    """The strides of both operands along what is summed over."""
    return problem.a_strides[-1], problem.b_strides[-2]


def _streamed_vectors(problem: Problem, dtype: str, lanes: int, workers: int) -> int:
    """Vectors of a tile that goes along rows of b, such that each worker has a part of them.

    A power of two, so that it is the same for many sizes.
    """
    most = streamed_columns(dtype) // lanes
    wanted, vectors = -(-max(problem.n, 1) // lanes), 1
    if workers > 1:
        wanted = max(-(-wanted // (2 * workers)), ROW_BYTES // SIZES[dtype] // lanes)
    while vectors < most and vectors < wanted:
        vectors *= 2
    return vectors


def _fitting_vectors(problem: Problem, readable: bool, lanes: int) -> int:
    """Vectors of a tile for a product of matrices, of which few rows should be computed in vain."""
    kind = "direct" if readable else problem.packed_kind
    vectors, packing = -(-max(problem.n, 1) // lanes), TURNED * _is_turned(problem, readable)
    tile, _ = fitting_tile(kind, max(problem.m, 1), vectors, packing)
    return max(tile.vectors, most_vectors(target()) // 2)


def _is_turned(problem: Problem, readable: bool) -> bool:
    """Whether rows of a lie along its columns, so that they have to be packed."""
    return not readable and _is_transposed(problem.a_strides, problem.k)


def _blocks(problem: Problem, tiles: int, panels: int, fits: int, workers: int) -> tuple[int, int]:
    """Into how many units rows and columns are divided, if so many tiles of rows fit in one."""
    wanted = UNITS * workers if workers > 1 else 1
    wanted = -(-wanted // max(math.prod(problem.batch), 1))
    rows = -(-tiles // fits)
    if rows < wanted:
        rows = max(rows, min(wanted, -(-tiles // FEWEST_TILES)))
        columns = min(panels, -(-wanted // rows))
        return max(rows, -(-wanted // columns)), columns
    # As many for each worker.
    return -(-rows // wanted) * wanted, 1


def _is_even(panels: float, problem: Problem, workers: int) -> bool:
    """Whether blocks of columns can be divided among workers so that none waits for long."""
    blocks = local_blocks(math.ceil(panels), problem, workers)
    # The last block is smaller where the last panel is.
    count = max(math.prod(problem.batch), 1) * (blocks - math.ceil(panels) + panels)
    rounds, rest = divmod(count, workers)
    return count / workers >= EVEN * (rounds + min(rest, 1))


def depths(problem: Problem, choice: Choice) -> tuple[int, int]:
    """How much of k is taken at once, and summed at once, in elements of panels."""
    if choice.tile.kind == "dot":
        return max(problem.k, 1), max(problem.k, 1)
    if choice.slides:  # There are no panels to keep near.
        return max(problem.k, 1), DEPTH_BLOCK
    if choice.tile.in_tiles:  # Its registers take long to get ready.
        return DEPTH, DEPTH
    return DEPTH, DEPTH_BLOCK // 2 if choice.tile.kind == "pairs" else DEPTH_BLOCK


def widths(problem: Problem, choice: Choice) -> tuple[int, int, int]:
    """Columns of a panel and of the last one in a row, and how many panels there are.

    Tiles that slide begin anew with each row of places; of stacked rows each has a vector. Those
    that are streamed are told how many columns they have.
    """
    lanes = lanes_of(compute_dtype(problem.a_dtype), target())
    step = max(lanes, COLUMNS) if choice.tile.kind == "dot" else lanes
    width = -(-choice.tile.vectors * lanes // step) * step
    image = padded(problem, choice)
    columns = problem.n if image is None else image.columns
    panels = -(-columns // width)
    last = columns - (panels - 1) * width if panels else 0
    if choice.tile.kind in ("stacked", "streamed"):
        last = width
    last = -(-last // step) * step or width
    return width, last, panels if image is None else image.panels(width)
