"""Axes that are split into others, and strides along those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from .merge_axes import merged
from .views import View

Runs: TypeAlias = "tuple[tuple[int, ...], ...]"
"""For each axis the numbers of the axes that it is split into."""


def runs(sizes: Sequence[int], finer: Sequence[int]) -> Runs | None:
    """For each axis of a shape the finer axes that it is split into; None where these are no split.

    >>> runs((6, 5), (2, 3, 5)), runs((6, 5), (3, 10))
    (((0, 1), (2,)), None)
    """
    found: list[list[int]] = []
    at = 0
    for size in sizes:
        found.append([])
        count = 1
        while count != size:
            if at == len(finer):
                return None
            count *= finer[at]
            found[-1].append(at)
            at += 1
    if any(n != 1 for n in finer[at:]) or not found:
        return None
    found[-1].extend(range(at, len(finer)))
    return tuple([tuple(run) for run in found])


def strides_within(parts: Runs, finer: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides along the axes that others are split into.

    >>> strides_within(((0, 1), (2,)), (2, 3, 5), (10, 1))
    (30, 10, 1)
    """
    found = [0] * len(finer)
    for run, stride in zip(parts, strides, strict=True):
        for axis in reversed(run):
            found[axis] = stride
            stride *= finer[axis]
    return tuple(found)


def one_stride(sizes: Sequence[int], strides: Sequence[int]) -> int | None:
    """The stride along axes that are walked as one; None where there is no such stride.

    >>> one_stride((2, 3), (12, 4)), one_stride((2, 3), (0, 4))
    (4, None)
    """
    axes = merged(sizes, [strides])
    if len(axes.sizes) > 1:
        return None
    return axes.strides[0][0] if axes.sizes else 0


def strides_along(view: View, places: Sequence[int | None], count: int) -> tuple[int, ...]:
    """A view's strides along so many loops; `places` are those that its axes run along."""
    strides = [0] * count
    for size, stride, place in zip(view.shape, view.strides, places, strict=False):
        if place is not None and size != 1:
            strides[place] = stride
    return tuple(strides)
