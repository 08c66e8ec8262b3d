"""Entries that pack a whole operand before the contraction begins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.kernels import SIZES

from .blocking import three
from .code import pack_addresses
from .machine import target
from .panel_elements import NUMBERS, Form, compute_dtype
from .panels import PANEL_ARGS, SLAB
from .plan import EntrySpec, Pointer

WORTH = 16384
"""Numbers that a worker should have to copy at least."""


class Packing(NamedTuple):
    """An operand and its panels.

    Attributes:
        dtype: of the operand in memory.
        batch, strides: sizes of the batch axes; bytes along them, along k and along i.
        extent: its rows (of a) or columns (of b).
        depth: of k, in elements of panels.
        width, last: of panels and of the last one.
        form: of the elements of panels.
    """

    dtype: str
    batch: tuple[int, ...]
    strides: tuple[int, ...]
    extent: int
    depth: int
    width: int
    last: int
    form: Form = "single"

    @property
    def panels(self) -> int:
        return -(-self.extent // self.width)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Batch sizes; axes along which the operand repeats are packed once."""
        steps = self.steps
        n = three(self.batch)
        return tuple(n if s else 1 for n, s in zip(n, steps, strict=True))  # type: ignore[return-value]

    @property
    def steps(self) -> tuple[int, int, int]:
        """Bytes along three batch axes."""
        given = self.strides[: len(self.batch)]
        first, second, third = (0,) * (3 - len(given)) + given
        return first, second, third

    @property
    def matrix(self) -> int:
        """Bytes of a packed matrix."""
        numbers = (max(self.panels - 1, 0) * self.width + self.last) * self.depth
        return -(-numbers * SIZES[compute_dtype(self.dtype)] // 64) * 64

    @property
    def nbytes(self) -> int:
        """Bytes of all packed matrices."""
        return max(64, math.prod(self.sizes) * self.matrix)

    @property
    def packed_steps(self) -> tuple[int, int, int]:
        """Bytes along three batch axes of what was packed; 0 where it repeats."""
        found = []
        one = self.matrix
        for n, step in zip(reversed(self.sizes), reversed(self.steps), strict=True):
            found.append(one if step else 0)
            one *= n
        third, second, first = found
        return first, second, third

    def entry(self, pointers: Sequence[Pointer], *, independent: bool = False) -> EntrySpec:
        """The kernel that packs it, from the first pointer to the second."""
        outer, inner = self.strides[-2:]
        along_k = outer == SIZES[self.dtype] * NUMBERS[self.form]
        # Memory along k is read panel by panel, in one go.
        slab = max(self.depth, 1) if along_k else SLAB
        slabs = max(1, -(-self.depth // slab))
        values = {
            "panels": max(self.panels, 1), "slabs": slabs, "slab": slab, "depth": self.depth,
            "count": self.extent, "width": self.width, "last_width": self.last,
            "outer": outer, "inner": inner, "to_matrix": self.matrix,
            "batch1": max(self.sizes[1], 1), "batch2": max(self.sizes[2], 1),
            "from0": self.steps[0], "from1": self.steps[1], "from2": self.steps[2],
        }  # fmt: skip
        _, function = pack_addresses(self.dtype, self.form, target())
        units = math.prod(self.sizes) * self.panels * slabs
        one = max(1, self.width * min(slab, max(self.depth, 1)))
        # A unit's neighbours are the panels beside it, which lie in the same pages.
        grain = max(1, WORTH // one) if along_k else max(self.panels, WORTH // one, 1)
        args = tuple(values[name] for name in PANEL_ARGS)
        return EntrySpec(function, tuple(pointers), args, units, grain, independent)
