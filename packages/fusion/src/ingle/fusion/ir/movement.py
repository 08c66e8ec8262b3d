"""Movement by views and copies, for backends that have nothing but generated kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.dtypes import DType
from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.operation import Op

from ..kernel.code import CodeBuilder
from ..kernel.nest import MAX_OUTER, Nest, Operand, map_nest
from .merge_axes import lane_of, merged
from .views import View, from_the_front, moved

COPIES = frozenset({"join", "update"})
"""Accesses that are copies into parts of a result."""


def moved_view(op: Op, inputs: Sequence[Any], source: View) -> View | None:
    """What a movement of a view is as a view; None for a reshape that has to copy."""

    def first() -> list[int]:
        sizes, steps = op.attributes["sizes"], op.attributes["steps"]
        return first_places(op, source.shape, inputs[1:], sizes, steps)

    return moved(op, source, first)


def first_places(
    op: Op, shape: Sequence[int], starts: Sequence[Any], sizes: Sequence[int], steps: Sequence[int]
) -> list[int]:
    """Where a piece begins along each axis, counted from the first element.

    Raises:
        OutOfRangeError: the piece does not lie inside.
    """
    found = []
    for axis, (start, size, step) in enumerate(zip(starts, sizes, steps, strict=True)):
        assert isinstance(start, Scalar)
        length = shape[axis]
        given: Any = start.value  # a whole number
        first = from_the_front(given, length, size, step)
        if first is None:
            raise OutOfRangeError(
                f"{op.operation.name}: {size} elements from {given} in steps of {step} do not "
                f"lie inside of axis {axis} of size {length}"
            )
        found.append(first)
    return found


def pieces(
    op: Op, inputs: Sequence[Any], out: Aval, strides: Sequence[int]
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Which inputs are copied where: the input's number, the offset, and strides in elements."""
    if op.operation.traits.access == "join":
        axis, place = op.attributes["axis"], 0
        for number, x in enumerate(inputs):
            yield number, place * strides[axis], tuple(strides)
            place += x.shape[axis]
        return
    steps = op.attributes["steps"]
    first = first_places(op, out.shape, inputs[2:], inputs[1].shape, steps)
    yield 0, 0, tuple(strides)
    offset = sum(f * s for f, s in zip(first, strides, strict=True))
    yield 1, offset, tuple([s * t for s, t in zip(strides, steps, strict=True)])


def copy_calls(
    shape: Sequence[int], dtype: DType, source: Sequence[int], target: Sequence[int]
) -> Iterator[tuple[Nest, tuple[int, ...], list[int], tuple[int, int]]]:
    """Kernels that copy elements from strides to strides: the nest, its sizes and args, and how
    many bytes after the first elements of source and target it begins."""
    if 0 in shape:
        return
    size = dtype.itemsize
    axes = merged(shape, [source, target])
    sizes, (reads, writes) = axes.sizes or (1,), [s or (1,) for s in axes.strides]
    if size == 16:  # two words an element
        size, sizes = 8, (*sizes, 2)
        reads, writes = (*[2 * s for s in reads], 1), (*[2 * s for s in writes], 1)
    over = max(0, len(sizes) - 1 - MAX_OUTER)
    for places in _indices(sizes[:over]):
        start = sum(p * s for p, s in zip(places, reads, strict=False))
        begin = sum(p * s for p, s in zip(places, writes, strict=False))
        left = sizes[over:], reads[over:], writes[over:]
        nest = copy_nest(size, len(left[0]) - 1, lane_of(left[1][-1]), lane_of(left[2][-1]))
        yield nest, left[0], [*left[0], *left[1], *left[2]], (start * size, begin * size)


def _indices(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if not sizes:
        yield ()
        return
    for first in range(sizes[0]):
        for rest in _indices(sizes[1:]):
            yield (first, *rest)


@lru_cache(maxsize=256)
def copy_nest(size: int, outer: int, source: str, target: str) -> Nest:
    """A copy of elements of some bytes, whatever they mean."""
    dtype = f"uint{8 * size}"
    builder = CodeBuilder()
    code, (root,) = builder.finish(builder.load(0, dtype))
    operands = [Operand(dtype, False, source), Operand(dtype, True, target)]
    return map_nest(outer, operands, [], code, (1, root))
