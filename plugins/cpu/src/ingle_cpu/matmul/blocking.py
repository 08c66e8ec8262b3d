"""The choice of how a product is computed: which tile, what is packed, how the work is cut."""

from __future__ import annotations

import functools
import math

from ingle.fusion.device import has_sizes
from ingle.fusion.device.kernels import SIZES

from .amx import tile_cycles
from .beside import LATENCY, Beside, beside_choice, beside_of
from .dot import COLUMNS
from .machine import second_level_bytes, target
from .microkernel import lanes_of, most_rows, most_vectors
from .padded import IMAGE_SHARE, MOST_BYTES, Padded, padded_of
from .problem import DEPTH, Choice, Problem, Variation
from .streamed import MOST_STREAMED, streamed_columns
from .tile import TILES, Tile, compute_dtype

DEPTH_BLOCK = 512
"""How many products are summed in registers before they are added to the tile."""
NEAR_BYTES = 256 << 10
"""Columns of b that stay in the second-level cache while rows of a go by."""
TILES_NEAR_BYTES = 512 << 10
"""The same for registers of tiles, whose processors have more of it."""
ALL_NEAR = 2
"""Columns may take so many times as much if they all fit: then tiles fetch something else."""
ROWS_BYTES = 320 << 10
"""Rows of a that stay there while columns of b go by."""
SMALL_BYTES = 48 << 10
"""Operands that fit the first-level cache are read where they lie."""
FEW = 8
"""Up to so many rows, packing b costs more than reading it several times; or tiles, where b is
packed for a few of them.
"""
FEW_DOTS = 24
"""The same where b lies along k, and packing would have to transpose it."""
AGAIN_BYTES = 2 << 20
"""A matrix a of up to so many bytes may be read again for each block of columns: it stays near.
Half of that if its rows are packed first, which takes it through that cache once more."""
SHALLOW = 256
"""Below such a k, columns are not divided among workers: the epilogue runs along rows."""
EVEN = 0.93
"""How much of the workers' time a division among them should use."""
UNITS = 8
"""Units of work for each worker: as many as the thread pool has chunks."""
FEWEST_TILES = 2
"""Tiles of rows that are worth a unit of work."""
FEWEST_OF_WINDOWS = 4
"""The same where each unit packs the windows that it needs."""
GROUP_BYTES = 8 << 10
"""Results of tiles that slide before the epilogue takes them: a part of the first-level cache."""
DOT_ROWS = 4
FEW_STREAMED = 2
"""Rows of a product of small operands whose sums may wait in memory."""
ROW_BYTES = 1 << 10
"""Of a row of b, what a worker reads at once at least where it streams by: some cache lines."""
MOST_STACKED = 4
"""Rows of places in a tile, one below the other, each of which takes an address."""
PACKING = 11
"""Cycles that a vector of a panel of windows takes to pack."""
TURNED = 15
"""Cycles that a step of k takes of a panel of rows which lie along columns: a cache line for each,
however few of its numbers the panel has."""
PIECE = 50
"""Cycles that it takes to bring a tile's part of a row of places to the result."""


