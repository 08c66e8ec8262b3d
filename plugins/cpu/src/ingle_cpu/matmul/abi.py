"""What the kernel `contract` is given: the order of its arguments, and its scratch memory."""

from __future__ import annotations

ADDRESSES = ("micro", "last_micro", "epilogue", "pack_a", "pack_b")
"""Of code; the last two may be 0: what packs rows of a unit, and panels of columns."""
ARGS = (
    *ADDRESSES,
    "plain",  # the epilogue only stores, so that whole tiles go to the result at once
    "m", "n", "k",
    "rows",  # of a tile
    "width", "last_width",  # of a panel of columns and of the last one
    "tiles", "row_blocks", "panels", "panel_blocks",  # tiles of rows, panels; units of them
    "block_panels",  # of the largest unit
    "near",  # panels that rows go by at once
    "depth", "depth_block",  # taken at once, and summed at once
    "group",  # panels before the epilogue is called
    "size",  # bytes of a number in tiles
    "a_row", "a_k",  # bytes in a along i and k where it lies
    "a_tile", "a_step",  # from tile to tile, and along k as tiles read them
    "b_panel", "b_step", "last_b_step",  # in b as tiles read it; the last panel is another one
    "b_k", "b_j",  # bytes along k and j where b lies, for packing
    "c_row",  # bytes along i of the result, for plain ones
    "batch1", "batch2",
    "a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1", "c2",  # bytes along batch axes
    "b_next",  # bytes to the matrix of b that the next unit reads, or 0
    "worker_bytes",  # of scratch memory
    "tile_at", "packed_at", "panel_at", "sums_at",  # places in it; args and pointers lie first
    "operands",  # of the epilogue, the tile not counted
    "fetched", "fetched_row",  # how many of them tiles fetch ahead, and bytes of a row of these
    "nest_args", "inner_at", "column_at",  # of the epilogue: how many, where n and j are (or -1)
)  # fmt: skip
"""The arguments; behind them the column strides of the epilogue's operands, the numbers of those
that are fetched (as many as there are operands), and the epilogue's arguments.

The kernel's pointers are a, b, the scratch memory, and the epilogue's operands. The worker's
scratch holds the epilogue's arguments, and `POINTERS_AT` further its pointers.
"""

POINTERS_AT = 1024
MAX_NEST_ARGS = POINTERS_AT // 8
