"""A handler of signals raises at each place inside the pool: its books stay right."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest

from ingle.tensor.memory import STRATEGIES, Block, Pool
from ingle.testkit.interrupting import interrupted

pytestmark = pytest.mark.skipif(
    sys.implementation.name != "cpython", reason="where signals are looked for is CPython's affair"
)
MIB = 1 << 20
PLACES = ("/tensor/memory/",)


class Piece:
    def __init__(self, address: int, nbytes: int) -> None:
        self.address, self.nbytes = address, nbytes


class Source:
    """Memory that ends with its last reference, as mappings do."""

    def __init__(self) -> None:
        self.next = 4096
        self.pieces: weakref.WeakSet[Piece] = weakref.WeakSet()

    def allocate(self, nbytes: int) -> Piece:
        piece = Piece(self.next, nbytes)
        self.next += -(-nbytes // 4096) * 4096 + 4096
        self.pieces.add(piece)
        return piece

    def free(self, memory: Piece) -> None:
        self.pieces.discard(memory)


def check(pool: Pool, source: Source) -> None:
    """What the pool says of itself adds up, and what it lends does not overlap."""
    now = pool.statistics()
    assert now.reserved == sum(p.nbytes for p in source.pieces)
    assert now.in_use == sum(size * lent for size, (lent, _) in now.by_size.items())
    kept = sum(size * kept for size, (_, kept) in now.by_size.items())
    assert now.in_use + kept == now.reserved
    assert now.blocks == sum(lent for lent, _ in now.by_size.values())
    end = 0
    for block in sorted(pool._lent.values(), key=lambda b: b.address):
        assert block.address >= end
        end = block.address + block.size


def work(pool: Pool, held: list[Block], seed: int) -> None:
    """Blocks of few sizes come and go, and now and then all that is kept goes back."""
    draw = np.random.default_rng(seed)
    for step in range(40):
        if held and draw.random() < 0.5:
            held.pop(int(draw.integers(len(held)))).release()
        else:
            held.append(pool.allocate(int(draw.choice([64, 100, 640, MIB, 3 * MIB]))))
        if step % 16 == 15:
            pool.release()


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.parametrize("seed", [0, 1])
def test_no_place_leaves_the_books_wrong(strategy: str, seed: int) -> None:
    place, on = 1, True
    while on:
        source = Source()
        pool = Pool(source, strategy)
        held: list[Block] = []
        work(pool, held, seed)
        on = interrupted(lambda held=held, pool=pool: work(pool, held, seed + 7), place, PLACES)
        check(pool, source)
        while held:
            held.pop().release()
        check(pool, source)
        pool.settle()
        # Blocks that nobody got, or whose release was cut off, are lost: one at the most.
        assert len(pool._lent) <= 1
        work(pool, held, seed)
        check(pool, source)
        place += 1 + place // 40
    assert place > 300


def test_a_lock_that_was_taken_is_given_back() -> None:
    source = Source()
    pool = Pool(source, "direct")
    on, place = True, 1
    while on:
        block = pool.allocate(100)
        on = interrupted(block.release, place, PLACES)
        assert not pool._lock._is_owned()
        place += 1
    gc.collect()
    check(pool, source)


def test_memory_that_comes_while_the_pool_is_busy_is_entered_whole() -> None:
    place, on = 1, True
    while on:
        source = Source()
        pool = Pool(source)
        pool._busy = True
        block = pool.allocate(5000)
        pool._busy = False
        on = interrupted(pool.settle, place, PLACES)
        check(pool, source)
        assert list(pool._lent.values()) == [block]
        block.release()
        on = interrupted(pool.settle, place, PLACES) or on
        check(pool, source)
        place += 1
