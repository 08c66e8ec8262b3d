"""Which products in float32 kernels of our own compute, and how these are launched.

For small matrices cuBLAS's kernels leave much of a GPU idle, heads that have no one stride along a
batch are launched one by one, and what follows is another kernel. How ours compute them is told in
`tile_products_source`. Where tiles are few and sums long, as in the gradient of a weight, sums are
cut into parts, which blocks of their own compute, and a second kernel adds the parts from the first
to the last; the library keeps what is not to be cut so. Who computes a product follows from its
sizes alone, as its bits do: where much memory is read behind one, such as by a weight's update,
that is a kernel of its own, which has more of it on its way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.kernels import (
    Argument,
    ContractionCall,
    Instruction,
    epilogue_nest,
    epilogue_of,
)

from ..driver.devices import capability
from .tile_products_source import (
    ACROSS,
    BATCH,
    DOWN,
    LONG,
    NAME,
    ROUND,
    THREADS,
    TileShape,
    source,
)

_DTYPE = "float32"
_MOST = 1 << 28
"""Multiplications of a product; larger ones fill a GPU by the library's kernels."""
_TILES = (8, 4), (4, 4), (4, 2)
"""Rows and columns of a thread: more of them read shared memory less, fewer make more tiles."""
_LARGE = (8, 8)
"""The same where much code follows, which fewer blocks read."""
_TALL = 128
"""Places along k up to which a result may have few tiles."""
_FEWEST = 128
"""Tiles of a result whose sums are longer; of a constant, since sums depend on it."""
_ENOUGH = 512
"""Tiles of all parts up to which a sum is cut further than has to be, where parts fill rounds
better so: a GPU has place for as many at a time. Of a constant, too."""
_WHOLE = (16, 64)
"""Rows and columns of the tiles by which these are counted, whatever tile is taken."""
_PARTS = range(2, 17)
"""In how many parts a sum is cut, if it is."""
_SHORTEST = 64
"""Places along k of a part: of fewer the second kernel has too much to read."""
_MOST_PARTS = 1 << 20
"""Elements of all parts, which stay in the GPU's cache between the kernels."""
_CLUSTERS_FROM = 90
"""The compute capability from which on there are clusters."""
_MOST_BLOCKS = 8
"""Blocks of a cluster, on every GPU that has clusters."""
_MOST_READ = 1
"""Operands of the result's size that a product's own kernel reads behind it."""
_LARGEST = (1 << 31) - 1


class TileLaunch(NamedTuple):
    """The kernel of a product, with all but addresses and scalars.

    Attributes:
        source, name: of the kernel.
        nest_numbers, own: what it is given before and behind the scalars.
        blocks, threads: of the grid.
    """

    source: str
    name: str
    nest_numbers: tuple[int, ...]
    own: tuple[int, ...]
    blocks: int
    threads: int


