"""Tables as built-in functions of Python."""

import gc
import weakref

import numpy as np
import pytest

from ingle_cpu.jit.engine import IRSource, engine
from ingle_cpu.threads import abi, launcher
from ingle_cpu.threads.table import AbortedError, Table, TableEntry

# y[i] = x[i] + args[0]
PLUS = IRSource(
    """
define void @plus(ptr %pointers, ptr %args, i64 %begin, i64 %end, i64 %worker) {
start:
  %x = load ptr, ptr %pointers
  %y_at = getelementptr ptr, ptr %pointers, i64 1
  %y = load ptr, ptr %y_at
  %a = load i64, ptr %args
  br label %head
head:
  %i = phi i64 [%begin, %start], [%next, %body]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %out
body:
  %from = getelementptr i64, ptr %x, i64 %i
  %into = getelementptr i64, ptr %y, i64 %i
  %old = load i64, ptr %from
  %new = add i64 %old, %a
  store i64 %new, ptr %into
  %next = add i64 %i, 1
  br label %head
out:
  ret void
}
""",
    ("plus",),
)


def plus(count: int, number: int) -> Table:
    code = engine().code(PLUS)
    return Table(
        [TableEntry(code.addresses[0], 0, 0, count)],
        base_of=[0, 1], offset_of=[0, 0], buffers=3, args=[number], code=[code],
    )  # fmt: skip


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def test_it_puts_addresses_into_the_first_bases_and_runs() -> None:
    table, x, y = plus(5, 7), np.arange(5), np.zeros(5, np.int64)
    table.bases[2] = 3
    assert table.launch(address(x), address(y)) == abi.FINISHED
    assert y.tolist() == [7, 8, 9, 10, 11]
    assert table.bases.tolist() == [address(x), address(y), 3]
    y[:] = 0
    table.run(release=False)
    assert y.tolist() == [7, 8, 9, 10, 11], "on the bases that are there"


def test_arrays_may_stand_for_their_addresses() -> None:
    table, x, y = plus(3, 7), np.arange(8)[2:], np.zeros(3, np.int64)
    x.flags.writeable = False
    assert table.launch(x.__array_struct__, address(y)) == abi.FINISHED
    assert y.tolist() == [9, 10, 11]
    assert table.bases.tolist()[:2] == [address(x), address(y)]


@pytest.mark.parametrize("given", ["x", 1.5, None])
def test_what_is_no_whole_number_is_refused(given: object) -> None:
    table, x = plus(2, 1), np.zeros(2, np.int64)
    with pytest.raises(TypeError):
        table.launch(address(x), given)
    assert x.tolist() == [0, 0]


def test_too_many_addresses_are_refused() -> None:
    with pytest.raises(SystemError):
        plus(2, 1).launch(0, 0, 0, 0)


def test_it_keeps_what_it_runs_on() -> None:
    table = plus(3, 1)
    launch = table.launch
    copied = table.copy().launch
    del table
    gc.collect()
    kept = [np.zeros(64, np.int64) for _ in range(64)]  # where the table's memory may have been
    x, y = np.arange(3), np.zeros(3, np.int64)
    for each in (launch, copied):
        y[:] = 0
        assert each(address(x), address(y)) == abi.FINISHED
        assert y.tolist() == [1, 2, 3]
    assert not any(k.any() for k in kept)


def test_a_run_that_was_stopped_says_so() -> None:
    table, x, y = plus(2, 1), np.arange(2), np.zeros(2, np.int64)
    table.abort()
    status = table.launch(address(x), address(y))
    assert status == abi.ABORTED
    with pytest.raises(AbortedError, match="before entry 0 of 1"):
        table.after(status)
    assert table.launch(address(x), address(y)) == abi.FINISHED
    assert y.tolist() == [1, 2]


def test_a_launcher_holds_what_python_knows_of_it():
    """Of two threads that make the first ones at once, one has a definition that no cache keeps."""
    launcher._definition.cache_clear()
    table = plus(8, 7)
    definition = weakref.ref(launcher._definition())
    launcher._definition.cache_clear()
    gc.collect()
    assert definition() is not None
    x, y = np.arange(8), np.zeros(8, np.int64)
    assert table.launch(x.ctypes.data, y.ctypes.data) == abi.FINISHED
    np.testing.assert_array_equal(y, x + 7)
