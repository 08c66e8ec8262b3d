"""Which products in float32 kernels of our own compute, and how these are launched.

For small matrices cuBLAS has kernels that leave most of a GPU idle, sums pieces of k in a second
kernel, and what follows is a third. How the kernels compute them is told in `tile_products_source`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.kernels import ContractionCall, epilogue_nest, epilogue_of

from .tile_products_source import (
    ACROSS,
    BATCH,
    DEEP,
    DOWN,
    NAME,
    THREADS,
    TileShape,
    source,
)

_DTYPE = "float32"
_MOST = 1 << 28
"""Multiplications of a product; larger ones fill a GPU by the library's kernels."""
_TILES = (8, 4), (4, 4), (2, 4), (2, 2)
"""Rows and columns of a thread: more of them read shared memory less, fewer make more tiles."""
_WANTED = 132
"""Blocks of a product whose k is divided into pieces: of a constant, since sums depend on it."""
_FEWEST_DEEP = 128
"""Places along k that a piece has at least."""
_WHOLE = (4, 4)
"""The tile by which pieces are counted, whatever tile is taken."""
COUNTERS = 1 << 10
"""Tiles whose blocks are counted, at most: four times as many as are wanted."""
COUNTER_BYTES = 4 * COUNTERS
_LARGEST = (1 << 31) - 1


class TileLaunch(NamedTuple):
    """The kernel of a product, with all but addresses and scalars.

    Attributes:
        source, name: of the kernel.
        nest_numbers, own: what it is given before and behind the scalars.
        blocks, threads: of the grid.
        partial: bytes of memory for what pieces along k find; none if there is one piece.
    """

    source: str
    name: str
    nest_numbers: tuple[int, ...]
    own: tuple[int, ...]
    blocks: int
    threads: int
    partial: int


def tile_launch(call: ContractionCall, processors: int) -> TileLaunch | None:
    """How a kernel computes a product and what follows it; None where the library does.

    Args:
        processors: of the GPU; no bit depends on it.
    """
    m, n, k = call.sizes
    count = math.prod(call.batch)
    if call.dtype != _DTYPE or call.b_dtype != _DTYPE or call.windows is not None or not k:
        return None
    if len(call.batch) > BATCH or m * n * k * count > _MOST or max(m, n, k) > _LARGEST // 2:
        return None
    pieces, deep = pieces_of(m, n, k, count)
    rows, columns = _tile(m, n, count * pieces, processors)
    down, across = -(-m // (rows * DOWN)), -(-n // (columns * ACROSS))
    blocks = count * pieces * down * across
    if blocks > _LARGEST:
        return None
    a, b = call.a.strides, (*call.b.strides[:-2], *call.b.strides[:-3:-1])
    nest = epilogue_nest(epilogue_of(call), len(call.batch) + 1, _DTYPE)
    (a_along, a_vector), (b_along, b_vector) = _lying(a, m, k), _lying(b, n, k)
    shape = TileShape(rows, columns, a_along, b_along, a_vector, b_vector, pieces > 1, nest)
    numbers = [*call.batch, m, n, *[0] * (len(call.batch) + 2)]
    for argument in call.operands:
        numbers += argument.strides
    own = [m, n, k, down, across, pieces, deep, 0]
    for strides in (a, b):
        missing = BATCH + 2 - len(strides)
        own += [*strides[:-2], *[0] * missing, *strides[-2:]]
    partial = 4 * blocks * rows * columns * THREADS if pieces > 1 else 0
    assert pieces == 1 or count * down * across <= COUNTERS
    return TileLaunch(source(shape), NAME, tuple(numbers), tuple(own), blocks, THREADS, partial)


def pieces_of(m: int, n: int, k: int, count: int) -> tuple[int, int]:
    """Into how many pieces k is divided, and how many places each has; by sizes alone.

    >>> pieces_of(1024, 384, 128, 1), pieces_of(128, 128, 1024, 1)
    ((1, 128), (8, 128))
    """
    rows, columns = _WHOLE
    tiles = count * -(-m // (rows * DOWN)) * -(-n // (columns * ACROSS))
    wanted = min(-(-_WANTED // tiles), k // _FEWEST_DEEP)
    deep = -(-k // (max(wanted, 1) * DEEP)) * DEEP
    return -(-k // deep), deep if k > deep else k


def _tile(m: int, n: int, products: int, processors: int) -> tuple[int, int]:
    """The largest tile of which each multiprocessor has one."""
    for rows, columns in _TILES:
        down, across = -(-m // (rows * DOWN)), -(-n // (columns * ACROSS))
        if products * down * across >= processors:
            return rows, columns
    return _TILES[-1]


def _lying(strides: Sequence[int], lines: int, k: int) -> tuple[bool, int]:
    """Whether the elements of a factor that lie side by side follow k, and how many of them can be
    loaded at once where memory is aligned.

    Args:
        strides: along the batch, lines, and k.
    """
    *batch, line, deep = strides
    if deep != 1 and line == 1:
        along, size, far = False, lines, deep
    else:
        along, size, far = True, k, line
        if deep != 1:
            return along, 1
    apart = (size, far, *batch)
    return along, next(v for v in (4, 2, 1) if not any(step % v for step in apart))
