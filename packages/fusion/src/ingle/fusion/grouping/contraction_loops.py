"""Loops of a product: the axes that its rows are made of, and where its results may lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ingle.tensor.operation import Op
from ingle.tensor.ops.convolution.window_products import WINDOW_OUTER, WINDOW_PRODUCT

from ..ir.split_axes import one_stride, runs, strides_along
from ..ir.views import View

if TYPE_CHECKING:
    from .group import Group

MOST_BATCH_AXES = 3

Loops: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]"
"""Sizes of loops, and which of them are a product's rows and its columns."""


def loops_of(shape: tuple[int, ...], seen: View | None) -> Loops:
    """The loops of a product of a shape.

    Args:
        shape: of the product.
        seen: how it is read. If that splits batch and rows into several axes, loops run along
            these.
    """
    if seen is not None and seen.contiguous and seen.shape[-1:] == shape[-1:]:
        parts = runs(shape[:-1], seen.shape[:-1]) or ((),)
        if parts[-1]:
            return seen.shape, parts[-1], (len(seen.shape) - 1,)
    return shape, (len(shape) - 2,), (len(shape) - 1,)


def window_loops(op: Op, shape: tuple[int, ...]) -> Loops | None:
    """The loops of a product with windows, whose columns are places or taps of these."""
    if op.operation is WINDOW_PRODUCT:
        return shape, (1,), tuple(range(2, len(shape)))
    if op.operation is WINDOW_OUTER:
        return shape, (0,), tuple(range(1, len(shape)))
    return None


def row_stride(group: Group, strides: Sequence[int]) -> int | None:
    """The stride along the rows of a product, which run as one axis; None if there is none."""
    return one_stride([group.space[a] for a in group.rows], [strides[a] for a in group.rows])


def column_stride(group: Group, strides: Sequence[int]) -> int | None:
    """The same along its columns."""
    if len(group.columns) == 1:
        return strides[group.columns[0]]
    return one_stride([group.space[a] for a in group.columns], [strides[a] for a in group.columns])


def keeps_rows(group: Group, places: Sequence[int]) -> bool:
    """Whether what a product makes can lie in memory with its long axes in this order.

    Rows of memory have to be rows of the product, and its rows may have to be one axis.
    """
    order = [a for a, n in enumerate(group.space) if n != 1]
    if list(places) == order:
        return True
    whole = len(group.rows) == 1 and group.space[-1] != 1 and len(group.columns) == 1
    return whole and sorted(places) == order and places[-1] == order[-1]


def can_write(group: Group, value: int, place: View) -> bool:
    """Whether a product can write a value of its group as a part of another one."""
    strides = strides_along(place, group.coordinates[value], len(group.space))
    batch = [n for n in group.space[: group.rows[0]] if n != 1]
    step = column_stride(group, strides)
    if row_stride(group, strides) is None or step is None or len(batch) > MOST_BATCH_AXES:
        return False
    return step == 1 or all(group.space[a] == 1 for a in group.columns)
