"""A group: operations that become one kernel, with the loops that they share.

A group has a *space*, the sizes of its loop axes. Each value that is computed in it has
*coordinates*: for each of its axes the loop axis that runs along it. An operation can use a value
of its own group in a register if it needs it at the very place where the loop stands, which is
what coordinates say; views in between only permute, drop and add them.

An axis that the group reduces over is *inner*: values that depend on it are computed at every
place of a row, others once a row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

Coordinates: TypeAlias = "tuple[int | None, ...]"
"""For each axis of a value the axis of the group's space, or None for an axis of size 1."""


@dataclass(eq=False, slots=True)
class Group:
    """Operations that become one kernel.

    Attributes:
        kind: `"nest"`, `"contraction"`, `"assembly"` for a result that is put together from pieces,
            or `"host"` for an operation that the backend runs itself.
        nodes: positions of the graph's nodes, in order.
        space: sizes of the loop axes.
        inner: the axes that are reduced over, if any.
        lanes: where vector lanes run, if something is reduced; see `Nest`. How a sum is ordered
            follows from that and from the order of its axes, so that it is the sum's own.
        coordinates: of each value that is computed here.
        rounded: values that are rounded to their dtype here although they are not stored here.
        rows: of a product the axes that its rows run along, which loops walk as one.
        columns: likewise of its columns.
        reads: how often its operations read what it does not compute.
    """

    kind: str
    nodes: list[int]
    space: tuple[int, ...] = ()
    inner: frozenset[int] | None = None
    lanes: str | None = None
    coordinates: dict[int, Coordinates] = field(default_factory=dict)
    rounded: set[int] = field(default_factory=set)
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    reads: int = 0
