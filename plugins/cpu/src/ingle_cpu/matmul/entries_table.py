"""Kernel calls of a product as a table that runs by itself: to measure it, or to pack a weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..threads.abi import WITH_PREVIOUS
from ..threads.table import Table, TableEntry
from .plan import EntrySpec, Pointer


def entries_table(
    specs: Sequence[EntrySpec], places: Mapping[Pointer, tuple[int, int]], *, alone: bool = False
) -> Table:
    """The table of some entries, whose bases are yet to be set.

    Args:
        specs: the entries.
        places: of each pointer the number of its buffer, and how many bytes into that.
        alone: on one thread, so that no entry is split.
    """
    entries: list[TableEntry] = []
    pointers: list[tuple[int, int]] = []
    args: list[int] = []
    for spec in specs:
        grain = max(spec.units, 1) if alone else spec.grain
        flags = WITH_PREVIOUS if spec.independent else 0
        first = len(pointers), len(args)
        entries.append(TableEntry(spec.function, *first, spec.units, grain, flags))
        pointers += [places[pointer] for pointer in spec.pointers]
        args += spec.args
    return Table(
        entries,
        base_of=[buffer for buffer, _ in pointers],
        offset_of=[offset for _, offset in pointers],
        buffers=1 + max([buffer for buffer, _ in places.values()], default=-1),
        args=args,
    )
