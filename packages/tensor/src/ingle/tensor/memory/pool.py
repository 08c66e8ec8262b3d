"""The pool: lends memory of a source, and keeps what comes back for the next request."""

from __future__ import annotations

import gc
import heapq
import os
import weakref
from collections import Counter, deque
from typing import Any

from ..errors import ArgumentError, BackendError, OutOfMemoryError
from ..locks import Attempt, ReentrantLock
from .blocks import Block, Memory, Source, Span
from .statistics import Holder, Statistics, shown_bytes
from .strategies import Bins, Strategy, strategy_named

_MANY_NOTES = 512
_SHOWN_HOLDERS = 5


class Pool:
    """Lends blocks of memory, from any thread.

    Args:
        source: where memory comes from.
        strategy: how unused memory is kept: `"bins"`, `"slices"` or `"direct"`.
        limit: the most bytes to take from the source; None for as many as it has.

    Changes of owner counts are notes in a queue that takes no lock, since finalizers run in any
    thread at any time, also while the pool is at work. They are carried out at the next request.

    >>> from ingle.tensor.memory import HostSource, Pool
    >>> pool = Pool(HostSource(), limit=1 << 20)
    >>> block = pool.allocate(1 << 16, "an example")
    >>> pool.statistics().in_use
    65536
    >>> pool.allocate(1 << 20)
    Traceback (most recent call last):
    ingle.tensor.errors.OutOfMemoryError: cannot allocate 1.0 MiB: ...
    """

    def __init__(self, source: Source, strategy: str = "bins", limit: int | None = None) -> None:
        self._source = source
        self._strategy = strategy_named(strategy)
        self._limit = limit
        self._lock = ReentrantLock()
        self._busy = False
        self._refusal = ""
        self._notes: deque[tuple[Block, int]] = deque()
        self._lent: dict[int, Block] = {}
        self._in_use = self._reserved = self._peak = self._allocations = self._hits = 0
        _pools.add(self)

    def allocate(self, nbytes: int, label: Any = None) -> Block:
        """Lends a block of at least so many bytes, aligned to 64; its contents are whatever.

        Where the source or the limit has no more, everything that is kept is given back, then
        garbage is collected, which may hold blocks in cycles.

        Args:
            nbytes: how many; 0 is allowed.
            label: what it is for; shown by `str` in statistics and errors.

        Raises:
            OutOfMemoryError: there is still not enough; it names the largest holders.
        """
        if nbytes < 0:
            raise ArgumentError(f"memory: nbytes must be at least 0, got {nbytes}")
        block = self._lend(nbytes, label)
        if block is None:
            self.release()
            block = self._lend(nbytes, label)
        if block is None:
            gc.collect()
            self.release()
            block = self._lend(nbytes, label)
        if block is None:
            raise self._exhausted(nbytes, label)
        return block

    def _lend(self, nbytes: int, label: Any) -> Block | None:
        with self._lock:
            if self._busy:
                return self._lend_aside(nbytes, label)
            self._busy = True
            memory = None
            try:
                strategy = self._strategy
                size = strategy.rounded(nbytes)
                if self._notes:
                    again = self._lend_again(size, nbytes, label)
                    if again is not None:
                        return again
                    self._carry_out()
                span = strategy.find(size)
                if span is None:
                    memory = self._grow(size)
                    if memory is None:
                        return None
                    span = strategy.fresh(memory, size)
                block = Block(self, span, nbytes, label)
                key, new = id(block), 0 if memory is None else memory.nbytes
                strategy.lend(span, size)
                # No call from here on, see `strategies`.
                self._lent[key] = block
                self._reserved += new
                self._hits += memory is None
                memory = None
                self._allocations += 1
                self._in_use += span.size
                if self._peak < self._in_use:
                    self._peak = self._in_use
                return block
            finally:
                self._busy = False
                if memory is not None:  # interrupted before anybody had it
                    self._source.free(memory)

    def _lend_again(self, size: int, nbytes: int, label: Any) -> Block | None:
        """What has come back alone, where it is what would be lent next: a step lets go of what it
        makes anew."""
        notes, lent = self._notes, self._lent
        old, change = notes[0]
        span = old._span
        if len(notes) > 1 or change != -1 or old._count != 1 or span.home is not self._strategy:
            return None
        if not self._strategy.lends_again(span, size):
            return None
        block = Block(self, span, nbytes, label)
        key, before = id(block), id(old)
        # No call from here on, see `strategies`.
        del notes[0], lent[before]
        old._count = 0
        lent[key] = block
        self._hits += 1
        self._allocations += 1
        return block

    def _lend_aside(self, nbytes: int, label: Any) -> Block | None:
        """For a finalizer that asks for memory while it interrupts this very pool at work."""
        try:
            memory = self._source.allocate(max(nbytes, 1))
        except MemoryError:
            return None
        block = Block(self, Span(_aside, memory, 0, memory.nbytes), nbytes, label)
        self._notes.append((block, 0))
        return block

    def _grow(self, size: int) -> Memory | None:
        """New memory, or None. A page that is too much may do with just the span."""
        strategy = self._strategy
        # Sizes that nobody asks for any more would else be kept for good.
        surplus = self._reserved + size - 2 * max(self._peak, self._in_use + size)
        if surplus > 0:
            self._free_kept(strategy, surplus)
        for want in dict.fromkeys((strategy.wanted(size), size)):
            if self._limit is not None and self._reserved + want > self._limit:
                continue
            try:
                return self._source.allocate(want)
            except MemoryError as error:
                self._refusal = str(error)
        return None

    def _free_kept(self, strategy: Strategy, nbytes: int | None = None) -> None:
        """Gives back what is kept: all of it, or at least so many bytes."""
        freed = 0
        while nbytes is None or freed < nbytes:
            span = strategy.spare()
            if span is None:
                return
            memory = span.memory
            new = memory.nbytes
            strategy.lend(span, span.size)
            self._reserved -= new
            self._source.free(memory)
            freed += span.size

    def note(self, block: Block, change: int) -> None:
        """Notes a change of a block's owner count; takes no lock and never waits."""
        self._notes.append((block, change))
        many = len(self._notes) > _MANY_NOTES or not self._strategy.keeps
        if many and not self._busy:
            taken = True
            try:
                with Attempt(self._lock) as taken:
                    if taken:
                        self.settle()
            except RuntimeError:
                if taken:
                    raise

    def settle(self) -> None:
        """Carries out what is noted."""
        with self._lock:
            if not self._busy:
                self._busy = True
                try:
                    self._carry_out()
                finally:
                    self._busy = False

    def _carry_out(self) -> None:
        """Each note goes in the same step in which it is carried out."""
        notes, lent = self._notes, self._lent
        while notes:
            block, change = notes[0]
            key, span = id(block), block._span
            size, count = span.size, block._count + change
            if not change:
                new = span.memory.nbytes
                # No call from here on, see `strategies`.
                del notes[0]
                lent[key] = block
                self._reserved += new
                self._in_use += size
                self._allocations += 1
                if self._peak < self._in_use:
                    self._peak = self._in_use
            elif count > 0:
                del notes[0]
                block._count = count
            elif count < 0:
                del notes[0]
                raise BackendError(f"memory: {block!r} was released more often than retained")
            elif span.home is _aside:
                memory = span.memory
                new = memory.nbytes
                del notes[0], lent[key]
                block._count = count
                self._in_use -= size
                self._reserved -= new
                self._source.free(memory)
            else:
                span.home.give(span)
                del notes[0], lent[key]
                block._count = count
                self._in_use -= size
                if not span.home.keeps:
                    self._free_kept(span.home)

    def release(self) -> int:
        """Gives everything that is kept back to the source; returns how many bytes that was."""
        self.settle()
        with self._lock:
            before = self._reserved
            if not self._busy:
                self._busy = True
                try:
                    self._free_kept(self._strategy)
                finally:
                    self._busy = False
            return before - self._reserved

    @property
    def limit(self) -> int | None:
        """The most bytes to take from the source; setting it gives back what is above it."""
        return self._limit

    @limit.setter
    def limit(self, limit: int | None) -> None:
        if limit is not None and limit < 0:
            raise ArgumentError(f"memory: a limit must be at least 0 bytes, got {limit}")
        self._limit = limit
        if limit is not None and self._reserved > limit:
            self.release()

    @property
    def strategy(self) -> str:
        """How unused memory is kept; setting it leaves blocks in use as they are."""
        return self._strategy.name

    @strategy.setter
    def strategy(self, name: str) -> None:
        made = strategy_named(name)
        self.release()
        with self._lock:
            # What is still lent goes home to the old one, which keeps nothing any more.
            self._strategy.keeps = False
            self._strategy = made

    def statistics(self) -> Statistics:
        """What is in use and kept now."""
        self.settle()
        with self._lock:
            blocks = list(self._lent.values())
            kept = self._strategy.sizes()
            lent = Counter(b.size for b in blocks)
            sizes = {n: (lent[n], kept[n]) for n in sorted({*lent, *kept})}
            return Statistics(
                self._strategy.name, self._limit, self._in_use, self._reserved, self._peak,
                len(blocks), self._allocations, self._hits, sizes, _largest(blocks),
            )  # fmt: skip

    def reset_peak(self) -> None:
        """Lets `peak` start again from what is in use now."""
        self.settle()
        with self._lock:
            self._peak = self._in_use

    def _exhausted(self, nbytes: int, label: Any) -> OutOfMemoryError:
        now = self.statistics()
        whom = f" for {label}" if label is not None else ""
        bound = (self._refusal or "the source has no more") if now.limit is None else (
            f"the limit is {shown_bytes(now.limit)}"
        )  # fmt: skip
        holders = "; ".join(map(str, now.largest)) or "none"
        between = f" with {shown_bytes(now.kept)} between them" if now.kept else ""
        return OutOfMemoryError(
            f"cannot allocate {shown_bytes(nbytes)}{whom}: {bound}, {shown_bytes(now.in_use)} are "
            f"in use in {now.blocks} blocks{between} (at most {shown_bytes(now.peak)} so far). "
            f"Largest holders: {holders}. Let go of tensors, use smaller batches or a checkpoint, "
            "or raise the limit with ingle.tensor.memory.limit",
            requested=nbytes, statistics=now,
        )  # fmt: skip

    def _before_fork(self) -> None:
        self._lock.acquire()

    def _after_fork(self) -> None:
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        # Only the thread that forked lives on; it held the lock, so nothing is half done.
        self._lock = ReentrantLock()


def _largest(blocks: list[Block]) -> tuple[Holder, ...]:
    top = heapq.nlargest(_SHOWN_HOLDERS, blocks, key=lambda b: b.size)
    return tuple(Holder(b.nbytes, "" if b.label is None else str(b.label)) for b in top)


_aside = Bins()
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_forking: list[Pool] = []


def _hold_all() -> None:
    # The same ones are let go of afterwards, whatever is collected meanwhile.
    _forking.extend(_pools)
    for pool in _forking:
        pool._before_fork()


def _let_go() -> None:
    while _forking:
        _forking.pop()._after_fork()


def _renew() -> None:
    while _forking:
        _forking.pop()._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_all, after_in_parent=_let_go, after_in_child=_renew)
