"""Matrix products: both operands packed into panels, and a tile in registers for each work item.

A panel holds as many rows of A, or columns of B, as a tile is high or wide, one behind the other
along k; what is missing at the edge is zeros. So the loop over k reads memory in order, whatever
the strides of the operands, and needs no bounds. The epilogue is a nest over the tile. Windows of
images are packed by `window_pack`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ingle.fusion.device.kernels import (
    HALVES,
    SIZES,
    ContractionCall,
    Epilogue,
    Nest,
    accumulator_dtype,
    epilogue_nest,
)
from ingle.fusion.device.opencl import EPILOGUE, rendered, value_type, widened

MAX_BATCH = 3
"""Batch axes of a contraction, at most."""
FEWEST = 4
"""Rows or columns of a matrix that is worth packing."""
NAME = "product"
PACK = "pack"
IMAGES = 32 << 20
"""Bytes of windows that are written out at a time: many times what the images take."""
MATRICES = 1 << 62
"""Bytes of matrices, whose panels take as much as they do."""


class Tile(NamedTuple):
    """What a work item computes.

    Attributes:
        rows: how many.
        vectors: of columns.
        lanes: elements of each vector.
        side: where so many times so many work items share what they read, that; 0 where operands
            are packed for work items that read alone.
    """

    rows: int
    vectors: int
    lanes: int
    side: int = 0

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


class Problem(NamedTuple):
    """A product as its kernels see it.

    Attributes:
        dtype: of the operands in memory.
        batch, m, n, k: sizes.
        tile: of the product's kernel.
        a_repeats, b_repeats: whether all products of the batch have the same operand.
    """

    dtype: str
    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    tile: Tile
    a_repeats: bool
    b_repeats: bool
    most: int

    @property
    def computed(self) -> str:
        """The dtype of products and sums."""
        return accumulator_dtype(self.dtype)

    @property
    def products(self) -> int:
        return math.prod(self.batch)

    @property
    def a_panels(self) -> int:
        """Panels of one matrix A."""
        return -(-self.m // self.tile.rows)

    @property
    def b_panels(self) -> int:
        return -(-self.n // self.tile.columns)

    @property
    def a_bytes(self) -> int:
        """Memory for all panels of A."""
        panels = self.a_panels * (1 if self.a_repeats else self.products)
        return self._padded(panels * self.tile.rows)

    @property
    def at_once(self) -> int:
        """Products whose panels of B are in memory at a time."""
        if self.b_repeats:
            return self.products
        one = self._padded(self.b_panels * self.tile.columns)
        return min(self.products, max(1, self.most // max(one, 1)))

    @property
    def b_bytes(self) -> int:
        """Memory for the panels of B that are there at a time."""
        panels = self.b_panels * (1 if self.b_repeats else self.at_once)
        return self._padded(panels * self.tile.columns)

    def _padded(self, lines: int) -> int:
        return -(-lines * self.k * SIZES[self.computed] // 256) * 256


def problem_of(call: ContractionCall, tile: Tile) -> Problem:
    """The problem of a call."""
    m, n, k = call.sizes
    axes = len(call.batch)
    windows = call.windows
    return Problem(
        call.dtype, call.batch, m, n, k * (1 if windows is None else windows.turns), tile,
        not any(call.a.strides[:axes]), not any(call.b.strides[:axes]),
        MATRICES if windows is None else IMAGES,
    )  # fmt: skip


GPU_TILES = (Tile(8, 4, 4), Tile(8, 2, 4), Tile(4, 2, 4), Tile(4, 1, 4), Tile(2, 1, 4))
"""From the one that reads least for each product to the one that has most work items."""
_REGISTERS = 512
"""Bytes of sums that a work item of a GPU keeps at most."""
_BUSY = 128
"""Work items that keep a compute unit of a GPU busy."""


def tile_for(
    dtype: str, bits: int, sizes: tuple[int, int, int, int] | None = None, processors: int = 0
) -> Tile:
    """The tile of a device whose vector registers have so many bits.

    On a GPU, where a work item has many small ones, it is the largest that leaves work for all.

    Args:
        sizes: of batch, m, n and k; of a large product if not given.
        processors: compute units of the device.
    """
    size = SIZES[accumulator_dtype(dtype)]
    lanes = min(16, bits // 8 // size)
    if lanes >= 2:
        return Tile(12, 2, lanes) if bits >= 512 else Tile(6 if bits >= 256 else 4, 2, lanes)
    fitting = [t for t in GPU_TILES if t.rows * t.columns * size <= _REGISTERS]
    if sizes is None:
        return fitting[0]
    count, m, n, _ = sizes
    items = [count * -(-m // t.rows) * -(-n // t.columns) for t in fitting]
    enough = [t for t, many in zip(fitting, items, strict=True) if many >= processors * _BUSY]
    return enough[0] if enough else fitting[-1]


# What kernels read -----------------------------------------------------------------------------


def pack_table(
    batch: Sequence[int], count: int, k: int, length: int, strides: Sequence[int],
    turn: tuple[int, int] | None = None,
) -> list[int]:  # fmt: skip
    """The arguments of a packing kernel.

    Args:
        count: rows of A, or columns of B.
        length: of k that a work item packs.
        strides: along the batch, rows or columns, and k.
        turn: after how many steps along k another turn begins, and how far on it lies.
    """
    missing = MAX_BATCH - len(batch)
    own = [*[1] * missing, *batch, count, k, *[0] * missing, *strides, length]
    return [*own, *(turn or (k, 0))]


def product_table(problem: Problem, call: ContractionCall) -> list[int]:
    """The arguments of the product's kernel: its own, then those of the epilogue's nest."""
    own = [
        problem.m, problem.n, problem.k,
        0 if problem.a_repeats else problem.a_panels, 0 if problem.b_repeats else problem.b_panels,
    ]  # fmt: skip
    return [*own, *epilogue_table(problem.tile, call)]


def epilogue_table(tile: Tile, call: ContractionCall) -> list[int]:
    """The arguments of the epilogue's nest."""
    outer = len(call.batch) + 1
    nest = [*call.batch, call.sizes[0], 0, *[0] * (outer - 1), tile.columns, 1]
    for operand in call.operands:
        nest += operand.strides
    return nest


