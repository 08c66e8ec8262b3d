"""Which kernel takes a launch on NVIDIA's GPUs, by its sizes and strides, and with which grid.

Every one gives the bits of the nest's own kernel: the order of sums is the nest's.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import lru_cache
from typing import NamedTuple

from ...kernel.nest import COLUMNS, NARROW, WIDE, Nest, layout, units
from .block_vectors import block_vector_elements, block_vectors, threads_of_blocks
from .cuda import AFTER_OTHERS, CUDA, THREAD, THREADS, Cuda, render
from .group_scans import runs_alone
from .held_lengths import ANY_LAUNCH, WARP, holding_for, rows_at_once
from .line_lengths import Lines, early_operands, lines_of
from .line_rows import line_rows
from .long_rows import MOST_THREADS, long_blocks, long_rows, threads_of_row
from .long_totals import TOTALS_THREADS, WIDTH, blocks_of_totals, long_totals, shares_totals
from .row_vectors import row_of_vector, row_vector_elements, row_vector_items, row_vectors
from .shared_columns import (
    SHARED_COLUMNS,
    SHARED_COLUMNS_THREADS,
    blocks_of_columns,
    shared_columns,
    shares_columns,
)
from .shared_pieces import GROUP, shared_pieces, shares_pieces
from .short_rows import Short, items_of, row_of_item, short_rows, short_rows_of
from .sorted_scatter import ScatterLaunch, sorted_scatter
from .source import rendered
from .spread_rows import Spread, spread_of, spread_rows
from .transposed import tiled
from .vectors import vector_elements, vector_items
from .warp_rows import takes_rows, warp_rows
from .work import work_of


class Alone(Cuda):
    """A thread takes a row, or an element of one."""

    def __init__(self, short: Short) -> None:
        self._short = short

    def item(self, nest: Nest) -> str:
        return row_of_item(self._short, THREAD, self.argument(layout(nest).inner, nest))


class OfWarp(Cuda):
    """A warp takes a row."""

    lane = f"threadIdx.x % {WARP}"
    local_barrier = barrier = "__syncwarp();"

    def item(self, nest: Nest) -> str:
        return f"({THREAD} / {WARP})"


class OfLongRow(Cuda):
    """Many warps take a row, and registers leave room for another: two rows of logits fit into the
    cache of a multiprocessor, where the next stage finds them, and three do not."""

    def bounds(self, nest: Nest) -> str:
        return f"__launch_bounds__({MOST_THREADS}, 2)"


class OfColumns(Cuda):
    """The threads of a block share out so many columns of a unit."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self.lane = f"threadIdx.x % {columns}"

    def item(self, nest: Nest) -> str:
        columns = self.argument(nest.outer - 1, nest)
        return f"(INGLE_BLOCK / (({columns} < {WIDE} ? {NARROW} : {COLUMNS}) / {self._columns}))"


class Late(Cuda):
    """What a kernel asks for before it waits it says itself."""

    after_others = AFTER_OTHERS

    def opening(self, nest: Nest, name: str) -> Sequence[str]:
        return [line for line in super().opening(nest, name) if AFTER_OTHERS not in line]


class OfFewRows(Late):
    """So many threads take a row."""

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def bounds(self, nest: Nest) -> str:
        return f"__launch_bounds__({self._threads})"


class AlongRows(Cuda):
    """A thread takes so many neighbours of a row."""

    def __init__(self, each: int) -> None:
        self._each = each

    def item(self, nest: Nest) -> str:
        return row_of_vector(THREAD, self.argument(layout(nest).inner, nest), self._each)


OF_WARP = OfWarp()
OF_LONG_ROW = OfLongRow()
OF_TOTALS, OF_SHARED_COLUMNS = OfColumns(WIDTH), OfColumns(SHARED_COLUMNS)
OF_LINES = Late()
EACH = Alone(Short("row", 1))


class Grid(NamedTuple):
    """How a kernel is launched.

    Attributes:
        blocks, threads: of the grid.
        grain: units of work that a block, or a thread, takes.
        early: operands that are read before all has happened that was launched before. Where a
            launch before writes them, this one may not begin before all have ended.
    """

    blocks: int
    threads: int
    grain: int
    early: tuple[int, ...] = ()


