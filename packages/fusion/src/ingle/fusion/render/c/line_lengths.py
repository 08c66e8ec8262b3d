"""How warps take the lines of a matrix that are summed with vectors; see `line_rows`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...kernel.code import SIZES
from ...kernel.nest import BLOCK, Nest, Reduce, Row, layout
from .held_lengths import CHUNK, SPAN, STEP, WARP, WHOLE, adds_floats, may_hold
from .vectors import BYTES

_MOST_EACH = 8
"""Neighbours of a lane, each of which has a partial result of each sum."""
_MOST_EACH_LONG = 4
"""Of rows of several blocks of sums, so that more warps share them out."""
_WIDEST = 4
"""Bytes of an element."""
_REGISTERS = 128
"""For lines on their way, those of these steps and of the next ones."""
_FEWER_REGISTERS = 96
"""The same beside the partial results of several vectors' sums."""
_ON_THE_WAY = 64 << 10
"""Bytes of matrices that a multiprocessor's warps have on their way: of more, each comes later, and
the warps that come last have the others wait."""
_MOST_WARPS = 16
"""Warps of a multiprocessor that have registers for that at a time."""
_ENOUGH_WARPS, _ENOUGH_WARPS_LONG = 7, 3
"""Warps of a multiprocessor below which lanes take fewer neighbours, so that there are more; where
rows have several blocks of sums, each warp is at work for longer."""
_BALANCED = 4
"""Warps of a multiprocessor up to which each is a block, so that none gets many more than another.
"""
_WARPS = 4
"""Of a block where there are more."""
_MOST_VECTORS = 8
"""With which a line of a matrix is summed while it is in registers."""
_PARTIALS = 16
"""Partial results of a lane that it has of several vectors' sums, where these are not so many."""
_LONGEST_CODE = 24
"""Instructions for an element: they are written some hundred times."""


class Lines(NamedTuple):
    """How warps take the rows of a launch: each line of a matrix with one vector or several.

    Attributes:
        shared: operands that are the same for all lines: the vectors.
        each: neighbours of a lane.
        steps: how many of a lane's lines of each operand are a buffer.
        warps: of a block of threads.
        vectors: with which each line is summed.
        along: the outer axis along which there are several, which is the first or the last one.
    """

    shared: tuple[int, ...]
    each: int
    steps: int
    warps: int
    vectors: int = 1
    along: int = 0

    @property
    def lanes(self) -> int:
        """Lanes that hold the partial results of a line."""
        return SPAN // self.each

    @property
    def rows(self) -> int:
        """Lines of a warp."""
        return WARP // self.lanes


