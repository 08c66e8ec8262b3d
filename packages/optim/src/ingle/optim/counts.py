"""Counters of updates: one cell for all parameters of a group that had the same updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ingle.tensor import Cell
from ingle.tensor.structure import Frozen


class Counts:
    """How many updates each of some parameters had.

    They share a cell as long as they are updated together, so that a compiled step follows one
    number and not one a parameter. A step that leaves some out gives the others a cell of their
    own.

    Args:
        values: the counts at first.
    """

    __slots__ = ("_apart", "_common", "size")

    def __init__(self, values: Sequence[int]) -> None:
        self.size = len(values)
        self._common: Cell[int] = Cell(0)
        # The places of parameters whose cell is not the common one, with it.
        self._apart: Cell[Mapping[int, Cell[int]]] = Cell(Frozen())
        self.assign(dict(enumerate(values)))

    def cell(self, place: int) -> Cell[int]:
        """The cell that counts a parameter's updates, and perhaps those of others."""
        return self._apart.raw.get(place, self._common)

    def at(self, places: Sequence[int]) -> list[int]:
        """The numbers of some parameters; one that they share is read once."""
        if not self._apart.raw:
            return [self._common.raw] * len(places)
        return [self.cell(place).raw for place in places]

    def advance(self, places: Sequence[int]) -> None:
        """Some parameters had one more update."""
        if len(places) == self.size and not self._apart.raw:
            self._common.rebind(self._common.raw + 1)
            return
        chosen = set(places)
        moved: dict[int, Cell[int]] = {}
        for cell, sharing in self._sharing().items():
            updated = [place for place in sharing if place in chosen]
            if len(updated) == len(sharing):
                cell.rebind(cell.raw + 1)
            elif updated:
                moved |= dict.fromkeys(updated, Cell(cell.raw + 1))
        self._move(moved)

    def assign(self, values: Mapping[int, int]) -> None:
        """Gives parameters other counts, by place."""
        sharing = self._sharing()
        wanted = {p: values.get(p, cell.raw) for cell, places in sharing.items() for p in places}
        if all(_equal([wanted[p] for p in places]) for places in sharing.values()):
            # Cells keep their identity where they can: recordings hold them.
            for cell, places in sharing.items():
                cell.rebind(wanted[places[0]])
            return
        (most, _), *_ = Counter(wanted.values()).most_common(1)
        cells = {value: Cell(value) for value in set(wanted.values()) - {most}}
        self._common.rebind(most)
        self._apart.rebind(Frozen({p: cells[n] for p, n in wanted.items() if n != most}))

    def _sharing(self) -> dict[Cell[int], list[int]]:
        """For each cell the places that it counts for."""
        found: dict[Cell[int], list[int]] = {}
        for place in range(self.size):
            found.setdefault(self.cell(place), []).append(place)
        return found

    def _move(self, moved: Mapping[int, Cell[int]]) -> None:
        if moved:
            self._apart.rebind(Frozen({**self._apart.raw, **moved}))


def _equal(numbers: Sequence[int]) -> bool:
    return all(n == numbers[0] for n in numbers[1:])


class Steps(Cell[int]):
    """A parameter's counter: reads and writes it as a cell of its own would.

    Args:
        counts: where it is kept.
        place: which of these it is.
    """

    __slots__ = ("counts", "place")

    def __init__(self, counts: Counts, place: int) -> None:
        super().__init__(0)
        self.counts = counts
        self.place = place

    @property
    def value(self) -> int:
        """The number now."""
        return self.raw

    @value.setter
    def value(self, value: int) -> None:
        self.rebind(value)

    @property
    def raw(self) -> int:
        """The number now."""
        return self.counts.cell(self.place).raw

    def rebind(self, value: int) -> None:
        """Another number, for this parameter alone."""
        self.counts.assign({self.place: value})


def shared(counters: Sequence[Cell[int]]) -> list[Steps]:
    """Counters of the same numbers that are kept together."""
    counts = Counts([counter.raw for counter in counters])
    return [Steps(counts, place) for place in range(counts.size)]


def numbers_of(counters: Sequence[Cell[int]]) -> list[int]:
    """The number of each counter."""
    together = {counter.counts if isinstance(counter, Steps) else None for counter in counters}
    counts = together.pop() if len(together) == 1 else None
    if counts is None:
        return [counter.raw for counter in counters]
    return counts.at([counter.place for counter in counters if isinstance(counter, Steps)])


def advance(counters: Iterable[Cell[int]]) -> None:
    """Adds one to each counter."""
    together: dict[Counts, list[int]] = {}
    for counter in counters:
        if isinstance(counter, Steps):
            together.setdefault(counter.counts, []).append(counter.place)
        else:
            counter.rebind(counter.raw + 1)
    for counts, places in together.items():
        counts.advance(places)


def assign(values: Mapping[Cell[int], int]) -> None:
    """Gives each counter its number; those that get the same one are kept together."""
    together: dict[Counts, dict[int, int]] = {}
    for counter, number in values.items():
        if isinstance(counter, Steps):
            together.setdefault(counter.counts, {})[counter.place] = number
        else:
            counter.rebind(number)
    for counts, numbers in together.items():
        counts.assign(numbers)
