"""How a pool keeps memory that nobody uses: strategies, by name.

- `"bins"`: blocks of like sizes, the best fit first. Fast; a block serves only sizes near its own.
- `"slices"`: large pages cut into slices that grow together again when they come back. Keeps less
  where sizes vary from call to call.
- `"direct"`: nothing is kept. Slow, and the one to look for mistakes with: memory that is used
  after it was given back is gone.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator

from ..errors import ArgumentError
from .blocks import ALIGNMENT, Memory, Span


class Strategy:
    """Keeps spans between one owner and the next. A pool calls it under its lock.

    Attributes:
        keeps: False gives memory back to the source as soon as nobody uses it.
        kept: bytes that are held for later.
    """

    name = ""
    keeps = True

    def __init__(self) -> None:
        self.kept = 0

    def rounded(self, nbytes: int) -> int:
        """The size of the span that a request of so many bytes gets."""
        return max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)

    def wanted(self, size: int) -> int:
        """How much to ask the source for where no kept span serves."""
        return size

    def take(self, size: int) -> Span | None:
        """A kept span of at least this size, or None."""
        raise NotImplementedError

    def adopt(self, memory: Memory, size: int) -> Span:
        """A span of this size of new memory; what is left of it is kept."""
        return Span(self, memory, 0, size)

    def give(self, span: Span) -> None:
        """Takes back a span that was lent."""
        raise NotImplementedError

    def drop(self, nbytes: int | None = None) -> Iterator[Memory]:
        """Memory that is not in use, to be freed: all of it, or at least so many bytes."""
        raise NotImplementedError

    def sizes(self) -> Counter[int]:
        """How many spans of each size are kept."""
        raise NotImplementedError


class Bins(Strategy):
    """Free spans by size class, eight classes between a power of two and the next."""

    name = "bins"
    TOO_LARGE = 1.5
    """A span serves requests down to its size divided by this."""

    def __init__(self) -> None:
        super().__init__()
        self._bins: dict[int, list[Span]] = {}  # the least recently used first
        self._sizes: list[int] = []  # of the bins that are not empty, sorted

    def rounded(self, nbytes: int) -> int:
        step = max(ALIGNMENT, 1 << max(0, (nbytes - 1).bit_length() - 4))
        return max(step, -(-nbytes // step) * step)

    def take(self, size: int) -> Span | None:
        at = bisect.bisect_left(self._sizes, size)
        if at == len(self._sizes) or self._sizes[at] > size * self.TOO_LARGE:
            return None
        return self._pop(self._sizes[at])

    def _pop(self, size: int) -> Span:
        spans = self._bins[size]
        span = spans.pop()
        if not spans:
            del self._bins[size]
            del self._sizes[bisect.bisect_left(self._sizes, size)]
        span.free = False
        self.kept -= size
        return span

    def give(self, span: Span) -> None:
        span.free = True
        spans = self._bins.pop(span.size, None)
        if spans is None:
            spans = []
            bisect.insort(self._sizes, span.size)
        spans.append(span)
        self._bins[span.size] = spans
        self.kept += span.size

    def drop(self, nbytes: int | None = None) -> Iterator[Memory]:
        dropped = 0
        while self._bins and (nbytes is None or dropped < nbytes):
            span = self._pop(next(iter(self._bins)))
            dropped += span.size
            yield span.memory

    def sizes(self) -> Counter[int]:
        return Counter({size: len(spans) for size, spans in self._bins.items()})


class Direct(Bins):
    """Nothing is kept."""

    name = "direct"
    keeps = False

    def rounded(self, nbytes: int) -> int:
        return Strategy.rounded(self, nbytes)


class Slices(Strategy):
    """Pages cut into slices, the smallest that fits; neighbours that are free grow together."""

    name = "slices"
    PAGE = 32 << 20

    def __init__(self) -> None:
        super().__init__()
        self._free: dict[tuple[int, int], Span] = {}  # by size and address
        self._order: list[tuple[int, int]] = []  # the same keys, sorted

    def wanted(self, size: int) -> int:
        return max(size, self.PAGE)

    def take(self, size: int) -> Span | None:
        at = bisect.bisect_left(self._order, (size, 0))
        if at == len(self._order):
            return None
        span = self._free[self._order[at]]
        self._remove(span)
        self._cut(span, size)
        return span

    def adopt(self, memory: Memory, size: int) -> Span:
        span = Span(self, memory, 0, memory.nbytes)
        self._cut(span, size)
        return span

    def give(self, span: Span) -> None:
        before, after = span.previous, span.following
        if after is not None and after.free:
            self._remove(after)
            _join(span, after)
        if before is not None and before.free:
            self._remove(before)
            _join(before, span)
            span = before
        self._insert(span)

    def drop(self, nbytes: int | None = None) -> Iterator[Memory]:
        dropped = 0
        for span in list(self._free.values()):
            if nbytes is not None and dropped >= nbytes:
                return
            if span.previous is None and span.following is None:
                self._remove(span)
                dropped += span.size
                yield span.memory

    def sizes(self) -> Counter[int]:
        return Counter(size for size, _ in self._order)

    def _cut(self, span: Span, size: int) -> None:
        """Keeps what a span has beyond a size."""
        left = span.size - size
        if left < ALIGNMENT:
            return
        rest = Span(self, span.memory, span.offset + size, left)
        rest.previous, rest.following = span, span.following
        if span.following is not None:
            span.following.previous = rest
        span.following = rest
        span.size = size
        self._insert(rest)

    def _insert(self, span: Span) -> None:
        key = _key(span)
        span.free = True
        self._free[key] = span
        bisect.insort(self._order, key)
        self.kept += span.size

    def _remove(self, span: Span) -> None:
        key = _key(span)
        span.free = False
        del self._free[key]
        del self._order[bisect.bisect_left(self._order, key)]
        self.kept -= span.size


def _key(span: Span) -> tuple[int, int]:
    return span.size, span.memory.address + span.offset


def _join(span: Span, after: Span) -> None:
    span.size += after.size
    span.following = after.following
    if after.following is not None:
        after.following.previous = span


STRATEGIES: dict[str, type[Strategy]] = {s.name: s for s in (Bins, Slices, Direct)}


def strategy_named(name: str) -> Strategy:
    """A new strategy; an `ArgumentError` lists the names that there are."""
    if name not in STRATEGIES:
        raise ArgumentError(
            f"memory: there is no strategy {name!r}; choose one of {', '.join(STRATEGIES)}"
        )
    return STRATEGIES[name]()
