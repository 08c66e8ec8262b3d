"""The pool by itself, over a source that knows what it gave out."""

from __future__ import annotations

import gc
import mmap
import os
import subprocess
import sys
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, BackendError, OutOfMemoryError
from ingle.tensor.memory import ALIGNMENT, STRATEGIES, Block, HostSource, Label, Pool
from ingle.tensor.memory.statistics import read_bytes, shown_bytes

MIB = 1 << 20
ALL = sorted(STRATEGIES)


@dataclass(eq=False)
class Piece:
    address: int
    nbytes: int


class Counting:
    """Hands out ranges of numbers that never come twice; knows which are out."""

    def __init__(self, size: int | None = None) -> None:
        self.next, self.size = 4096, size
        self.out: dict[int, Piece] = {}

    @property
    def given(self) -> int:
        return sum(p.nbytes for p in self.out.values())

    def allocate(self, nbytes: int) -> Piece:
        if self.size is not None and self.given + nbytes > self.size:
            raise MemoryError
        piece = Piece(self.next, nbytes)
        self.next += -(-nbytes // 4096) * 4096 + 4096
        self.out[piece.address] = piece
        return piece

    def free(self, memory: Piece) -> None:
        del self.out[memory.address]


class Machine(RuleBasedStateMachine):
    blocks = Bundle("blocks")

    @initialize(strategy=st.sampled_from(ALL), size=st.none() | st.just(96 * MIB))
    def start(self, strategy: str, size: int | None) -> None:
        self.source = Counting(size)
        self.pool = Pool(self.source, strategy)
        self.held: dict[Block, int] = {}
        self.peak = 0
        self.sliced = strategy == "slices"

    @rule(target=blocks, nbytes=st.integers(0, 4096) | st.integers(0, 40 * MIB))
    def allocate(self, nbytes: int) -> object:
        try:
            block = self.pool.allocate(nbytes, "machine")
        except OutOfMemoryError:
            bound = min(x for x in (self.source.size, self.pool.limit) if x is not None)
            # Nothing that could be given back stands in the way.
            assert self.pool.statistics().reserved + nbytes * 1.13 + 4096 > bound
            return multiple()
        assert block.size >= nbytes
        assert block.address % 64 == 0
        self.held[block] = 1
        self.peak = max(self.peak, sum(b.size for b in self.held))
        return block

    @rule(block=blocks)
    def retain(self, block: Block) -> None:
        if block in self.held:
            block.retain()
            self.held[block] += 1

    @rule(block=blocks)
    def release(self, block: Block) -> None:
        if block in self.held:
            block.release()
            self.held[block] -= 1
            if not self.held[block]:
                del self.held[block]

    @rule()
    def release_kept(self) -> None:
        before = self.pool.statistics()
        given = self.pool.release()
        assert given <= before.kept
        if not self.sliced:
            assert given == before.kept

    @rule(limit=st.none() | st.integers(0, 128 * MIB))
    def set_limit(self, limit: int | None) -> None:
        self.pool.limit = limit

    @rule(name=st.sampled_from(ALL))
    def set_strategy(self, name: str) -> None:
        self.pool.strategy = name
        self.sliced = self.sliced or name == "slices"

    @invariant()
    def blocks_are_apart_and_inside(self) -> None:
        if not hasattr(self, "pool"):
            return
        end = 0
        for block in sorted(self.held, key=lambda b: b.address):
            assert block.address >= end
            end = block.address + block.size
            piece = self.source.out[block.memory.address]
            assert piece.address <= block.address
            assert end <= piece.address + piece.nbytes

    @invariant()
    def statistics_add_up(self) -> None:
        if not hasattr(self, "pool"):
            return
        now = self.pool.statistics()
        assert now.blocks == len(self.held)
        assert now.in_use == sum(b.size for b in self.held)
        assert now.reserved == self.source.given
        assert now.peak == self.peak
        assert sum(lent for lent, _ in now.by_size.values()) == now.blocks
        for block, count in self.held.items():
            assert block.owners == count

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        for block, count in self.held.items():
            for _ in range(count):
                block.release()
        self.pool.release()
        assert not self.source.out
        assert self.pool.statistics().reserved == 0


TestMachine = pytest.mark.slow(Machine.TestCase)
TestMachine.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.parametrize("strategy", ["bins", "ordered", "slices"])
def test_memory_that_came_back_is_lent_again(strategy: str) -> None:
    source = Counting()
    pool = Pool(source, strategy)
    pool.allocate(3 * MIB).release()
    asked = source.next
    for _ in range(50):
        pool.allocate(3 * MIB - 100).release()
    assert source.next == asked
    now = pool.statistics()
    assert (now.allocations, now.hits, now.in_use) == (51, 50, 0)


def test_direct_keeps_nothing() -> None:
    source = Counting()
    pool = Pool(source, "direct")
    block = pool.allocate(MIB)
    block.retain()
    block.release()
    assert source.given == MIB
    block.release()
    assert source.given == 0


def test_slices_grow_together_again() -> None:
    source = Counting()
    pool = Pool(source, "slices")
    parts = [pool.allocate(8 * MIB) for _ in range(4)]
    assert len(source.out) == 1
    for i in (2, 0, 3, 1):
        parts[i].release()
    assert pool.statistics().by_size == {32 * MIB: (0, 1)}


def test_the_least_that_a_slice_leaves_is_lent() -> None:
    source = Counting()
    pool = Pool(source, "slices")
    pool.allocate(32 * MIB).release()
    large, small = pool.allocate(32 * MIB - ALIGNMENT), pool.allocate(ALIGNMENT)
    assert len(source.out) == 1
    assert small.address == large.address + 32 * MIB - ALIGNMENT


def test_bins_take_the_best_fit_and_no_giant() -> None:
    pool = Pool(Counting(), "bins")
    small, large = pool.allocate(10 * MIB), pool.allocate(100 * MIB)
    small_at = small.address
    small.release()
    large.release()
    assert pool.allocate(9 * MIB).address == small_at
    assert pool.statistics().hits == 1
    pool.allocate(9 * MIB)
    assert pool.statistics().hits == 1


@pytest.mark.parametrize("seed", range(4))
def test_steps_that_are_alike_meet_the_same_memory_every_other_time(seed: int) -> None:
    """Each replaces values by new ones; the old ones come back in any order."""
    rng = np.random.default_rng(seed)
    pool = Pool(Counting(), "ordered")
    sizes = [int(n) for n in rng.choice([1000, 5000, 5000, MIB], 40)]
    values = [pool.allocate(n) for n in sizes]
    met = []
    for _ in range(12):
        between = [pool.allocate(n) for n in sizes[::3]]
        fresh = [pool.allocate(n) for n in sizes]
        met.append([block.address for block in (*between, *fresh)])
        gone = [*between, *values]
        for n in rng.permutation(len(gone)):
            gone[n].release()
        values = fresh
    assert met[-1] == met[-3]
    assert met[-2] == met[-4]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("strategy", ALL)
def test_what_comes_back_alone_is_lent_as_if_it_had_been_kept(strategy: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pools = [Pool(Counting(), strategy) for _ in range(2)]
    pools[1]._strategy.lends_again = lambda span, size: False  # type: ignore[method-assign]
    held: list[list[Block]] = [[], []]
    for _ in range(300):
        kind = rng.integers(4)
        size = int(rng.choice([64, 100, 900, 1000, 5000]))
        place = int(rng.integers(len(held[0]))) if held[0] else 0
        for pool, blocks in zip(pools, held, strict=True):
            if kind == 0 or not blocks:
                blocks.append(pool.allocate(size))
            elif kind == 1:
                blocks[place].retain()
                blocks[place].release()
            else:
                nbytes = blocks[place].nbytes if kind == 2 else size
                blocks.pop(place).release()
                blocks.append(pool.allocate(nbytes))
        assert [b.address for b in held[0]] == [b.address for b in held[1]]
        assert [b.owners for b in held[0]] == [b.owners for b in held[1]]
        assert pools[0].statistics() == pools[1].statistics()


def test_what_nobody_asks_for_any_more_is_not_kept_for_good() -> None:
    pool = Pool(Counting(), "bins")
    for n in range(1, 60):
        pool.allocate(n * MIB).release()
    now = pool.statistics()
    assert now.reserved <= 2 * now.peak + 8 * MIB


@pytest.mark.parametrize("strategy", ALL)
def test_the_limit_frees_what_is_kept_before_it_refuses(strategy: str) -> None:
    pool = Pool(Counting(), strategy, limit=64 * MIB)
    pool.allocate(40 * MIB).release()
    held = pool.allocate(60 * MIB)
    assert pool.statistics().reserved <= 64 * MIB
    with pytest.raises(OutOfMemoryError):
        pool.allocate(10 * MIB)
    held.release()
    pool.allocate(10 * MIB)


def test_garbage_in_cycles_is_collected_before_it_refuses() -> None:
    class Holder:
        def __init__(self, block: Block) -> None:
            self.block, self.me = block, self

        def __del__(self) -> None:
            self.block.release()

    pool = Pool(Counting(), limit=10 * MIB)
    gc.disable()
    try:
        Holder(pool.allocate(8 * MIB))
        pool.allocate(8 * MIB)
    finally:
        gc.enable()


def test_the_error_names_request_statistics_and_holders() -> None:
    pool = Pool(Counting(), limit=8 * MIB)
    held = [
        pool.allocate(n * MIB, Label(name, (n, 1 << 18), it.float32))
        for n, name in ((1, "add"), (4, "conv2d"), (2, "exp"))
    ]
    with pytest.raises(OutOfMemoryError) as caught:
        pool.allocate(3 * MIB, Label("matmul", (3, 1 << 18), it.float32))
    message = str(caught.value)
    assert isinstance(caught.value, MemoryError)
    assert caught.value.requested == 3 * MIB
    for part in (
        "3.0 MiB for matmul float32[3, 262144]",
        "limit is 8.0 MiB",
        "7.0 MiB are in use in 3 blocks",
        "Largest holders: 4.0 MiB conv2d float32[4, 262144]; 2.0 MiB exp",
    ):
        assert part in message
    assert len(held) == 3


def test_a_source_without_memory() -> None:
    pool = Pool(Counting(size=MIB))
    with pytest.raises(OutOfMemoryError, match="the source has no more"):
        pool.allocate(2 * MIB)


@pytest.mark.parametrize("strategy", ALL)
def test_threads_share_a_pool(strategy: str) -> None:
    pool = Pool(HostSource(), strategy)
    failures: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        held: list[tuple[Block, np.ndarray]] = []
        for _ in range(300):
            if held and rng.random() < 0.5:
                block, values = held.pop(int(rng.integers(len(held))))
                if not (values == seed).all():
                    failures.append("memory was lent twice")
                block.release()
            else:
                block = pool.allocate(int(rng.integers(1, 1 << 18)))
                memory: object = block.memory
                values = np.frombuffer(
                    memory.buffer, np.uint8, block.nbytes, memory.start + block.offset
                )
                values[:] = seed
                held.append((block, values))
        for block, _ in held:
            block.release()

    threads = [threading.Thread(target=work, args=(i + 1,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert pool.statistics().in_use == 0


def test_finalizers_may_come_while_the_pool_is_at_work() -> None:
    """A source whose `allocate` runs what a finalizer would, in the middle of the pool's own."""
    pool: Pool

    class Interrupting(Counting):
        armed = False

        def allocate(self, nbytes: int) -> Piece:
            if self.armed:
                self.armed = False
                held.release()
                other.append(pool.allocate(5000))
                pool.statistics()
            return super().allocate(nbytes)

    source = Interrupting()
    pool = Pool(source)
    held, other = pool.allocate(MIB), []
    source.armed = True
    block = pool.allocate(3 * MIB)
    assert pool.statistics().in_use == block.size + other[0].size
    block.release()
    other[0].release()
    pool.release()
    assert source.given == 0


def test_many_changes_of_owners_do_not_pile_up() -> None:
    pool = Pool(Counting())
    block = pool.allocate(64)
    for _ in range(5000):
        block.retain()
        block.release()
    assert len(pool._notes) < 2000
    assert block.owners == 1


def test_releasing_too_often_is_noticed() -> None:
    pool = Pool(Counting())
    block = pool.allocate(64)
    block.release()
    block.release()
    with pytest.raises(BackendError, match="released more often"):
        pool.statistics()


FORKED = """
import os, sys, threading
import numpy as np
from ingle.tensor.memory import HostSource, Pool

pool = Pool(HostSource())
block = pool.allocate(1 << 16)
view = np.frombuffer(block.memory.buffer, np.uint8)
view[:] = 7
stop = threading.Event()

def busy():
    while not stop.is_set():
        pool.allocate(1 << 12).release()

thread = threading.Thread(target=busy)
thread.start()
try:
    for _ in range(20):
        child = os.fork()
        if not child:
            # Whatever goes wrong here must not run the parent's clean-up.
            status = 1
            try:
                mine = pool.allocate(1 << 16)
                fresh = np.frombuffer(mine.memory.buffer, np.uint8)
                fresh[:] = 1
                view[:] = 9
                mine.release()
                block.release()
                status = 0 if pool.statistics().blocks <= 1 else 2
            finally:
                os._exit(status)
        status = os.waitpid(child, 0)[1]
        assert status == 0, status
finally:
    stop.set()
    thread.join()
assert (view == 7).all()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_a_usable_pool() -> None:
    """In a process of its own: this one has threads of other libraries, which may forbid forks."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_host_memory_is_aligned_and_whole_pages() -> None:
    for nbytes in (1, 5000, 3 * MIB, 9 * MIB):
        memory = HostSource().allocate(nbytes)
        assert memory.nbytes >= nbytes
        assert memory.nbytes % mmap.PAGESIZE == 0
        assert memory.address % 64 == 0
        values = np.frombuffer(memory.buffer, np.uint8, memory.nbytes, memory.start)
        assert values.__array_interface__["data"][0] == memory.address
        values[-1] = 1
        assert not values[:-1].any()
    with pytest.raises(MemoryError):
        HostSource().allocate(1 << 62)


def test_wrong_arguments() -> None:
    with pytest.raises(ArgumentError, match="bins, ordered, slices, direct"):
        Pool(Counting(), "buddy")
    pool = Pool(Counting())
    with pytest.raises(ArgumentError, match="at least 0"):
        pool.allocate(-1)
    with pytest.raises(ArgumentError, match="at least 0"):
        pool.limit = -1
    with pytest.raises(ArgumentError, match="bins, ordered, slices, direct"):
        it.memory.strategy("best")
    with pytest.raises(ArgumentError, match="2GiB"):
        it.memory.limit("much")


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("10", 10), ("1k", 1024), ("1.5MiB", 3 << 19), ("2GB", 2 << 30), ("4 t", 4 << 40), (7, 7)],
)
def test_reading_bytes(text: int | str, nbytes: int) -> None:
    assert read_bytes(text, "test") == nbytes


def test_showing_bytes() -> None:
    assert [shown_bytes(n) for n in (0, 1023, 1536, 5 << 30)] == [
        "0 B", "1023 B", "1.5 KiB", "5.0 GiB",
    ]  # fmt: skip


def test_statistics_are_readable() -> None:
    pool = Pool(Counting(), limit=8 * MIB)
    kept = pool.allocate(MIB, "a name")
    text = str(pool.statistics())
    assert "limit 8.0 MiB" in text
    assert "1.0 MiB a name" in text
    pool.reset_peak()
    assert pool.statistics().peak == kept.size