# Code that runs operation by operation asks for a source in each launch.


@lru_cache(maxsize=1024)
def _short(nest: Nest, name: str, short: Short) -> str:
    return short_rows(nest, name, Alone(short), short, THREAD)


@lru_cache(maxsize=1024)
def _of_thread(nest: Nest, name: str) -> str:
    return rendered(nest, name, EACH)


@lru_cache(maxsize=1024)
def _of_warp(nest: Nest, name: str) -> str:
    return warp_rows(nest, name, OF_WARP)


@lru_cache(maxsize=1024)
def _of_long_rows(nest: Nest, name: str, blocks: int) -> str:
    return long_rows(nest, name, OF_LONG_ROW, blocks)


@lru_cache(maxsize=1024)
def _of_totals(nest: Nest, name: str) -> str:
    return long_totals(nest, name, OF_TOTALS)


@lru_cache(maxsize=1024)
def _of_columns(nest: Nest, name: str) -> str:
    return shared_columns(nest, name, OF_SHARED_COLUMNS)


@lru_cache(maxsize=1024)
def _of_lines(nest: Nest, name: str, lines: Lines) -> str:
    return line_rows(nest, name, OF_LINES, lines)


@lru_cache(maxsize=1024)
def _spread(nest: Nest, name: str, spread: Spread) -> str:
    return spread_rows(nest, name, OfFewRows(spread.threads), spread)


@lru_cache(maxsize=1024)
def _of_pieces(nest: Nest, name: str, length: int) -> str:
    return shared_pieces(nest, name, CUDA, length)


@lru_cache(maxsize=1024)
def _along_rows(nest: Nest, name: str, each: int) -> str:
    return row_vectors(nest, name, AlongRows(each), each, THREAD)


@lru_cache(maxsize=1024)
def _along_blocks(nest: Nest, name: str, each: int) -> str:
    return block_vectors(nest, name, AlongRows(each), each, THREAD)