def lines_of(nest: Nest, numbers: Sequence[int], processors: int, beside: int = 0) -> Lines | None:
    """How warps take the rows of a launch; None where they are no rows of a matrix with a vector.

    Args:
        nest: its kernel's.
        numbers: sizes, then strides, as `layout` says.
        processors: multiprocessors of the GPU.
        beside: rows of other launches at the same time.
    """
    if not _reads_once(nest):
        return None
    places, axes = layout(nest), range(nest.outer)
    sizes, length = numbers[: nest.outer], numbers[places.inner]
    steps = {
        k: [numbers[places.stride(k, axis)] for axis in axes]
        for k, operand in enumerate(nest.operands)
        if operand.lane == "unit"
    }
    along = _axis_of_vectors(nest, sizes, steps)
    vectors = 1 if along is None else sizes[along]
    shared = tuple([k for k, own in steps.items() if not _lies_along(own, along)])
    bytes_of = {k: SIZES[nest.operands[k].dtype] for k in steps}
    of_vectors = vectors * sum([bytes_of[k] for k in shared])
    of_matrix = sum([n for k, n in bytes_of.items() if k not in shared])
    count = (math.prod(sizes) + beside) // vectors
    if not shared or not of_matrix or length < STEP or length % STEP or not count:
        return None
    if max(bytes_of.values()) > _WIDEST:
        return None
    most = min(BYTES // max([n for k, n in bytes_of.items() if k not in shared]), _MOST_EACH)
    most = most if length <= WHOLE else min(most, _MOST_EACH_LONG)
    sums = vectors * sum([len(s.reductions) for s in nest.stages if isinstance(s, Reduce)])
    most = most if vectors == 1 else min(most, max(_PARTIALS // sums, 2))
    each = next((n for n in (8, 4, 2) if n <= most and not _splits(n, steps)), 0)
    enough = _ENOUGH_WARPS if length <= WHOLE else _ENOUGH_WARPS_LONG
    while each > 2 and _warps(each, count) < enough * processors:
        each //= 2
    if not each:
        return None
    warps = _warps(each, count)
    on_the_way = WARP * each * of_matrix * min(-(-warps // processors), _MOST_WARPS)
    held, ahead = each * (of_matrix + of_vectors), CHUNK
    registers = _REGISTERS if vectors == 1 else _FEWER_REGISTERS
    if vectors > 1 and ahead * held > 2 * _REGISTERS:
        return None
    while (
        2 * ahead <= BLOCK // 2
        and ahead * held <= registers
        and 4 * ahead * on_the_way <= _ON_THE_WAY
    ):
        ahead *= 2
    each_block = 1 if warps <= _BALANCED * processors else _WARPS
    return Lines(shared, each, ahead, each_block, vectors, along or 0)


def early_operands(nest: Nest, lines: Lines) -> tuple[int, ...]:
    """The operands of which lines are asked for before a kernel waits for those in front of it."""
    sums = [stage for stage in nest.stages if isinstance(stage, Reduce)]
    read = {i.value for i in sums[0].code if i.name == "load"}
    found = [k for k in range(len(nest.operands)) if k in read and is_apart(nest, k, lines)]
    known = all(nest.operands[k].row_base is None for k in found)
    return tuple(found) if known else ()


def is_apart(nest: Nest, k: int, lines: Lines) -> bool:
    """Whether an operand has elements of its own in each row."""
    return nest.operands[k].lane == "unit" and k not in lines.shared


def _axis_of_vectors(
    nest: Nest, sizes: Sequence[int], steps: Mapping[int, Sequence[int]]
) -> int | None:
    """The outer axis along which there are the few vectors of a matrix; None where what all rows
    share is one vector, or nothing.

    Args:
        steps: strides along outer axes of operands that have elements of their own at each place.
    """
    if not all(any(own) for own in steps.values()) or not _sums_places_alone(nest):
        return None
    found = [
        axis
        for axis in (0, nest.outer - 1)
        if 1 < sizes[axis] <= _MOST_VECTORS
        and all(not own[axis] or not _lies_along(own, axis) for own in steps.values())
    ]
    return min(found, key=lambda axis: sizes[axis], default=None)


def _lies_along(own: Sequence[int], but: int | None) -> bool:
    """Whether an operand has strides along outer axes but for one."""
    return any(step for axis, step in enumerate(own) if axis != but)


def _sums_places_alone(nest: Nest) -> bool:
    """Whether sums depend on nothing that is once a row, nor does what is there on another such."""
    summed = [i for stage in nest.stages if isinstance(stage, Reduce) for i in stage.code]
    return not any(i.name == "row" for stage in nest.stages for i in stage.code) and not any(
        i.name == "result"
        or (i.name == "index" and i.value != -1)
        or (i.name == "load" and nest.operands[i.value].lane != "unit")
        for i in summed
    )


def _splits(each: int, steps: Mapping[int, Sequence[int]]) -> bool:
    """Whether rows begin within so many neighbours."""
    return any(step % each for own in steps.values() for step in own)


def _warps(each: int, rows: int) -> int:
    """How many warps take some rows."""
    return -(-rows * SPAN // (WARP * each))


def _reads_once(nest: Nest) -> bool:
    """Whether a nest does nothing but sum floats over rows, which it doesn't read again."""
    if not nest.outer or not may_hold(nest):
        return False
    stages = [stage for stage in nest.stages if not isinstance(stage, Row)]
    return all(
        isinstance(stage, Reduce) and adds_floats(stage) and not stage.columns
        and len(stage.code) <= _LONGEST_CODE
        and not any(i.name == "load" and nest.operands[i.value].output for i in stage.code)
        for stage in stages
    )  # fmt: skip
