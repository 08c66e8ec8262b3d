"""How attention is cut into blocks, and the tiles that multiply these."""

from __future__ import annotations

import math
from typing import NamedTuple

from ingle.tensor.static_values import smallest

from ..matmul.machine import target
from ..matmul.microkernel import lanes_of, most_rows, most_vectors
from ..matmul.tile import Tile

QUERIES = 48
"""Queries of a block, about: their scores by a block of keys stay in the second-level cache."""
KEYS = 512
"""Keys of a block, about, forward."""
SQUARE = 48
"""Queries and keys of a block, about, backward: there are two matrices of that size."""


class Tiling(NamedTuple):
    """Shapes in registers.

    Attributes:
        rows: of a tile.
        vectors: of a tile.
        lanes: numbers of a vector.
    """

    rows: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """Columns of a tile, and of a panel."""
        return self.vectors * self.lanes

    @property
    def square(self) -> int:
        """Of how many a block of keys is a multiple, whose columns and rows are in tiles."""
        return math.lcm(self.rows, self.width)

    def tile(self, kind: str, columns: int | None = None) -> Tile:
        """A tile of so many columns, as wide as a panel if None."""
        vectors = self.vectors if columns is None else -(-columns // self.lanes)
        return Tile(kind, self.rows, vectors)

    def panels(self, columns: int) -> int:
        """Panels of so many columns."""
        return -(-columns // self.width)

    def last(self, columns: int) -> int:
        """Columns of the last panel, in whole vectors."""
        left = columns - (self.panels(columns) - 1) * self.width
        return -(-left // self.lanes) * self.lanes


def tiling(dtype: str) -> Tiling:
    """The tiles for products of a dtype on this machine."""
    machine = target()
    vectors = most_vectors(machine)
    rows = min(most_rows(machine, vectors, "direct"), most_rows(machine, vectors))
    return Tiling(rows, vectors, lanes_of(dtype, machine))


def rounded(size: int, step: int, most: int) -> int:
    """A multiple of a step near a size, no more than it takes for `most`."""
    near = max(1, round(size / step)) * step
    return smallest(near, -(-most // step) * step)
