"""Matrix products whose work items share what they read, in local memory.

A group of work items computes a block of tiles. It copies a slice of the block's rows of A and of
its columns of B into local memory, whatever their strides are, then each work item multiplies its
own rows and columns of the slice. So nothing is packed into memory first: a product is one launch,
and each element is read once for all tiles beside each other. Sums grow by one product after the
other along k, as in all other tiles, so their bits are the same.

Rows of the slice of A are an element longer than they hold: work items that write down a column of
it, as they do where A lies along k, use as many banks of the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ingle.fusion.device.kernels import (
    SIZES,
    ContractionCall,
    Epilogue,
    accumulator_dtype,
    epilogue_nest,
)
from ingle.fusion.device.opencl import widened_beside

from .matmul import MAX_BATCH, NAME, Tile, epilogue_call, epilogue_table, products

SHARED_TILES = (Tile(8, 2, 4, 16), Tile(8, 1, 4, 16), Tile(4, 1, 4, 16), Tile(4, 1, 4, 8))
"""From the one that reads least for each product to the one that has most groups."""
SLICE = 16
"""Elements along k of a slice."""
_NEST = 3 + MAX_BATCH + 2 * (MAX_BATCH + 2)
"""Where a table has the epilogue's arguments."""


def fits(dtype: str, tile: Tile, local: int, group: int) -> bool:
    """Whether a device has room for a group.

    Args:
        dtype: of the operands.
        local: bytes of the local memory.
        group: work items of a group at most.
    """
    lines = tile.side * (tile.rows + tile.columns) + 1
    return SLICE * lines * SIZES[accumulator_dtype(dtype)] <= local and tile.side**2 <= group


def shared_tile_for(
    tiles: Sequence[Tile], sizes: tuple[int, int, int, int], processors: int
) -> Tile | None:
    """The first of some tiles that has a group for each compute unit, or else the one with most
    groups; None for products of a few rows or columns, of which a group would compute little.

    Args:
        tiles: as `SHARED_TILES` are ordered.
        sizes: of batch, m, n and k.
        processors: compute units of the device.

    >>> from ingle_opencl.shared_tiles import SHARED_TILES, shared_tile_for
    >>> [shared_tile_for(SHARED_TILES, (1, n, n, n), 132).side for n in (512, 2048)]
    [8, 16]
    """
    count, m, n, _ = sizes
    if not tiles or m < tiles[-1].side * tiles[-1].rows or n < tiles[-1].side * tiles[-1].columns:
        return None
    for tile in tiles:
        high, wide = tile.side * tile.rows, tile.side * tile.columns
        if count * -(-m // high) * -(-n // wide) >= processors:
            return tile
    return tiles[-1]


def shared_table(tile: Tile, call: ContractionCall) -> list[int]:
    """The arguments of the kernel: its own, then those of the epilogue's nest."""
    missing = [0] * (MAX_BATCH - len(call.batch))
    own = [*call.sizes, *[1 for _ in missing], *call.batch]
    return [*own, *missing, *call.a.strides, *missing, *call.b.strides, *epilogue_table(tile, call)]


def shared_items(tile: Tile, call: ContractionCall, count: int) -> tuple[int, int, int]:
    """Work items along columns, rows and products: whole groups."""
    m, n, _ = call.sizes
    high, wide = tile.side * tile.rows, tile.side * tile.columns
    return -(-n // wide) * tile.side, -(-m // high) * tile.side, count


@lru_cache(maxsize=256)
def shared_source(dtype: str, tile: Tile, epilogue: Epilogue, outer: int) -> str:
    """The kernel of a product, for matrices of any size and strides; a work item computes a
    tile."""
    computed = accumulator_dtype(dtype)
    nest = epilogue_nest(epilogue, outer, computed)
    helpers, kind, stored, shown = widened_beside(nest, dtype)
    vector = f"{kind}{tile.lanes}"
    end = epilogue_call(computed, tile, epilogue, nest, outer)
    high, wide = tile.side * tile.rows, tile.side * tile.columns
    a, b = 3 + MAX_BATCH, 3 + 2 * MAX_BATCH + 2
    loads = "\n            ".join(f"const {vector} b{j} = b[{j}];" for j in range(tile.vectors))
    return f"""{helpers}
typedef struct {{ int64_t at[{end.start + 1}]; }} given_t;
__kernel void {NAME}(__global uint8_t *buffer0, __global uint8_t *buffer1, {end.buffers}
    __global const int64_t *table, const given_t given)
{{
    __local {kind} rows[{SLICE * (high + 1)}];
    __local {vector} columns[{SLICE * wide // tile.lanes}];
    __global const int64_t *const args = table + given.at[{end.start}];
    __global const int64_t *const nest = args + {_NEST};
    const int64_t m = args[0], n = args[1], k = args[2], matrix = get_global_id(2);
    const int64_t top = get_group_id(1) * {high}, left = get_group_id(0) * {wide};
    const int across = get_local_id(0), down = get_local_id(1);
    const int64_t row = top + down * {tile.rows}, column = left + across * {tile.columns};
    const int64_t i0 = matrix / (args[4] * args[5]), i1 = matrix / args[5] % args[4],
        i2 = matrix % args[5];
    __global const {stored} *const from_a = (__global const {stored} *)(buffer0 + given.at[0])
        + i0 * args[{a}] + i1 * args[{a + 1}] + i2 * args[{a + 2}];
    __global const {stored} *const from_b = (__global const {stored} *)(buffer1 + given.at[1])
        + i0 * args[{b}] + i1 * args[{b + 1}] + i2 * args[{b + 2}];
    const int64_t a_row = args[{a + 3}], a_along = args[{a + 4}];
    const int64_t b_along = args[{b + 3}], b_column = args[{b + 4}];
    {end.sums}
    for (int64_t start = 0; start < k; start += {SLICE}) {{
        const int count = min((int64_t){SLICE}, k - start);
        /* Neighbours read what lies side by side in memory. */
        for (int at = down * {tile.side} + across; at < {SLICE * high}; at += {tile.side**2}) {{
            const int p = a_along == 1 ? at % {SLICE} : at / {high};
            const int line = a_along == 1 ? at / {SLICE} : at % {high};
            const int there = p < count && top + line < m;
            const {stored} x = from_a[there ? (top + line) * a_row + (start + p) * a_along : 0];
            rows[p * {high + 1} + line] = there ? {shown} : 0;
        }}
        for (int at = down * {tile.side} + across; at < {SLICE * wide}; at += {tile.side**2}) {{
            const int p = b_along == 1 ? at % {SLICE} : at / {wide};
            const int line = b_along == 1 ? at / {SLICE} : at % {wide};
            const int there = p < count && left + line < n;
            const {stored} x = from_b[there ? (start + p) * b_along + (left + line) * b_column : 0];
            ((__local {kind} *)columns)[p * {wide} + line] = there ? {shown} : 0;
        }}
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int p = 0; p < count; p++) {{
            __local const {kind} *const a = rows + p * {high + 1} + down * {tile.rows};
            __local const {vector} *const b
                = columns + p * {wide // tile.lanes} + across * {tile.vectors};
            {loads}
            {products(tile, vector, 12)}
        }}
        barrier(CLK_LOCAL_MEM_FENCE);
    }}
    if (row >= m || column >= n)
        return;
    {end.call}
}}
"""