def choose(problem: Problem, workers: int, variation: Variation | None = None) -> Choice:
    """How to compute a problem: a guess, or the guess with something changed."""
    dtype = compute_dtype(problem.a_dtype)
    lanes = lanes_of(dtype, target())
    if problem.windows is not None:
        return _with_windows(problem, dtype, lanes, workers)
    made = variation or first_guess(problem, workers)
    kind, pack_a, pack_b = _special(problem, dtype, lanes), "", ""
    if kind == "dot":
        ready = [s == 1 or problem.k <= 1 for s in _along_k(problem)]
        pack_a, pack_b = ("" if is_ready else "before" for is_ready in ready)
    elif kind == "streamed":
        made = made._replace(vectors=_streamed_vectors(problem, dtype, lanes, workers))
    elif not kind:
        pack_b = made.pack_b
        pack_a = made.pack_a or ("" if _readable(problem, dtype) else "before")
        kind = problem.packed_kind if pack_a else "direct"
    tile = _tile(kind, max(problem.m, 1), -(-max(problem.n, 1) // lanes), made.vectors)
    tiles = -(-max(problem.m, 1) // tile.rows)
    panels = -(-max(problem.n, 1) // (tile.vectors * lanes))
    deep = max(1, min(problem.k // tile.numbers, DEPTH)) * SIZES[dtype]
    kept = TILES_NEAR_BYTES if tile.in_tiles else NEAR_BYTES
    near = _near(int(kept * made.scale) // (deep * tile.vectors * lanes), panels)
    if pack_b == "local":
        # With few tiles, a panel is used while it is in the first-level cache.
        near = near if tiles > FEW else 1
        return Choice(tile, pack_a, pack_b, 1, _local_blocks(panels, problem, workers), near)
    fits = tiles
    if near < panels or pack_a == "local":
        fits = max(1, int(ROWS_BYTES * made.scale) // (deep * tile.rows))
    return Choice(tile, pack_a, pack_b, *_blocks(problem, tiles, panels, fits, workers), near)


def _with_windows(problem: Problem, dtype: str, lanes: int, workers: int) -> Choice:
    """Windows are packed, or slid along, by each unit of work; which takes fewer cycles."""
    lying = beside_of(problem)
    if lying is not None and _beside_pays(problem, lying, dtype, lanes):
        return beside_choice(problem, lying, workers)[0]
    packed, cycles = _packed_windows(problem, dtype, lanes, workers)
    ways = [(packed, cycles), *_slid_windows(problem, dtype, lanes, workers)]
    return min(ways, key=lambda way: way[1])[0]


def _beside_pays(problem: Problem, lying: Beside, dtype: str, lanes: int) -> bool:
    """Whether channels side by side take fewer cycles than panels do, of one worker: how many there
    are makes no difference, as the two sum in another order."""
    packed, cycles = _packed_windows(problem, dtype, lanes, 1)
    if packed.pack_a:
        cycles += TURNED * tiles_of(problem, packed)
    return beside_choice(problem, lying, 1)[1] < math.prod(problem.batch) * cycles


def _packed_windows(problem: Problem, dtype: str, lanes: int, workers: int) -> tuple[Choice, float]:
    """Units of work that pack windows, as many rows to each as can be; and cycles a step of k."""
    ready = _readable(problem, dtype) and problem.at_once == 1
    pack_a = "" if ready else "before" if problem.turns == 1 else "local"
    kind = "packed" if pack_a else "direct"
    m, vectors = max(problem.m, 1), -(-max(problem.n, 1) // lanes)
    tile, cycles = _fitting_tile(kind, m, vectors)
    tiles, panels = -(-m // tile.rows), -(-vectors // tile.vectors)
    deep = max(1, min(problem.k * problem.at_once, DEPTH)) * SIZES[dtype]
    near = _near(NEAR_BYTES // (deep * tile.vectors * lanes), panels) if tiles > FEW else 1
    columns = _local_blocks(panels, problem, workers)
    rows = _blocks_of_windows(problem, columns, tiles, workers)
    if pack_a == "local":
        a_panel = cycles / panels + PACKING * tile.vectors
        fewer = _blocks_that_pack(problem, panels, a_panel, TURNED * tiles, workers)
        columns, rows = (fewer, 1) if fewer <= columns else (columns, rows)
    choice = Choice(tile, pack_a, "local", rows, columns, near)
    return choice, cycles + PACKING * rows * vectors


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


def _slid_windows(
    problem: Problem, dtype: str, lanes: int, workers: int
) -> list[tuple[Choice, float]]:
    """Units that copy their part of the image between zeros; none where windows do not slide."""
    whole = _padded(problem)
    if whole is None or not problem.m:
        return []
    found = []
    for image in (whole, whole._replace(flat=True)):
        tile, cycles = min(_sliding_tiles(problem.m, image, lanes), key=lambda one: one[1])
        choice = _slid(problem, image, tile, workers)
        if choice is not None:
            found.append((choice, cycles + _copying(problem, image, choice)))
    return found


def _sliding_tiles(m: int, image: Padded, lanes: int) -> list[tuple[Tile, float]]:
    """Tiles that may slide along an image, and the cycles that all of them take a step of k."""
    tile, cycles = _fitting_tile("sliding", m, -(-image.columns // lanes))
    if image.flat:
        return [(tile, cycles)]
    found = [(tile, cycles * image.rows)]
    if image.across <= lanes:
        for rows in range(2, MOST_STACKED + 1):
            if _stacks(image, rows, lanes):
                tile = _tile("stacked", m, rows, rows)
                each = -(-m // tile.rows) * _cycles(tile.rows, rows)
                found.append((tile, each * (image.rows // rows)))
    return found


def _stacks(image: Padded, rows: int, lanes: int) -> bool:
    """Whether so many rows of places may count as one, with a vector for each."""
    return image.across <= lanes and image.rows % rows == 0


def slides_alike(problem: Problem, choice: Choice) -> bool:
    """Whether tiles that slide along an image slide along that of another problem as well."""
    image = _padded(problem) if choice.slides else None
    if image is None:
        return not choice.slides
    lanes = lanes_of(compute_dtype(problem.a_dtype), target())
    return choice.tile.kind != "stacked" or _stacks(image, choice.tile.vectors, lanes)


def _slid(problem: Problem, image: Padded, tile: Tile, workers: int) -> Choice | None:
    """Units for a tile that slides; None where the smallest copies too much."""
    dtype = compute_dtype(problem.b_dtype)
    padded, size = _stacked(image, tile), SIZES[dtype]
    width = tile.vectors * lanes_of(dtype, target())
    tiles, panels = -(-problem.m // tile.rows), padded.panels(width)
    columns, most = _local_blocks(panels, problem, workers), IMAGE_SHARE * second_level_bytes()
    while columns < panels and padded.nbytes(-(-panels // columns), width, size) > most:
        columns += 1
    each = -(-panels // columns)
    if padded.nbytes(each, width, size) > MOST_BYTES:
        return None
    rows = _blocks_of_windows(problem, columns, tiles, workers)
    # At least a row of places: what goes through the epilogue is as long as can be.
    near = max(1, min(each, GROUP_BYTES // (tile.rows * width * size)))
    pack_a = "" if _readable(problem, dtype) else "before"
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
    return (PACKING * copied + PIECE * pieces) / problem.k


def _stacked(image: Padded, tile: Tile) -> Padded:
    """The image as a tile takes its rows of places."""
    return image.stack(tile.vectors) if tile.kind == "stacked" else image


def _blocks_of_windows(problem: Problem, columns: int, tiles: int, workers: int) -> int:
    """Blocks of rows: as few as give each worker something, since each has its windows made."""
    units = columns * max(math.prod(problem.batch), 1)
    wanted = 2 * workers if workers > 1 else 1
    return 1 if units >= wanted else min(-(-wanted // units), max(1, tiles // FEWEST_OF_WINDOWS))


def _padded(problem: Problem) -> Padded | None:
    """How the image of a problem lies between zeros, if it may."""
    if problem.windows is None or problem.a_dtype != problem.b_dtype:
        return None
    of = padded_of if has_sizes(problem.windows) else _known_padded  # symbols would meet numbers
    return of(problem.windows, problem.k, problem.b_dtype)


_known_padded = functools.lru_cache(maxsize=1024)(padded_of)


def padded(problem: Problem, choice: Choice) -> Padded | None:
    """How the image that tiles read lies between zeros; None if they read something else."""
    image = _padded(problem) if choice.slides else None
    if image is None:
        return None
    return _stacked(image._replace(flat=choice.pack_b == "flat"), choice.tile)


def first_guess(problem: Problem, workers: int) -> Variation:
    """What is chosen without a measurement."""
    dtype = compute_dtype(problem.a_dtype)
    lanes, readable = lanes_of(dtype, target()), _readable(problem, dtype)
    vectors = _fitting_vectors(problem, readable, lanes)
    panels = max(problem.n, 1) / (vectors * lanes)
    numbers = Tile(problem.packed_kind, 1, 1).numbers
    most = AGAIN_BYTES // 2 if _is_turned(problem, readable) else AGAIN_BYTES
    again = problem.m * problem.k // numbers * SIZES[dtype] <= most
    divided = _local_blocks(math.ceil(panels), problem, workers) > 1
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
    if not _readable(problem, dtype):
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


def _readable(problem: Problem, dtype: str) -> bool:
    """Whether tiles can read rows of a where they lie."""
    return problem.a_dtype == problem.b_dtype == dtype and problem.a_strides[-1] == 1


def _tile(kind: str, m: int, needed: int, widest: int) -> Tile:
    """The largest tile of a kind that the rows divide into evenly."""
    if kind == "streamed":
        return Tile(kind, m, widest)
    vectors = min(widest, needed)
    if kind == "dot":
        return Tile(kind, min(m, DOT_ROWS), vectors)
    most = most_rows(target(), vectors, kind)
    return Tile(kind, -(-m // -(-m // most)), vectors)


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
    tile, _ = _fitting_tile(kind, max(problem.m, 1), vectors, packing)
    return max(tile.vectors, most_vectors(target()) // 2)


def _is_turned(problem: Problem, readable: bool) -> bool:
    """Whether rows of a lie along its columns, so that they have to be packed."""
    return not readable and _is_transposed(problem.a_strides, problem.k)


def _fitting_tile(kind: str, m: int, vectors: int, packing: int = 0) -> tuple[Tile, float]:
    """The tile that takes the fewest cycles a step of k, if there are so many rows and vectors, and
    those of each tile of rows take some to pack."""
    # With few registers, wider tiles are less high: rows may divide into these without a rest.
    widest = most_vectors(target()) + (target().registers < 32)

    def cycles(tile: Tile) -> float:
        whole, rest = divmod(vectors, tile.vectors)
        each = tile_cycles if tile.in_tiles else _cycles
        row = whole * each(tile.rows, tile.vectors) + (each(tile.rows, rest) if rest else 0)
        return -(-m // tile.rows) * (row + packing)

    # Registers of tiles are best used as squares; and few rows are packed for many vectors. But a
    # number of a that is read for one multiplication takes longer than this one.
    fewest = max(2, widest // 2) if packing or kind in TILES.values() else widest // 2 + 1
    tiles = [_tile(kind, m, vectors, wide) for wide in range(widest, fewest - 1, -1)]
    best = min(tiles, key=cycles)
    return best, cycles(best)


def _cycles(rows: int, vectors: int) -> float:
    """Of a step of k in a tile: two multiplications, or two loads, each."""
    return max(rows * vectors / 2, (rows + vectors) / 2, LATENCY)


def _near(fits: int, panels: int) -> int:
    """How many panels stay near, if so many fit where there is more to keep."""
    return panels if panels <= ALL_NEAR * max(fits, 1) else max(fits, 1)


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


def _local_blocks(panels: int, problem: Problem, workers: int) -> int:
    """Blocks of columns, such that there are several for each worker."""
    if workers == 1:
        return 1
    return min(panels, -(-4 * workers // max(math.prod(problem.batch), 1)))


def _is_even(panels: float, problem: Problem, workers: int) -> bool:
    """Whether blocks of columns can be divided among workers so that none waits for long."""
    blocks = _local_blocks(math.ceil(panels), problem, workers)
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


def tiles_of(problem: Problem, choice: Choice) -> int:
    """How many tiles lie above each other."""
    return -(-problem.m // choice.tile.rows)


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