# Sources ---------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def pack_source(dtype: str, width: int, turns: bool = False) -> str:
    """A kernel that packs lines of a matrix into panels; a work item writes a piece of a panel.

    Args:
        turns: whether there are several along k.
    """
    helpers, kind, stored, shown = widened(dtype)
    along = "p / args[11] * args[12] + p % args[11] * along" if turns else "p * along"
    in_order = 0 if turns else "along == 1"
    return f"""{helpers}
typedef struct {{ int64_t at[3]; }} given_t;
__kernel void {PACK}(__global uint8_t *from, __global uint8_t *to, __global const int64_t *table,
    const given_t given)
{{
    __global const int64_t *const args = table + given.at[2];
    const int64_t count = args[3], k = args[4], step = args[8], along = args[9];
    const int64_t first = get_global_id(0) * {width}, matrix = get_global_id(2);
    const int64_t begin = get_global_id(1) * args[10], end = min(begin + args[10], k);
    const int64_t panel = matrix * ((count + {width - 1}) / {width}) + get_global_id(0);
    const int64_t at = matrix / (args[1] * args[2]) * args[5]
        + matrix / args[2] % args[1] * args[6] + matrix % args[2] * args[7] + first * step;
    __global const {stored} *const source = (__global const {stored} *)(from + given.at[0]) + at;
    __global {kind} *const panels = (__global {kind} *)(to + given.at[1]) + panel * k * {width};
    const int64_t lines = min((int64_t){width}, count - first);
    if (lines <= 0)
        return;
    if ({in_order} && lines == {width}) {{
        for (int64_t line = 0; line < {width}; line++) {{
            for (int64_t p = begin; p < end; p++) {{
                const {stored} x = source[line * step + p];
                panels[p * {width} + line] = {shown};
            }}
        }}
        return;
    }}
    for (int64_t p = begin; p < end; p++) {{
        INGLE_INDEPENDENT
        for (int64_t line = 0; line < lines; line++) {{
            const {stored} x = source[line * step + {along}];
            panels[p * {width} + line] = {shown};
        }}
        for (int64_t line = lines; line < {width}; line++)
            panels[p * {width} + line] = 0;
    }}
}}
"""


