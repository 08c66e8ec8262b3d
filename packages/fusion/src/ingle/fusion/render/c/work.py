"""How the units of work of a nest are cut into work items, and into groups of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...kernel.nest import Nest, is_flat, units
from .groups import group_size, groups_of_unit, is_wide
from .vectors import vector_elements, vector_items

_ITEMS = 16
"""Work items for each compute unit of a processor: so many that the last ones are soon done."""
_GROUPS = 4
"""Groups for each compute unit of a GPU, where each iterates over all rows."""
_MOST_GROUPS = 1 << 24
"""Takers of units, each of some groups: drivers count groups in 31 bits."""
_ENOUGH = 1 << 14
"""Elements that are worth a second work item."""
_LINE = 16
"""Elements of flat memory that stay together in one work item."""


class Work(NamedTuple):
    """How a nest's units of work are cut.

    Attributes:
        items: how many work items there are.
        grain: units that each takes, or each group.
        group: work items of a group, where the kernel depends on it.
    """

    items: int
    grain: int
    group: tuple[int, ...] | None = None


def work_of(nest: Nest, sizes: Sequence[int], processors: int, wide: bool) -> Work:
    """How a nest's units of work are cut, on a device with so many processors.

    Args:
        wide: whether work items are many and small, and groups of them share rows.
    """
    count = units(nest, sizes)
    elements = math.prod(sizes)
    if wide and is_wide(nest):
        size = group_size(nest)
        takers = min(count, processors * _GROUPS if nest.scattered else _MOST_GROUPS)
        groups = takers * (groups_of_unit(nest, sizes[-2]) if nest.outer else 1)
        return Work(groups * size, -(-count // max(takers, 1)), (size,))
    if wide and vector_elements(nest):
        return Work(vector_items(nest, count), count)
    if wide:
        return Work(count, 1)
    items = max(1, min(count, processors * _ITEMS, elements // _ENOUGH))
    if nest.scattered:  # each of them iterates over all rows
        items = min(items, processors)
    grain = -(-count // items)
    if is_flat(nest):
        grain = -(-grain // _LINE) * _LINE
    return Work(-(-count // max(grain, 1)), grain)
