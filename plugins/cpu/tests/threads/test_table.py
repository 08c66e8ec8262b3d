"""Tables run as their entries say: alone, with the thread pool, from many threads, over forks."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingle.tensor.errors import ArgumentError
from ingle_cpu.jit.engine import IRSource, engine
from ingle_cpu.threads.abi import POINT_OF_NO_RETURN, WITH_PREVIOUS
from ingle_cpu.threads.pool import ThreadPool, thread_count, thread_pool
from ingle_cpu.threads.table import AbortedError, Table, TableEntry

# x[i] = x[i] * args[0] + args[1], over int64, so that order and repetition show.
AFFINE = IRSource(
    """
define void @affine(ptr %pointers, ptr %args, i64 %begin, i64 %end, i64 %worker) {
start:
  %x = load ptr, ptr %pointers
  %a = load i64, ptr %args
  %b_at = getelementptr i64, ptr %args, i64 1
  %b = load i64, ptr %b_at
  br label %head
head:
  %i = phi i64 [%begin, %start], [%next, %body]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %out
body:
  %at = getelementptr i64, ptr %x, i64 %i
  %old = load i64, ptr %at
  %scaled = mul i64 %old, %a
  %new = add i64 %scaled, %b
  store i64 %new, ptr %at
  %next = add i64 %i, 1
  br label %head
out:
  ret void
}
; x[i] = the worker that ran unit i
define void @whose(ptr %pointers, ptr %args, i64 %begin, i64 %end, i64 %worker) {
start:
  %x = load ptr, ptr %pointers
  br label %head
head:
  %i = phi i64 [%begin, %start], [%next, %body]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %out
body:
  %at = getelementptr i64, ptr %x, i64 %i
  store volatile i64 %worker, ptr %at
  %next = add i64 %i, 1
  br label %head
out:
  ret void
}
""",
    ("affine", "whose"),
)


def functions() -> tuple[int, ...]:
    return engine().addresses(AFFINE)


def affine_table(
    arrays: list[np.ndarray],
    steps: list[tuple[int, int, int, int]],
    thread_pool: ThreadPool | None = None,
) -> Table:
    """Steps are (array, factor, summand, flags)."""
    function = functions()[0]
    entries, args = [], []
    for array, factor, summand, flags in steps:
        entries.append(TableEntry(function, array, len(args), len(arrays[array]), 7, flags))
        args += [factor, summand]
    count = len(arrays)
    table = Table(
        entries, base_of=range(count), offset_of=[0] * count, buffers=count, args=args,
        thread_pool=thread_pool,
    )  # fmt: skip
    table.bases[:] = [a.ctypes.data for a in arrays]
    return table


def affine_expected(arrays: list[np.ndarray], steps: list[tuple[int, int, int, int]]) -> list:
    expected = [a.copy() for a in arrays]
    for array, factor, summand, _ in steps:
        expected[array] = expected[array] * factor + summand
    return expected


@pytest.fixture(params=["kernel", "python", "single", "four"])
def any_pool(request: pytest.FixtureRequest) -> Iterator[ThreadPool]:
    threads = {"single": 1, "four": 4}.get(request.param, 2)
    made = ThreadPool(threads, park_in_kernel=request.param == "kernel" and sys.platform == "linux")
    yield made
    made.stop()


class TestRuns:
    @settings(max_examples=60, deadline=None)
    @given(
        sizes=st.lists(st.integers(0, 300), min_size=1, max_size=4),
        steps=st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 3), st.integers(-9, 9))),
    )
    def test_entries_run_once_and_in_order(
        self, sizes: list[int], steps: list[tuple[int, int, int]]
    ) -> None:
        arrays = [np.arange(n, dtype=np.int64) for n in sizes]
        plan = [(a % len(sizes), f, s, 0) for a, f, s in steps]
        expected = affine_expected(arrays, plan)
        affine_table(arrays, plan).run()
        for array, wanted in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(array, wanted)

    def test_independent_entries_of_any_size(self) -> None:
        arrays = [np.arange(n, dtype=np.int64) for n in (3, 1000, 0, 40, 7)]
        plan = [(i, 2, i, WITH_PREVIOUS if i else 0) for i in range(5)] * 3
        expected = affine_expected(arrays, plan)
        for _ in range(50):
            for i, n in enumerate((3, 1000, 0, 40, 7)):
                arrays[i][:] = np.arange(n)
            affine_table(arrays, plan).run()
            for array, wanted in zip(arrays, expected, strict=True):
                np.testing.assert_array_equal(array, wanted)

    def test_many_runs_with_pauses(self, any_pool: ThreadPool) -> None:
        arrays = [np.zeros(5000, np.int64)]
        table = affine_table(arrays, [(0, 1, 1, 0)] * 10, any_pool)
        for i in range(300):
            if i % 50 == 0:
                time.sleep(0.003)
            table.run(release=bool(i % 2))
        assert (arrays[0] == 3000).all()

    def test_workers_help(self) -> None:
        team = ThreadPool(2)
        where = np.full(1_000_000, -1, np.int64)
        entry = TableEntry(functions()[1], 0, 0, len(where), 100)
        table = Table([entry], base_of=[0], offset_of=[0], buffers=1, args=[], thread_pool=team)
        table.bases[0] = where.ctypes.data
        seen: set[int] = set()
        deadline = time.monotonic() + 20
        while seen != {0, 1} and time.monotonic() < deadline:
            table.run()
            seen |= set(np.unique(where).tolist())
        team.stop()
        assert seen == {0, 1}

    def test_each_worker_begins_with_its_own_share(self) -> None:
        team = ThreadPool(3)
        where = np.full(3_000_000, -1, np.int64)
        entry = TableEntry(functions()[1], 0, 0, len(where), 100)
        table = Table([entry], base_of=[0], offset_of=[0], buffers=1, args=[], thread_pool=team)
        table.bases[0] = where.ctypes.data
        begun: set[int] = set()
        deadline = time.monotonic() + 20
        while begun != {0, 1, 2} and time.monotonic() < deadline:
            table.run()
            begun |= {w for w in (0, 1, 2) if where[w * len(where) // 3] == w}
            assert (where >= 0).all()
            where.fill(-1)
        team.stop()
        assert begun == {0, 1, 2}

    def test_up_to_the_grain_an_entry_stays_with_the_caller(self) -> None:
        where = np.full(100, -1, np.int64)
        entry = TableEntry(functions()[1], 0, 0, 100, 100)
        table = Table([entry], base_of=[0], offset_of=[0], buffers=1, args=[])
        table.bases[0] = where.ctypes.data
        table.run()
        assert (where == 0).all()

    def test_pointers_are_bases_and_offsets(self) -> None:
        memory = np.zeros(64, np.int64)
        entry = TableEntry(functions()[0], 1, 0, 8)
        table = Table([entry], base_of=[0, 0], offset_of=[0, 128], buffers=1, args=[1, 5])
        table.bases[0] = memory.ctypes.data
        table.run()
        assert memory[16:24].tolist() == [5] * 8
        assert memory.sum() == 40

    def test_no_entries(self) -> None:
        Table([], base_of=[], offset_of=[], buffers=0, args=[]).run()

    @pytest.mark.parametrize(
        ("entries", "base_of", "offset_of", "says"),
        [
            ([TableEntry(0, 0, 0, 1, 0)], [0], [0], "grain"),
            ([], [1], [0], "names a buffer outside"),
            ([], [0], [], "0 an offset"),
        ],
    )
    def test_tables_that_cannot_run(
        self, entries: list[TableEntry], base_of: list[int], offset_of: list[int], says: str
    ) -> None:
        with pytest.raises(ValueError, match=says):
            Table(entries, base_of=base_of, offset_of=offset_of, buffers=1, args=[])


class TestAbort:
    def test_stops_before_the_next_entry(self) -> None:
        arrays = [np.zeros(10, np.int64)]
        table = affine_table(arrays, [(0, 1, 1, 0)] * 3)
        table.abort()
        with pytest.raises(AbortedError, match="before entry 0 of 3"):
            table.run()
        assert not arrays[0].any()
        table.run()
        assert (arrays[0] == 3).all()

    def test_not_once_state_is_written(self) -> None:
        arrays = [np.zeros(10, np.int64)]
        table = affine_table(arrays, [(0, 1, 1, POINT_OF_NO_RETURN), (0, 1, 1, 0)])
        table.abort()
        table.run()
        assert (arrays[0] == 2).all()

    def test_from_another_thread(self) -> None:
        arrays = [np.zeros(200_000, np.int64)]
        table = affine_table(arrays, [(0, 1, 1, 0)] * 20_000)
        timer = threading.Timer(0.02, table.abort)
        timer.start()
        with pytest.raises(AbortedError):
            table.run()
        timer.join()


class TestThreads:
    def test_ten_threads_run_ten_tables(self) -> None:
        def work(number: int) -> None:
            arrays = [np.zeros(3000, np.int64)]
            table = affine_table(arrays, [(0, 1, number, 0)] * 5)
            for _ in range(200):
                table.run()
            results[number] = arrays[0]

        results: dict[int, np.ndarray] = {}
        threads = [threading.Thread(target=work, args=(i,)) for i in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all((results[i] == 1000 * i).all() for i in range(10))

    def test_copies_of_one_table_overlap(self) -> None:
        one = [np.zeros(3000, np.int64)]
        two = np.zeros(3000, np.int64)
        table = affine_table(one, [(0, 1, 1, 0)] * 5)
        other = table.copy()
        other.bases[0] = two.ctypes.data
        thread = threading.Thread(target=lambda: [other.run() for _ in range(300)])
        thread.start()
        for _ in range(300):
            table.run()
        thread.join()
        assert (one[0] == 1500).all()
        assert (two == 1500).all()

    @pytest.mark.parametrize("text", ["0", "-1", "two", "1e9", "9" * 5000, "99999", "2.5", "٣"])
    def test_a_number_of_threads_that_makes_no_sense(
        self, text: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("INGLE_NUM_THREADS", text)
        with pytest.raises(ArgumentError, match="INGLE_NUM_THREADS"):
            thread_count()

    def test_the_number_of_threads_is_the_environments(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("INGLE_NUM_THREADS", "7")
        assert thread_count() == 7
        monkeypatch.delenv("INGLE_NUM_THREADS")
        assert 1 <= thread_count() <= (os.cpu_count() or 1)

    def test_idle_workers_sleep(self, any_pool: ThreadPool) -> None:
        arrays = [np.zeros(5000, np.int64)]
        table = affine_table(arrays, [(0, 1, 1, 0)], any_pool)
        table.run()
        deadline = time.monotonic() + 20
        while any_pool.sleeping < any_pool.threads - 1 and time.monotonic() < deadline:
            time.sleep(0.005)
        assert any_pool.sleeping == any_pool.threads - 1

    def test_a_stopped_pool_runs_alone_and_starts_again(self) -> None:
        team = ThreadPool(2)
        arrays = [np.zeros(5000, np.int64)]
        table = affine_table(arrays, [(0, 1, 1, 0)], team)
        team.stop()
        table.run()
        assert team._ready
        table.run()
        team.stop()
        assert (arrays[0] == 2).all()

    def test_a_pool_that_stops_is_not_started_meanwhile(self) -> None:
        """A plan of another thread ran between the flag and the wake: workers that slept again
        without having seen it were waited for until the end of time."""
        team = ThreadPool(3)
        arrays = [np.zeros(5000, np.int64)]
        table = affine_table(arrays, [(0, 1, 1, 0)], team)
        table.run()
        wake = team.wake

        def woken_late() -> None:
            table.run()
            wake()

        team.wake = woken_late  # type: ignore[method-assign]
        stopping = threading.Thread(target=team.stop, daemon=True)
        stopping.start()
        stopping.join(20)
        assert not stopping.is_alive()
        team.wake = wake  # type: ignore[method-assign]
        table.run()
        assert team._ready
        team.stop()
        assert (arrays[0] == 3).all()


class TestProfile:
    def test_adds_up_what_entries_take(self) -> None:
        arrays = [np.zeros(100_000, np.int64), np.zeros(10, np.int64)]
        table = affine_table(arrays, [(0, 1, 1, 0), (1, 1, 1, 0)])
        table.measure()
        begin = time.perf_counter()
        for _ in range(10):
            table.run()
        elapsed = time.perf_counter() - begin
        large, small = table.seconds
        assert 0 < small < large <= elapsed * 1.5
        table.measure(False)
        with pytest.raises(ValueError, match="nothing was measured"):
            _ = table.seconds


FORKED = """
import os, sys
import numpy as np
sys.path.insert(0, {tests!r})
from test_table import affine_table
from ingle_cpu.threads.pool import thread_pool
arrays = [np.zeros(5000, np.int64)]
table = affine_table(arrays, [(0, 1, 1, 0)] * 3)
table.run()
child = os.fork()
for _ in range(20):
    table.run()
assert (arrays[0] == 63).all()
if child == 0:
    assert thread_pool()._ready
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print("both fine")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_after_the_pool_started() -> None:
    code = FORKED.format(tests=os.path.dirname(__file__))
    environment = {**os.environ, "INGLE_NUM_THREADS": "2"}  # on one core nothing would start
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, timeout=120, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "both fine\n"


@pytest.mark.slow
def test_the_process_ends_while_workers_sleep_or_spin() -> None:
    code = (
        f"import sys, numpy as np; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "from test_table import affine_table\n"
        "arrays = [np.zeros(9999, np.int64)]\n"
        "affine_table(arrays, [(0, 1, 1, 0)]).run()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_pool_of_the_process_is_one() -> None:
    assert thread_pool() is thread_pool()
