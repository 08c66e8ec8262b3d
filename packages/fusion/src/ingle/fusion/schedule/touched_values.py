"""Which values calls read and write: what decides whether one may run before another."""

from __future__ import annotations

from typing import NamedTuple

from .schedule import Call, HostStep, KernelSequence, touched


class TouchedValues(NamedTuple):
    """The values that calls read and write, by their roots."""

    read: set[int]
    written: set[int]

    def meets(self, other: TouchedValues) -> bool:
        """Whether one writes what the other reads or writes."""
        return not (
            self.written.isdisjoint(other.read)
            and self.written.isdisjoint(other.written)
            and self.read.isdisjoint(other.written)
        )

    def update(self, other: TouchedValues) -> None:
        """Takes those of other calls in."""
        self.read.update(other.read)
        self.written.update(other.written)


def touched_values(sequence: KernelSequence, call: Call | HostStep) -> TouchedValues:
    """Those of one call."""
    roots = touched(sequence.graph, sequence.views, call)
    return TouchedValues(
        {r for r, output in roots if not output}, {r for r, output in roots if output}
    )
