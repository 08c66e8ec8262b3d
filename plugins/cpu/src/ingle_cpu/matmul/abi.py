"""Arguments of the kernels of products: of `contract`, with its scratch memory, and of tiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

ADDRESSES = ("micro", "last_micro", "epilogue", "pack_a", "pack_b", "pad", "release")
"""Of the arguments, those that are addresses of code; the last four may be 0."""

T = TypeVar("T")


class DriverArgs(NamedTuple, Generic[T]):
    """The arguments of `contract`: numbers for a call, and their names in its code.

    Behind them are the `WindowArgs`, if b is made of windows, the column strides of the epilogue's
    operands, the numbers of those that are fetched (as many as there are operands), and the
    epilogue's arguments.

    The kernel's pointers are a, b, the scratch memory, and the epilogue's operands. The worker's
    scratch holds the epilogue's arguments, and `pointers_at` bytes further its pointers.
    """

    micro: T
    last_micro: T
    epilogue: T
    pack_a: T  # packs rows of a unit
    pack_b: T  # packs panels of columns
    pad: T  # copies the unit's part of an image, where tiles read windows from it
    release: T  # lets go of registers of tiles
    window_args: T  # how many arguments say what b's windows are; 0 if it is a matrix in memory
    turns: T  # how often k is gone through
    at_once: T  # turns whose rows of a panel lie one behind the other
    a_turn: T  # bytes from turn to turn
    b_turn: T
    plain: T  # the epilogue only stores, so that whole tiles go to the result at once
    m: T
    n: T
    k: T
    rows: T  # of a tile
    width: T  # of a panel of columns
    last_width: T  # of the last one
    tiles: T  # of rows
    row_blocks: T  # units of them
    panels: T
    panel_blocks: T  # units of them
    block_panels: T  # of the largest unit
    near: T  # panels that rows go by at once
    depth: T  # taken at once
    depth_block: T  # summed at once
    group: T  # panels before the epilogue is called
    size: T  # bytes of a number in tiles
    a_row: T  # bytes in a along i where it lies
    a_k: T  # the same along k
    a_tile: T  # from tile to tile
    a_step: T  # along k as tiles read them
    b_panel: T  # in b as tiles read it
    b_step: T
    last_b_step: T  # the last panel is another one
    b_k: T  # bytes along k where b lies, for packing
    b_j: T  # the same along j
    c_row: T  # bytes along i of the result, for plain ones
    batch1: T
    batch2: T
    a0: T  # bytes along batch axes
    a1: T
    a2: T
    b0: T
    b1: T
    b2: T
    c0: T
    c1: T
    c2: T
    b_next: T  # bytes to the matrix of b that the next unit reads, or 0
    worker_bytes: T  # of scratch memory
    pointers_at: T  # places in it; args lie first
    tile_at: T
    packed_at: T
    panel_at: T
    sums_at: T
    offsets_at: T  # where every k is in the copy of an image: int32, in bytes
    wide: T  # of that copy, and the rest of `Padded`; 0 if there is none
    origin: T
    pitch: T
    turns_of_rows: T
    turn: T
    apart: T
    low: T
    span: T
    down: T  # image rows from one row of places to the next
    b_vector: T  # bytes in that copy from a tile's row of places to the next, if it has several
    tile_vector: T  # the same in the result
    across: T
    channel: T  # bytes from channel to channel
    along: T  # panels that a row of places has
    flat: T  # whether panels go over the ends of rows
    columns: T  # n, or columns of the copy that they do so along
    over: T  # columns that the last panel of a row, or of all, has behind its end
    operands: T  # of the epilogue, the tile not counted
    fetched: T  # how many of them tiles fetch ahead
    asked: T  # how many more are asked for before each group of tiles
    fetched_row: T  # bytes of a row of these
    nest_args: T  # of the epilogue: how many
    inner_at: T  # where among them n is
    column_at: T  # where j is, or -1


_PARAMETERS = {
    "a": "ptr", "a_row": "i64", "last": "i64", "b": "ptr", "b_step": "i64", "columns": "i64",
    "depth": "i64", "tile": "ptr", "tile_row": "i64", "add": "i64", "soon": "ptr",
    "b_vector": "i64", "tile_vector": "i64",
}  # fmt: skip
"""Of a tile; `microkernel.py` says what they mean."""


def parameters(values: Mapping[str, str] | None = None) -> str:
    """The parameters of every tile, or the arguments of a call."""
    given = values or {name: f"%{name}" for name in _PARAMETERS}
    return ", ".join(f"{kind} {given[name]}" for name, kind in _PARAMETERS.items())
