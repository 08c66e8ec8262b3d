"""Entries that pack a whole operand before the contraction begins."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingle.fusion.device.kernels import SIZES
from ingle.tensor.static_values import largest, smallest

from .code import pack_addresses
from .machine import target
from .packing import Packing
from .panels import PANEL_ARGS, SLAB
from .plan import EntrySpec, Pointer
from .tile import NUMBERS

WORTH = 16384
"""Numbers that a worker should have to copy at least."""


def packed(
    packing: Packing, pointers: Sequence[Pointer], *, independent: bool = False
) -> EntrySpec:  # fmt: skip
    """The kernel that packs an operand, from the first pointer to the second."""
    outer, inner = packing.strides[-2:]
    along_k = outer == SIZES[packing.dtype] * NUMBERS[packing.form]
    # Memory along k is read panel by panel, in one go.
    depth = largest(packing.depth, 1)
    slab = depth if along_k else SLAB
    slabs = -(-depth // slab)
    values = {
        "panels": largest(packing.panels, 1), "slabs": slabs, "slab": slab, "depth": packing.depth,
        "count": packing.extent, "width": packing.width, "last_width": packing.last,
        "outer": outer, "inner": inner, "to_matrix": packing.matrix,
        "batch1": max(packing.sizes[1], 1), "batch2": max(packing.sizes[2], 1),
        "from0": packing.steps[0], "from1": packing.steps[1], "from2": packing.steps[2],
    }  # fmt: skip
    _, function = pack_addresses(packing.dtype, packing.form, target())
    units = math.prod(packing.sizes) * packing.panels * slabs
    one = packing.width * smallest(slab, depth)
    # A unit's neighbours are the panels beside it, which lie in the same pages.
    grain = largest(1, WORTH // one)
    if not along_k:
        grain = largest(grain, packing.panels)
    args = tuple(values[name] for name in PANEL_ARGS)
    return EntrySpec(function, tuple(pointers), args, units, grain, independent)