def for_strides(nest: Nest, name: str, numbers: Sequence[int]) -> tuple[str, Grid, int] | None:
    """The source of a kernel for a launch's strides, its grid and its units of work; None where
    that is the nest's own. Bits are those of the nest's own.

    Operands that lie across the rows are taken in tiles, and rows that begin at multiples of a
    vector in vectors.

    Args:
        nest: of any kind.
        name: of the kernel.
        numbers: sizes, then strides, as `layout` says.
    """
    found = tiled(nest, name, numbers, CUDA, THREADS)
    if found is not None:
        return found[0], Grid(found[1], THREADS, 1), found[1]
    taken = units(nest, numbers[: nest.outer + 1])
    each = block_vector_elements(nest, numbers)
    if each:
        blocks = -(-threads_of_blocks(numbers, each) // THREADS)
        return _along_blocks(nest, name, each), Grid(blocks, THREADS, 1), taken
    each = row_vector_elements(nest, numbers)
    if not each:
        return None
    blocks = -(-row_vector_items(numbers, nest.outer, each) // THREADS)
    return _along_rows(nest, name, each), Grid(blocks, THREADS, 1), taken


def launch_of(
    nest: Nest, name: str, numbers: Sequence[int], processors: int, steady: Container[int] = ()
) -> tuple[str | None, Grid, int]:
    """The source of a launch's kernel, None where that is the nest's own, its grid and its units of
    work.

    Args:
        nest, name, numbers: see `for_strides`.
        processors: multiprocessors of the GPU.
        steady: operands that nothing in the plan writes.
    """
    found = for_strides(nest, name, numbers)
    if found is not None:
        return found
    source, grid = for_rows(nest, name, numbers, processors, steady)
    return source, grid, units(nest, numbers[: nest.outer + 1])


def launches_beside(
    nest: Nest, name: str, launches: Sequence[Sequence[int]], processors: int
) -> tuple[str, list[Grid]] | None:
    """The source of a kernel for several launches of a nest at the same time, and the grid of each;
    None where each has its own.

    Args:
        launches: the `numbers` of each, as of `for_strides`.
    """
    rows = [units(nest, numbers[: nest.outer + 1]) for numbers in launches]
    found = {
        lines_of(nest, numbers, processors, sum(rows) - own)
        for numbers, own in zip(launches, rows, strict=True)
    }
    lines = found.pop()
    if lines is None or found:
        return None
    grids = [_grid_of_lines(nest, numbers[: nest.outer + 1], lines) for numbers in launches]
    return _of_lines(nest, name, lines), grids


def _grid_of_lines(nest: Nest, sizes: Sequence[int], lines: Lines) -> Grid:
    rows = lines.warps * lines.rows
    blocks = -(-units(nest, sizes) // (rows * lines.vectors))
    early = early_operands(nest, lines)
    return Grid(blocks, lines.warps * WARP, rows, early)


def for_scatter(nest: Nest, name: str, numbers: Sequence[int]) -> list[tuple[ScatterLaunch, Grid]]:
    """The kernels that do what a scattered nest does, with its bits, and their grids; none where
    that is the nest's own. Arguments are those of `for_strides`."""
    found = sorted_scatter(nest, name, numbers, EACH, CUDA, THREADS)
    return [
        (one, Grid(one.units if one.group else -(-one.units // THREADS), THREADS, 1))
        for one in found
    ]


def for_rows(
    nest: Nest, name: str, numbers: Sequence[int], processors: int, steady: Container[int] = ()
) -> tuple[str | None, Grid]:
    """The source of a launch's kernel by how its rows are taken, None where that is the nest's own,
    and its grid. Bits are those of the nest's own; arguments are those of `launch_of`."""
    sizes = numbers[: nest.outer + 1]
    if vector_elements(nest):
        blocks = -(-vector_items(nest, sizes[-1]) // THREADS)
        return None, Grid(blocks, THREADS, sizes[-1])
    if runs_alone(nest, sizes):
        return _of_thread(nest, name), Grid(-(-units(nest, sizes) // THREADS), THREADS, 1)
    short = short_rows_of(nest, sizes)
    if short is not None:
        blocks = -(-items_of(short, nest, sizes) // THREADS)
        return _short(nest, name, short), Grid(blocks, THREADS, 1)
    lines = lines_of(nest, numbers, processors)
    if lines is not None:
        return _of_lines(nest, name, lines), _grid_of_lines(nest, sizes, lines)
    spread = spread_of(nest, numbers, processors, steady)
    if spread is not None:
        grid = Grid(units(nest, sizes), spread.threads, 1, spread.early)
        return _spread(nest, name, spread), grid
    if takes_rows(nest, sizes):
        blocks = -(-units(nest, sizes) * WARP // THREADS)
        return _of_warp(nest, name), Grid(blocks, THREADS, 1)
    if shares_pieces(nest, sizes):
        return _of_pieces(nest, name, sizes[-1]), Grid(units(nest, sizes), GROUP, 1)
    if shares_totals(nest, sizes, processors):
        return _of_totals(nest, name), Grid(blocks_of_totals(nest, sizes), TOTALS_THREADS, 1)
    if shares_columns(nest, sizes, processors):
        blocks = blocks_of_columns(nest, sizes)
        return _of_columns(nest, name), Grid(blocks, SHARED_COLUMNS_THREADS, 1)
    blocks = long_blocks(nest, sizes)
    if blocks:
        grid = Grid(units(nest, sizes), threads_of_row(sizes[-1]), 1)
        return _of_long_rows(nest, name, blocks), grid
    holding = holding_for(nest, numbers)
    source = None if holding == ANY_LAUNCH else render(nest, name, holding)
    work = work_of(nest, sizes, processors, wide=True)
    threads = THREADS if work.group is None else work.group[0]
    blocks, rows = -(-work.items // threads), rows_at_once(nest, sizes[-1])
    if rows > 1 and work.grain == 1:
        return source, Grid(-(-blocks // rows), threads, rows)
    return source, Grid(blocks, threads, work.grain)
