"""What is multiplied, and the choice of how: which tile, what is packed, how the work is cut."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from ingle.fusion.kernel.code import SIZES
from ingle.fusion.render.targets import Target, target_of

from .contraction_dot import COLUMNS
from .contraction_micro import Tile, lanes_of, most_rows, most_vectors
from .contraction_pack import compute_dtype
from .engine import engine

DEPTH_BLOCK = 512
"""How many products are summed in registers before they are added to the tile."""
DEPTH = 2048
"""How much of k is packed at once."""
PACKED_BYTES = 256 << 10
"""Packed rows of a that a unit holds; they share a second-level cache with a panel of b."""
SMALL_BYTES = 48 << 10
"""Operands that fit the first-level cache are read where they lie."""
FEW = 8
"""Up to so many rows, packing b costs more than reading it several times."""
FEW_DOTS = 24
"""The same where b lies along k, and packing would have to transpose it."""
NARROW = 64
"""Up to so many columns, packing a costs more than reading it where it lies."""
FLAT = 256
"""Up to so many rows, each unit packs its own columns of b, and they never leave its cache."""
DOT_ROWS = 4
DIRECT_ROWS = 8


class Problem(NamedTuple):
    """The operands of a contraction.

    Attributes:
        a_dtype, b_dtype: float32, float64, float16 or bfloat16; both are computed in one dtype.
        batch: sizes of the batch axes, at most three.
        m, n, k: rows of a, columns of b, and what is summed over.
        a_strides: in elements along the batch axes, i and k; 0 repeats.
        b_strides: along the batch axes, k and j.
    """

    a_dtype: str
    b_dtype: str
    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    a_strides: tuple[int, ...]
    b_strides: tuple[int, ...]


class Choice(NamedTuple):
    """How a problem is computed.

    Attributes:
        tile: the shape in registers and how it reads.
        pack_a: `"before"` all in an entry of its own, `"local"` for each unit of work, or `""`.
        pack_b: the same for panels of columns of b. Packed tiles need both.
        block_rows, block_panels: rows and panels of columns in a unit of work.
    """

    tile: Tile
    pack_a: str
    pack_b: str
    block_rows: int
    block_panels: int


@functools.cache
def target() -> Target:
    """The family of this machine's processor."""
    machine = engine().machine
    return target_of(machine.present, machine.triple.split("-")[0])


class Variation(NamedTuple):
    """What a measurement may change about the first guess; all give the same bits.

    Attributes:
        vectors: of a packed tile, along columns.
        pack_a, pack_b: as in `Choice`.
        scale: how many more or fewer rows a unit of work packs.
    """

    vectors: int
    pack_a: str
    pack_b: str
    scale: float


