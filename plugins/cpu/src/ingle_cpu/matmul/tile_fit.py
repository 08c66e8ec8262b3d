"""Tiles of products: which one rows and columns fit, its cycles, how many panels stay near."""

from __future__ import annotations

import math

from .amx import tile_cycles
from .machine import target
from .microkernel import most_rows, most_vectors
from .problem import Choice, Problem
from .tile import TILES, Tile

ALL_NEAR = 2
"""Columns may take so many times as much if they all fit: then tiles fetch something else."""
DOT_ROWS = 4
TURNED = 15
"""Cycles that a step of k takes of a panel of rows which lie along columns: a cache line for each,
however few of its numbers the panel has."""
NEAR_BYTES = 256 << 10
"""Columns of b that stay in the second-level cache while rows of a go by."""
FEW = 8
"""Up to so many rows, packing b costs more than reading it several times; or tiles, where b is
packed for a few of them.
"""
LATENCY = 4
"""Cycles from a multiplication with addition to the next one of the same sum."""


def is_readable(problem: Problem, dtype: str) -> bool:
    """Whether tiles can read rows of a where they lie."""
    return problem.a_dtype == problem.b_dtype == dtype and problem.a_strides[-1] == 1


def tile_for(kind: str, m: int, needed: int, widest: int) -> Tile:
    """The largest tile of a kind that the rows divide into evenly."""
    if kind == "streamed":
        return Tile(kind, m, widest)
    vectors = min(widest, needed)
    if kind == "dot":
        return Tile(kind, min(m, DOT_ROWS), vectors)
    most = most_rows(target(), vectors, kind)
    return Tile(kind, -(-m // -(-m // most)), vectors)


def fitting_tile(kind: str, m: int, vectors: int, packing: int = 0) -> tuple[Tile, float]:
    """The tile that takes the fewest cycles a step of k, if there are so many rows and vectors, and
    those of each tile of rows take some to pack."""
    # With few registers, wider tiles are less high: rows may divide into these without a rest.
    widest = most_vectors(target()) + (target().registers < 32)

    def cycles(tile: Tile) -> float:
        whole, rest = divmod(vectors, tile.vectors)
        each = tile_cycles if tile.in_tiles else cycles_of
        row = whole * each(tile.rows, tile.vectors) + (each(tile.rows, rest) if rest else 0)
        return -(-m // tile.rows) * (row + packing)

    # Registers of tiles are best used as squares; and few rows are packed for many vectors. But a
    # number of a that is read for one multiplication takes longer than this one.
    fewest = max(2, widest // 2) if packing or kind in TILES.values() else widest // 2 + 1
    tiles = [tile_for(kind, m, vectors, wide) for wide in range(widest, fewest - 1, -1)]
    best = min(tiles, key=cycles)
    return best, cycles(best)


def cycles_of(rows: int, vectors: int) -> float:
    """Of a step of k in a tile: two multiplications, or two loads, each."""
    return max(rows * vectors / 2, (rows + vectors) / 2, LATENCY)


def near_panels(fits: int, panels: int) -> int:
    """How many panels stay near, if so many fit where there is more to keep."""
    return panels if panels <= ALL_NEAR * max(fits, 1) else max(fits, 1)


def local_blocks(panels: int, problem: Problem, workers: int) -> int:
    """Blocks of columns, such that there are several for each worker."""
    if workers == 1:
        return 1
    return min(panels, -(-4 * workers // max(math.prod(problem.batch), 1)))


def tiles_of(problem: Problem, choice: Choice) -> int:
    """How many tiles lie above each other."""
    return -(-problem.m // choice.tile.rows)
