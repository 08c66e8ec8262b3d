"""What is multiplied, how it is computed, and what a measurement may change about that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.kernels import Windows
from ingle.tensor.static_values import largest, smallest

from .machine import multiplies_pairs, multiplies_tiles, takes_quads
from .tile import BYTES, QUADS, TILES, WORDS, Tile

DEPTH = 1024
"""How much of k is packed at once."""
FEWEST_OF_TILES = 4
"""Rows and columns from which on registers of tiles, which have 16 of each, are worth filling."""


class Problem(NamedTuple):
    """The operands of a contraction.

    Attributes:
        a_dtype, b_dtype: float32, float64, float16 or bfloat16, one for both; or int8 and uint8.
        batch: sizes of the batch axes, at most three.
        m, n, k: rows of a, columns of b, and what is summed over.
        a_strides: in elements along the batch axes, i and k; 0 repeats.
        b_strides: along the batch axes, k and j.
        windows: what b is made of, if it is no matrix in memory.
    """

    a_dtype: str
    b_dtype: str
    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    a_strides: tuple[int, ...]
    b_strides: tuple[int, ...]
    windows: Windows | None = None

    @property
    def turns(self) -> int:
        """How often k is gone through."""
        return 1 if self.windows is None else self.windows.turns

    @property
    def packed_kind(self) -> str:
        """The kind of tile that takes it from panels; its sizes and dtypes decide."""
        dtypes = self.a_dtype, self.b_dtype
        tiles = TILES.get(dtypes)
        if tiles and self._fills_tiles(tiles) and multiplies_tiles(self.a_dtype):
            return tiles
        if self.a_dtype in BYTES:
            return QUADS[dtypes] if takes_quads(self.k) else WORDS
        pairs = dtypes == ("bfloat16", "bfloat16") and self._has_whole(2) and multiplies_pairs()
        return "pairs" if pairs else "packed"

    def _has_whole(self, numbers: int) -> bool:
        """Whether k is made of elements of so many numbers."""
        return self.k > 0 and self.k % numbers == 0 and self.windows is None

    def _fills_tiles(self, kind: str) -> bool:
        whole = self._has_whole(Tile(kind, 1, 1).numbers)
        return whole and min(self.m, self.n) >= FEWEST_OF_TILES

    @property
    def at_once(self) -> int:
        """How many turns are packed one behind the other, so that tiles sum over all of them."""
        return smallest(self.turns, largest(1, DEPTH // largest(self.k, 1)))


class Choice(NamedTuple):
    """How a problem is computed.

    Attributes:
        tile: the shape in registers and how it reads.
        pack_a: `"before"` all in an entry of its own, `"local"` for each unit of work, or `""`.
            Tiles that take rows get rows as they are multiplied, others panels.
        pack_b: the same for panels of columns of b. Packed tiles need both. Or `"padded"`: the unit
            copies its part of an image between zeros, where tiles of the kinds "sliding" and
            "stacked" read it; or `"flat"`: these slide over the ends of its rows.
        row_blocks, panel_blocks: into how many units of work rows and columns are divided.
        near: panels of columns that all rows of a unit go by before the next ones.
    """

    tile: Tile
    pack_a: str
    pack_b: str
    row_blocks: int
    panel_blocks: int
    near: int

    @property
    def slides(self) -> bool:
        """Whether tiles slide along a copy of an image."""
        return self.pack_b in ("padded", "flat")

    @property
    def takes_rows(self) -> bool:
        """Whether tiles read each row of a along k, wherever that comes from."""
        return self.slides or self.tile.kind == "dot"


class Variation(NamedTuple):
    """What a measurement may change about the first guess; all give the same bits.

    Attributes:
        vectors: of a tile, along columns.
        pack_a, pack_b: as in `Choice`.
        scale: how many more or fewer columns of b a unit of work holds.
    """

    vectors: int
    pack_a: str
    pack_b: str
    scale: float


def three_steps(strides: Sequence[int], size: int) -> list[int]:
    """Bytes along three batch axes, of strides that end with those of rows and columns."""
    found = [stride * size for stride in strides[:-2]]
    return [0] * (3 - len(found)) + found


def three(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    """Batch sizes as three."""
    if len(sizes) > 3:
        raise ValueError(f"{len(sizes)} batch axes; merge them, at most 3 are possible")
    first, second, third = (1,) * (3 - len(sizes)) + sizes
    return first, second, third
