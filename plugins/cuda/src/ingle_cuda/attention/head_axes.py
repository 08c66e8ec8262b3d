"""The axes of attention's heads, and how operands lie along them."""

from __future__ import annotations

from collections.abc import Sequence

from ingle.fusion.device.kernels import SIZES

from ..cudnn import Strides
from ..row_lines import BYTES

BATCH = 3
"""Axes of the heads of keys and values."""


def along(sizes: Sequence[int], shape: Sequence[int], strides: Strides) -> Strides:
    """Strides along axes that an operand is broadcast to.

    >>> along((2, 3, 4), (1, 4), (4, 1))
    (0, 0, 1)
    """
    own = [0 if n == 1 else step for n, step in zip(shape, strides, strict=True)]
    return (*[0] * (len(sizes) - len(shape)), *own)


def head_axes(
    lead: Sequence[int], lying: Sequence[Strides], shared: Sequence[bool]
) -> tuple[tuple[int, ...], tuple[int, ...], list[Strides]]:
    """The axes of heads: those of keys and values, and those of queries that share one.

    Axes that lie behind each other in all operands are one.

    Args:
        lead: sizes of the axes of heads.
        lying: strides of each operand along these and its last two axes.
        shared: for each axis whether all queries along it share keys and values.

    Returns:
        Sizes of both, and for each operand its strides along `BATCH` axes, the group, and the last
        two.

    >>> strides = (24, 12, 4, 1), (12, 0, 4, 1), (12, 0, 4, 1)
    >>> head_axes((5, 2), strides, (False, True))[:2]
    ((5,), (2,))
    """
    found: tuple[list[int], list[int]] = [], []
    steps: tuple[list[list[int]], list[list[int]]] = [], []
    for axis, size in enumerate(lead):
        if size == 1:
            continue
        here = [strides[axis] for strides in lying]
        sizes, before = found[shared[axis]], steps[shared[axis]]
        if sizes and all(a == b * size for a, b in zip(before[-1], here, strict=True)):
            sizes[-1] *= size
            before[-1] = here
        else:
            sizes.append(size)
            before.append(here)
    every: list[Strides] = []
    for n, strides in enumerate(lying):
        batch, group = ([of_axis[n] for of_axis in kind] for kind in steps)
        missing = BATCH - len(batch)
        every.append((*[0] * missing, *batch, *(group or [0]), *strides[-2:]))
    return tuple(found[0]), tuple(found[1]), every


def vector(dtype: str, elements: int, strides: Strides, offset: int) -> int:
    """How many elements of rows that lie so can be loaded at once.

    Args:
        elements: of a row.
        offset: of the first row from a multiple of 16 bytes, in bytes.

    >>> vector("float32", 64, (256, 1), 0), vector("float32", 64, (256, 1), 8)
    (4, 2)
    """
    size = SIZES[dtype]
    *steps, column = strides
    if column != 1:
        return 1
    found = BYTES // size
    while any(n % found for n in (elements, offset // size, *steps)):
        found //= 2
    return found