def choose(problem: Problem, workers: int, variation: Variation | None = None) -> Choice:
    """How to compute a problem: a guess, or the guess with something changed."""
    dtype = compute_dtype(problem.a_dtype)
    lanes = lanes_of(dtype, target())
    kind, packs_b = _kind(problem, dtype, lanes)
    made = variation or first_guess(problem)
    tile = _tile(kind, max(problem.m, 1), -(-max(problem.n, 1) // lanes), made.vectors)
    if kind == "packed":
        pack_a, pack_b = made.pack_a, made.pack_b
    else:
        pack_a, pack_b = "", "before" if packs_b else ""
    panels = -(-max(problem.n, 1) // (tile.vectors * lanes))
    held = int(PACKED_BYTES * made.scale) // SIZES[dtype]
    rows, columns = _blocks(problem, tile, pack_a, panels, held, workers)
    return Choice(tile, pack_a, pack_b, rows, columns)


def first_guess(problem: Problem) -> Variation:
    """What is chosen without a measurement."""
    vectors = most_vectors(target())
    if problem.m <= FLAT:
        return Variation(vectors, "before", "local", 1.0)
    return Variation(vectors, "local", "before", 1.0)


def variations(problem: Problem) -> list[tuple[Variation, ...]]:
    """What to try: of each group the best is kept, and the next group changes that."""
    dtype = compute_dtype(problem.a_dtype)
    kind, _ = _kind(problem, dtype, lanes_of(dtype, target()))
    if kind != "packed":
        return []
    guess = first_guess(problem)
    most = guess.vectors
    narrower = tuple(guess._replace(vectors=v) for v in range(most - 1, most // 2 - 1, -1) if v)
    ways = (("local", "before"), ("before", "local"), ("before", "before"))
    packed = tuple(guess._replace(pack_a=a, pack_b=b) for a, b in ways)
    scaled = tuple(guess._replace(scale=s) for s in (0.5, 2.0))
    return [narrower, tuple(p for p in packed if p != guess), scaled]


def _kind(problem: Problem, dtype: str, lanes: int) -> tuple[str, bool]:
    """The kind of tile, and whether b is packed for it."""
    if not problem.a_dtype == problem.b_dtype == dtype or problem.a_strides[-1] != 1:
        return "packed", True
    k_step, j_step = problem.b_strides[-2:]
    if k_step == 1 and min(problem.m, problem.n) <= FEW_DOTS:
        return "dot", False
    whole = j_step == 1 and problem.n % lanes == 0
    small = problem.k * (problem.n + problem.m) * SIZES[dtype] <= SMALL_BYTES
    if whole and (small or problem.m <= FEW):
        return "direct", False
    return ("direct" if problem.n <= NARROW else "packed"), True


def _tile(kind: str, m: int, needed: int, widest: int) -> Tile:
    """The largest tile of a kind that the rows divide into evenly."""
    vectors = min(widest, needed)
    if kind == "dot":
        return Tile(kind, min(m, DOT_ROWS), vectors)
    most = most_rows(target(), vectors)
    if kind != "packed":
        most = min(most, DIRECT_ROWS)
    return Tile(kind, -(-m // -(-m // most)), vectors)


def _blocks(
    problem: Problem, tile: Tile, pack_a: str, panels: int, held: int, workers: int
) -> tuple[int, int]:
    """Rows and panels of a unit of work, which may pack so many numbers of a."""
    tiles = -(-max(problem.m, 1) // tile.rows)
    wanted = 2 * workers if workers > 1 else 1
    wanted = -(-wanted // max(math.prod(problem.batch), 1))
    if pack_a == "before":
        # Panels of columns first: each is packed as often as there are blocks of rows.
        panel_blocks = min(panels, 2 * wanted)
        row_blocks = max(1, min(wanted // panel_blocks, tiles // 4))
    else:
        depth = max(1, min(problem.k, DEPTH))
        fits = max(1, held // (depth * tile.rows))
        row_blocks = max(-(-tiles // fits), min(wanted, -(-tiles // 4)))
        panel_blocks = min(panels, -(-wanted // row_blocks))
    block_tiles = -(-tiles // row_blocks)
    # Where k is taken in parts, the sums of a unit wait in memory, which should stay near.
    most = max(1, 1024 // (tile.vectors * 16)) if problem.k > DEPTH else panels
    return block_tiles * tile.rows, min(-(-panels // panel_blocks), most)


def depths(problem: Problem, choice: Choice) -> tuple[int, int]:
    """How much of k is taken at once, and summed at once."""
    if choice.tile.kind == "dot":
        return max(problem.k, 1), max(problem.k, 1)
    if choice.tile.kind == "packed":
        return DEPTH, DEPTH_BLOCK
    # Several tiles that read b from far away share it while it is near.
    several = problem.m > choice.tile.rows
    return (DEPTH_BLOCK if several else max(problem.k, DEPTH_BLOCK)), DEPTH_BLOCK


def widths(problem: Problem, choice: Choice) -> tuple[int, int, int]:
    """Columns of a panel and of the last one, and how many panels there are."""
    lanes = lanes_of(compute_dtype(problem.a_dtype), target())
    step = max(lanes, COLUMNS) if choice.tile.kind == "dot" else lanes
    width = -(-choice.tile.vectors * lanes // step) * step
    panels = -(-problem.n // width)
    last = problem.n - (panels - 1) * width if panels else 0
    return width, -(-last // step) * step or width, panels


def three(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    """Batch sizes as three."""
    if len(sizes) > 3:
        raise ValueError(f"{len(sizes)} batch axes; merge them, at most 3 are possible")
    first, second, third = (1,) * (3 - len(sizes)) + sizes
    return first, second, third
