"""Graphs of one form that were met: which of them are examples of sizes that vary.

A form leaves all sizes open. But the products of one program have a weight each, and one that has
seen three of these at two lengths each has seen three pairs of graphs, not six sizes of one. So
examples are graphs that differ in the same sizes, while all others stand still.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from .families import EXAMPLES

T = TypeVar("T")

MOST, MOST_WEIGHT = 64, 1024
"""Graphs that are remembered, and what these weigh together."""

Numbers = tuple[Any, ...]


class Samples(Generic[T]):
    """The last graphs of a form, of different sizes.

    >>> samples = Samples[str]()
    >>> [samples.alike((n, k), "") for n, k in ((1, 7), (1, 9), (2, 7), (2, 9))]
    [[], [], [], []]
    >>> [numbers for numbers, _ in samples.alike((3, 7), "")]
    [(1, 7), (2, 7), (3, 7)]
    """

    def __init__(self) -> None:
        self._known: OrderedDict[Numbers, T] = OrderedDict()

    def alike(
        self, numbers: Numbers, sample: T, weight: int = 1, least: int = EXAMPLES
    ) -> list[tuple[Numbers, T]]:
        """Remembers a graph; returns it behind earlier ones, of which all differ from one another
        in the same numbers, as few as can be; nothing while there are not enough of these.

        Args:
            numbers: of the graph.
            sample: what the examples are wanted for.
            weight: how much memory that takes, beside others.
            least: how many are enough.
        """
        if numbers in self._known:
            return []
        found: defaultdict[tuple[int, ...], list[Numbers]] = defaultdict(list)
        for other in reversed(self._known):
            places = _different(numbers, other)
            ones = found[places]
            if all(_different(one, other) == places for one in ones):
                ones.append(other)
        self._known[numbers] = sample
        enough = [places for places, ones in found.items() if len(ones) >= least - 1]
        last = found[min(enough, key=len)][: EXAMPLES - 1] if enough else []
        alike = [(one, self._known[one]) for one in (*reversed(last), numbers)]
        while len(self._known) > max(EXAMPLES, min(MOST, MOST_WEIGHT // max(weight, 1))):
            self._known.popitem(last=False)
        return alike if enough else []

    def forget(self, graphs: Sequence[Numbers]) -> None:
        """Graphs that have been examples are none for others."""
        for numbers in graphs:
            self._known.pop(numbers, None)


def _different(one: Numbers, other: Numbers) -> tuple[int, ...]:
    """The places where the numbers of two graphs of a form differ."""
    return tuple([k for k, (a, b) in enumerate(zip(one, other, strict=True)) if a != b])