def tile_launch(call: ContractionCall, processors: int, parts: int = 1) -> TileLaunch | None:
    """How a kernel computes a product and what follows it; None where the library does.

    Args:
        processors: of the GPU; no bit depends on it.
        parts: in how many of `parts_of` blocks of a cluster compute its sums.
    """
    m, n, k = call.sizes
    k //= parts
    count = math.prod(call.batch) * parts
    if call.dtype != _DTYPE or call.b_dtype != _DTYPE or call.windows is not None or not k:
        return None
    if len(call.batch) > BATCH or m * n * k * count > _MOST or max(m, n, k) > _LARGEST // 2:
        return None
    if not _is_wide(m, n, k, count):
        return None
    tiles = _TILES if len(call.code) <= LONG else (_LARGE, *_TILES)
    rows, columns = _tile(tiles, m, n, count, processors)
    down, across = -(-m // (rows * DOWN)), -(-n // (columns * ACROSS))
    blocks = count * down * across
    if blocks > _LARGEST:
        return None
    a, b = call.a.strides, (*call.b.strides[:-2], *call.b.strides[:-3:-1])
    lying = [_lying(x, lines, k, parts) for x, lines in ((a, m), (b, n))]
    nest = epilogue_nest(epilogue_of(call), len(call.batch) + 1, _DTYPE)
    (a_along, a_vector), (b_along, b_vector) = lying
    shape = TileShape(rows, columns, a_along, b_along, a_vector, b_vector, nest, parts)
    numbers = [*call.batch, m, n, *[0] * (len(call.batch) + 2)]
    for argument in call.operands:
        numbers += argument.strides
    own = [m, n, k, down, across]
    for strides in (a, b):
        missing = BATCH + 2 - len(strides)
        own += [*strides[:-2], *[0] * missing, *strides[-2:]]
    return TileLaunch(source(shape), NAME, tuple(numbers), tuple(own), blocks, THREADS)


def _is_wide(m: int, n: int, k: int, count: int) -> bool:
    """Whether a product has enough tiles, each of whose sums a block takes alone.

    >>> _is_wide(1024, 384, 128, 1), _is_wide(384, 128, 1024, 1)
    (True, False)
    """
    return k <= _TALL or _tiles(m, n, count) * _TALL >= _FEWEST * k


def _tiles(m: int, n: int, count: int) -> int:
    return count * -(-m // _WHOLE[0]) * -(-n // _WHOLE[1])


def parts_of(call: ContractionCall) -> int:
    """In how many parts of equal length the sums of a product are cut; 1 where they are not.

    >>> from ingle.fusion.device.kernels import Argument
    >>> a, b = Argument(0, (1, 384), 0), Argument(1, (128, 1), 0)
    >>> call = ContractionCall(
    ...     "float32", "float32", (), (384, 128, 1024), a, b, (), (), (), (), (), (), ()
    ... )
    >>> parts_of(call), parts_of(call._replace(sizes=(384, 128, 1021)))
    (8, 1)
    >>> parts_of(call._replace(sizes=(128, 512, 784)))
    7
    """
    m, n, k = call.sizes
    count = math.prod(call.batch)
    if not k or len(call.batch) >= BATCH or _is_wide(m, n, k, count):
        return 1
    found = 1
    for parts in _PARTS:
        if k < parts * _SHORTEST or parts * count * m * n > _MOST_PARTS:
            break
        if k % parts or not _is_wide(m, n, k // parts, count * parts):
            continue
        if found == 1:
            found = parts
        elif parts > _MOST_BLOCKS or parts * _tiles(m, n, count) > _ENOUGH:
            break
        elif _in_rounds(k, parts) < _in_rounds(k, found):
            found = parts
    return found


def _in_rounds(k: int, parts: int) -> int:
    """Places along k for which all parts have time: a block takes a round of them at once."""
    return parts * -(-k // (parts * ROUND)) * ROUND


def has_clusters(architecture: str) -> bool:
    """Whether blocks of a GPU can read one another's shared memory."""
    return capability(architecture) >= _CLUSTERS_FROM


def in_cluster(parts: int) -> bool:
    """Whether blocks of a cluster may compute so many parts of sums."""
    return 1 < parts <= _MOST_BLOCKS


def part_sums_of(call: ContractionCall, parts: int) -> ContractionCall:
    """The product of each part alone, which stores its sums in order, those of one part behind
    those of the one before."""
    m, n, k = call.sizes
    deep, alone = k // parts, sums_of(call)
    (stored,) = alone.operands
    a, b = call.a.strides, call.b.strides
    return alone._replace(
        batch=(parts, *call.batch), sizes=(m, n, deep),
        a=call.a._replace(strides=(deep * a[-1], *a)),
        b=call.b._replace(strides=(deep * b[-2], *b)),
        operands=(stored._replace(strides=(m * n * math.prod(call.batch), *stored.strides)),),
    )  # fmt: skip


def reads_much(call: ContractionCall) -> bool:
    """Whether what follows a product reads several operands of the result's size."""
    read = [o for o in call.operands if not o.output and all(o.strides[-2:])]
    return len(read) > _MOST_READ


def sums_of(call: ContractionCall) -> ContractionCall:
    """The product alone, which stores its sums in order as its one operand."""
    m, n, _ = call.sizes
    steps = [m * n * math.prod(call.batch[axis + 1 :]) for axis in range(len(call.batch))]
    return call._replace(
        code=(Instruction("result", _DTYPE, (), (0, 0)),), dtypes=(_DTYPE,), stores=((0, 0),),
        operands=(Argument(0, (*steps, n, 1), 0, True),), scalars=(), scalar_dtypes=(),
    )  # fmt: skip


def _tile(
    tiles: Sequence[tuple[int, int]], m: int, n: int, products: int, processors: int
) -> tuple[int, int]:
    """The first tile of which each multiprocessor has one, or the last."""
    for rows, columns in tiles:
        down, across = -(-m // (rows * DOWN)), -(-n // (columns * ACROSS))
        if products * down * across >= processors:
            break
    return rows, columns


def _lying(strides: Sequence[int], lines: int, k: int, parts: int) -> tuple[bool, int]:
    """Whether the elements of a factor that lie side by side follow k, and how many of them can be
    loaded at once where memory is aligned.

    Args:
        strides: along the batch, lines, and k.
        k, parts: places along k of a part, and how many there are.
    """
    *batch, line, deep = strides
    if deep != 1 and line == 1:
        along, size, far = False, lines, deep
    else:
        along, size, far = True, k, line
        if deep != 1:
            return along, 1
    apart = (size, far, *batch) if parts == 1 else (size, far, k * deep, *batch)
    return along, next(v for v in (4, 2, 1) if not any(step % v for step in apart))
