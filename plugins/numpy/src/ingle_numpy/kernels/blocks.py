"""Elementwise formulas, a part at a time.

A formula of ten NumPy calls on a large array passes ten times through memory. On parts that fit a
core's cache it passes once, and what lies between the calls is small enough to be kept by the
allocator.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..memory import empty_like

Formula = Callable[..., Any]

BLOCK = 1 << 15
"""Elements of a part."""


def in_blocks(formula: Formula) -> Formula:
    """An elementwise function of arrays and scalars that is computed in parts.

    Arrays that broadcast or lie differently in memory are computed whole.
    """

    @functools.wraps(formula)
    def compute(*operands: Any) -> Any:
        arrays = [a for a in operands if a.ndim]
        if not arrays or arrays[0].size <= BLOCK or not (order := memory_order(arrays)):
            return formula(*operands)
        flat = [a.transpose(order).reshape(-1) if a.ndim else a for a in operands]
        out = filled = None
        for start in range(0, arrays[0].size, BLOCK):
            part = formula(*[a[start : start + BLOCK] if a.ndim else a for a in flat])
            if filled is None:
                out = empty_like(arrays[0], part.dtype, formula.__name__.strip("_"))
                filled = out.transpose(order).reshape(-1)
            filled[start : start + BLOCK] = part
        return out

    return compute


def memory_order(arrays: Sequence[np.ndarray]) -> tuple[int, ...] | None:
    """The axes in which all arrays, of one shape, are contiguous; None if there are none such."""
    first = arrays[0]
    order: tuple[int, ...] = tuple(range(first.ndim))
    if not first.flags.c_contiguous:
        order = tuple(sorted(order, key=lambda axis: -first.strides[axis]))
    alike = all(
        a.shape == first.shape and a.transpose(order).flags.c_contiguous for a in arrays
    )  # fmt: skip
    return order if alike else None


def row_blocks(rows: int, width: int) -> Iterator[slice]:
    """Slices of so many rows of a width that a part has about `BLOCK` elements."""
    step = max(1, BLOCK // max(1, width))
    return (slice(start, start + step) for start in range(0, rows, step))
