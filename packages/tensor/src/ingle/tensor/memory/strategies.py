"""How a pool keeps memory that nobody uses: strategies, by name.

- `"bins"`: blocks of like sizes, the best fit first. Fast; a block serves only sizes near its own.
- `"ordered"`: the same, of blocks that fit equally well the one at the lowest address. What is done
  again then meets the same memory again, or that of the time before the last, in whatever order
  blocks come back: what was captured with its addresses can be used again.
- `"slices"`: large pages cut into slices that grow together again when they come back. Keeps less
  where sizes vary from call to call.
- `"direct"`: nothing is kept. Slow, and the one to look for mistakes with: memory that is used
  after it was given back is gone.

Python runs handlers of signals after calls, where functions begin and where loops repeat, and a
handler may raise. So each change is one row of statements without any of these: it is made whole
or not at all. What calls and loops find out for it comes before.
"""

from __future__ import annotations

import bisect
from collections import Counter
from functools import lru_cache

from ..errors import ArgumentError
from .blocks import ALIGNMENT, Memory, Span


class Strategy:
    """Keeps spans between one owner and the next. A pool calls it under its lock.

    Attributes:
        keeps: False gives memory back to the source as soon as nobody uses it.
    """

    name = ""
    keeps = True

    def rounded(self, nbytes: int) -> int:
        """The size of the span that a request of so many bytes gets."""
        return max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)

    def wanted(self, size: int) -> int:
        """How much to ask the source for where no kept span serves."""
        return size

    def find(self, size: int) -> Span | None:
        """A kept span of at least this size, or None."""
        raise NotImplementedError

    def fresh(self, memory: Memory, size: int) -> Span:
        """A span of new memory, of at least this size, that is not kept."""
        return Span(self, memory, 0, size)

    def lend(self, span: Span, size: int) -> None:
        """Takes a span out of what is kept, if it is there; keeps what it has beyond the size."""
        raise NotImplementedError

    def give(self, span: Span) -> None:
        """Takes back a span that was lent."""
        raise NotImplementedError

    def lends_again(self, span: Span, size: int) -> bool:
        """Whether a lent span that comes back now is what a request of this size gets."""
        return False

    def spare(self) -> Span | None:
        """A kept span that is all of its memory, which may be freed once the span is lent."""
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
        self._bins: dict[int, list[Span]] = {}  # the least recently used first
        self._sizes: list[int] = []  # of the bins, sorted

    def rounded(self, nbytes: int) -> int:
        return _size_class(nbytes)

    def find(self, size: int) -> Span | None:
        at = bisect.bisect_left(self._sizes, size)
        if at == len(self._sizes) or self._sizes[at] > size * self.TOO_LARGE:
            return None
        return self._bins[self._sizes[at]][-1]

    def lend(self, span: Span, size: int) -> None:
        if not span.free:
            return
        bins, sizes, size = self._bins, self._sizes, span.size
        spans, at = bins[size], bisect.bisect_left(sizes, size)
        # No call from here on.
        span.free = False
        if spans[0] is span:
            del bins[size], sizes[at]
        else:
            del spans[-1]

    def give(self, span: Span) -> None:
        bins, sizes, size = self._bins, self._sizes, span.size
        spans, at = bins.get(size), bisect.bisect_left(sizes, size)
        # No call from here on.
        if spans is None:
            sizes[at:at] = (size,)
            bins[size] = [span]
        else:
            del bins[size]
            bins[size] = spans
            spans += (span,)
        span.free = True

    def lends_again(self, span: Span, size: int) -> bool:
        return span.size == size and self.keeps and size not in self._bins

    def spare(self) -> Span | None:
        return next(iter(self._bins.values()))[-1] if self._bins else None

    def sizes(self) -> Counter[int]:
        return Counter({size: len(spans) for size, spans in self._bins.items()})


class Ordered(Bins):
    """Bins from which the span at the lowest address is lent."""

    name = "ordered"

    def give(self, span: Span) -> None:
        bins, sizes, size = self._bins, self._sizes, span.size
        spans, at = bins.get(size), bisect.bisect_left(sizes, size)
        # The lowest address comes last, where spans are lent.
        put = bisect.bisect_left(spans or (), -_address(span), key=lambda s: -_address(s))
        # No call from here on.
        if spans is None:
            sizes[at:at] = (size,)
            bins[size] = [span]
        else:
            del bins[size]
            bins[size] = spans
            spans[put:put] = (span,)
        span.free = True


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
        # Sorted by size and address, which no two have in common.
        self._free: list[tuple[int, int, Span]] = []

    def wanted(self, size: int) -> int:
        return max(size, self.PAGE)

    def find(self, size: int) -> Span | None:
        at = bisect.bisect_left(self._free, (size,))
        return None if at == len(self._free) else self._free[at][2]

    def fresh(self, memory: Memory, size: int) -> Span:
        return Span(self, memory, 0, memory.nbytes)

    def lend(self, span: Span, size: int) -> None:
        free, after, left = self._free, span.following, span.size - size
        taken = self._place(span) if span.free else None
        rest, put = None, 0
        if left >= ALIGNMENT:
            rest = Span(self, span.memory, span.offset + size, left)
            rest.previous, rest.following = span, after
            entry = _entry(rest)
            put = bisect.bisect_left(free, entry)
            if taken is not None and taken < put:
                put -= 1
        # No call from here on.
        if taken is not None:
            del free[taken]
            span.free = False
        if rest is not None:
            free[put:put] = (entry,)
            span.size, span.following = size, rest
            rest.free = True
            if after is not None:
                after.previous = rest

    def give(self, span: Span) -> None:
        free, before, after = self._free, span.previous, span.following
        start, end, size = span, span, span.size
        low = high = None
        if before is not None and before.free:
            start, size, low = before, size + before.size, self._place(before)
        if after is not None and after.free:
            end, size, high = after, size + after.size, self._place(after)
        beyond = end.following
        entry = size, start.memory.address + start.offset, start
        put = bisect.bisect_left(free, entry)
        if low is not None and high is not None and low > high:
            low, high = high, low
        put -= (low is not None and low < put) + (high is not None and high < put)
        # No call from here on.
        if high is not None:
            del free[high]
            end.free = False
        if low is not None:
            del free[low]
        free[put:put] = (entry,)
        start.size, start.following, start.free = size, beyond, True
        if beyond is not None:
            beyond.previous = start

    def spare(self) -> Span | None:
        whole = (s for _, _, s in self._free if s.previous is None and s.following is None)
        return next(whole, None)

    def sizes(self) -> Counter[int]:
        return Counter(size for size, _, _ in self._free)

    def _place(self, span: Span) -> int:
        """Where a kept span stands."""
        return bisect.bisect_left(self._free, _entry(span))


@lru_cache(maxsize=4096)
def _size_class(nbytes: int) -> int:
    step = max(ALIGNMENT, 1 << max(0, (nbytes - 1).bit_length() - 4))
    return max(step, -(-nbytes // step) * step)


def _address(span: Span) -> int:
    return span.memory.address + span.offset


def _entry(span: Span) -> tuple[int, int, Span]:
    return span.size, _address(span), span


STRATEGIES: dict[str, type[Strategy]] = {s.name: s for s in (Bins, Ordered, Slices, Direct)}


def strategy_named(name: str) -> Strategy:
    """A new strategy; an `ArgumentError` lists the names that there are."""
    if name not in STRATEGIES:
        raise ArgumentError(
            f"memory: there is no strategy {name!r}; choose one of {', '.join(STRATEGIES)}"
        )
    return STRATEGIES[name]()