@lru_cache(maxsize=1024)
def product_source(dtype: str, tile: Tile, epilogue: Epilogue, outer: int) -> str:
    """The kernel of a product, for matrices of any size; a work item computes a tile."""
    computed = accumulator_dtype(dtype)
    kind = value_type(computed)
    vector, width = f"{kind}{tile.lanes}", tile.columns
    nest = epilogue_nest(epilogue, outer, computed)
    end = epilogue_call(computed, tile, epilogue, nest, outer)
    loads = "\n        ".join(
        f"const {vector} b{j} = vload{tile.lanes}(0, b + {j * tile.lanes});"
        for j in range(tile.vectors)
    )
    return f"""{rendered(nest, "epilogue", EPILOGUE)}
typedef struct {{ int64_t at[{end.start + 1}]; }} given_t;
__kernel void {NAME}(__global uint8_t *buffer0, __global uint8_t *buffer1, {end.buffers}
    __global const int64_t *table, const given_t given)
{{
    __global const int64_t *const args = table + given.at[{end.start}];
    __global const int64_t *const nest = args + 5;
    const int64_t m = args[0], n = args[1], k = args[2];
    const int64_t matrix = get_global_id(2);
    const int64_t row = get_global_id(0) * {tile.rows}, column = get_global_id(1) * {width};
    if (row >= m || column >= n)
        return;
    __global const {kind} *a = (__global const {kind} *)(buffer0 + given.at[0])
        + (matrix * args[3] + get_global_id(0)) * {tile.rows} * k;
    __global const {kind} *b = (__global const {kind} *)(buffer1 + given.at[1])
        + ((matrix - get_global_offset(2)) * args[4] + get_global_id(1)) * {width} * k;
    {end.sums}
    for (int64_t p = 0; p < k; p++) {{
        {loads}
        {products(tile, vector, 8)}
        a += {tile.rows};
        b += {width};
    }}
    {end.call}
}}
"""


def products(tile: Tile, vector: str, indent: int) -> str:
    """A tile's sums, each with a product more, of `a` and of vectors `b0`, `b1`, …"""
    return ("\n" + " " * indent).join(
        f"c{i}_{j} = fma(({vector})(a[{i}]), b{j}, c{i}_{j});"
        for i in range(tile.rows) for j in range(tile.vectors)
    )  # fmt: skip


class EpilogueCall(NamedTuple):
    """What is around a tile's loop.

    Attributes:
        buffers: parameters of the kernel behind its first two.
        start: the place among the given numbers that says where the kernel's table begins.
        sums: declares a tile's sums.
        call: hands these to the epilogue, with `nest`, `matrix`, `row` and `column`.
    """

    buffers: str
    start: int
    sums: str
    call: str


def epilogue_call(
    computed: str, tile: Tile, epilogue: Epilogue, nest: Nest, outer: int
) -> EpilogueCall:
    """How the kernel of a product ends, for sums of a dtype.

    Args:
        nest: of the epilogue, a function in front of the kernel.
        outer: its outer axes.
    """
    kind, width = value_type(computed), tile.columns
    vector, rows, parts = f"{kind}{tile.lanes}", range(tile.rows), range(tile.vectors)
    count, numbers = len(nest.operands) - 1, len(nest.scalars) - 1
    buffers = "".join(f"__global uint8_t *buffer{j}, " for j in range(2, count + 2))
    sums = "\n    ".join(f"{vector} c{i}_{j} = ({vector})(0);" for i in rows for j in parts)
    stores = "\n    ".join(
        f"vstore{tile.lanes}(c{i}_{j}, 0, sums + {i * width + j * tile.lanes});"
        for i in rows for j in parts
    )  # fmt: skip
    # A nest's arguments: sizes of the outer axes and the inner one, then strides by operand.
    column = [f"(column * nest[{outer + 1 + (k + 1) * (outer + 1) + outer}])" for k in range(count)]
    operands = "".join(
        f"buffer{k + 2} + given.at[{k + 2}] + {column[k]} * {SIZES[epilogue.operands[k].dtype]}, "
        for k in range(count)
    )
    scalars = "".join(f"given.at[{count + 2 + n}], " for n in range(numbers))
    call = f"""{kind} sums[{tile.rows * width}];
    {stores}
    const int64_t numbers[] = {{{scalars}column}};
    /* The nest counts rows of all matrices, the tile its own. */
    epilogue(sums - row * {width}, {operands}nest, numbers, min((int64_t){width}, n - column),
        matrix * m + row, matrix * m + min(row + {tile.rows}, m));"""
    return EpilogueCall(buffers, count + 2 + numbers, sums, call)


def is_float(dtype: str) -> bool:
    """Whether there are kernels for products of these."""
    return dtype in HALVES or dtype in ("float32", "float64")


def is_worth_it(dtype: str, m: int, n: int) -> bool:
    """Whether packing pays: not for products of few rows or columns, which read a matrix once."""
    return min(m, n) >= FEWEST and is_float(dtype)
