"""Memory is written over only where nothing else holds it, whatever the shape of the code.

`sys.getrefcount` says of the same object different things in code of different shapes, and in other
versions of Python again: each shape is pinned here, on objects and through the code that uses it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import ingle.fusion
import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.compiled.fast_call_many import MANY
from ingle.fusion.runtime.graph_plans import GraphPlans
from ingle.fusion.runtime.plan_cache import PlanCache
from ingle.fusion.support import refcounts
from ingle.fusion.support.refcounts import (
    HELD_ONCE,
    HELD_TWICE,
    PASSED_ITEM,
    PASSED_VARIABLE,
    may_overwrite,
    refs,
)
from ingle.tensor.cell import Cell

COUNTED = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
counted = pytest.mark.skipif(not COUNTED, reason="needs CPython with the GIL")
SOURCES = Path(ingle.fusion.__file__).parent
BORROWED = sys.version_info >= (3, 14)
"""Whether a function's variables are lent to a call rather than referred to once more."""

COUNTING = ("refs", "may_overwrite")
USES = {
    ("compiled/fast_call.py", "may_overwrite({cell}, {handle}, {handle}v, {PASSED_VARIABLE})"): (
        "generated variable that is passed"
    ),
    ("compiled/fast_call_many.py", "may_overwrite(cells[n], handles[n], given[n], PASSED_ITEM)"): (
        "item that is passed"
    ),
    ("runtime/kernel_backend.py", "refs(self.memory)"): "attribute",
    ("runtime/plan_cache.py", "may_overwrite(None, None, h, held)"): (
        "variable of a loop that is passed"
    ),
    ("stream.py", "refs(h)"): "variable of a loop",
}
"""What is counted where, and in code of which shape; a new one needs a row in `SHAPES`."""


class Slot:
    def __init__(self, held):
        self.held = held


def of_attribute(slot, items):
    return refs(slot.held)


def of_variable(slot, items):
    x = slot.held
    try:
        found = refs(x)
    finally:
        del slot
    return found


def of_generated_variable(slot, items):
    names = {"refs": refs, "k0": slot}
    exec("def call(args):\n    k0h = k0.held\n    return refs(k0h)\n", names)
    return names["call"](())


def of_loop(slot, items):
    return [refs(h) for h in items][0]  # noqa: RUF015 (the shape that is counted)


def passed(value):
    return refs(value)


def of_passed_variable(slot, items):
    x = slot.held
    return passed(x)


def of_passed_generated_variable(slot, items):
    names = {"passed": passed, "k0": slot, "lock": threading.Lock()}
    lines = [
        "try:",
        "    k0h = k0.held",
        "except AttributeError: return None",
        "with lock:",
        "    before = None",
        "    try:",
        "        f0 = passed(k0h)",
        "        if not f0: before = k0h",
        "    except BaseException:",
        "        if before: k0h = before",
        "        raise",
        "    finally:",
        "        del before",
        "return f0",
    ]
    exec("def call(args):\n    " + "\n    ".join(lines) + "\n", names)
    return names["call"](())


def of_passed_loop(slot, items):
    return [passed(h) for h in items][0]  # noqa: RUF015


def of_passed_item(slot, items):
    n = 0
    return passed(items[n])


SHAPES = {
    # how it is counted: (by what, where the object lies, what counts it, the count)
    "attribute": (of_attribute, "slot", HELD_ONCE, 2),
    "variable": (of_variable, "slot", HELD_TWICE, 3 - BORROWED),
    "generated variable": (of_generated_variable, "slot", HELD_TWICE, 3 - BORROWED),
    "variable of a loop": (of_loop, "items", HELD_TWICE, 3 - BORROWED),
    "variable that is passed": (of_passed_variable, "slot", PASSED_VARIABLE, 4 - 2 * BORROWED),
    "generated variable that is passed": (
        of_passed_generated_variable, "slot", PASSED_VARIABLE, 4 - 2 * BORROWED,
    ),
    "variable of a loop that is passed": (
        of_passed_loop, "items", PASSED_VARIABLE, 4 - 2 * BORROWED,
    ),
    "item that is passed": (of_passed_item, "both", PASSED_ITEM, 4 - BORROWED),
}  # fmt: skip


@counted
@pytest.mark.parametrize("name", SHAPES)
def test_each_shape_of_code_has_its_count(name):
    function, place, known, expected = SHAPES[name]
    assert known == expected

    def found(others):
        slot, items = Slot(None), []
        if place != "items":
            slot.held = object()
        if place == "items":
            items.append(object())
        elif place == "both":
            items.append(slot.held)
        holders = [slot.held if place != "items" else items[0] for _ in range(others)]
        count = function(slot, items)
        del holders
        return count

    for _ in range(3000):  # the interpreter specializes what runs often
        assert found(0) == known
    for others in (1, 2, 5):
        assert found(others) != known


def test_every_count_is_of_a_known_shape():
    found = set()
    for path in sorted(SOURCES.rglob("*.py")):
        name = path.relative_to(SOURCES).as_posix()
        if name == "support/refcounts.py":
            continue
        source = path.read_text()
        assert "getrefcount" not in source, f"{name}: count by `refs` of support/refcounts.py"
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id in COUNTING:
                    found.add((name, ast.unparse(node)))
            elif isinstance(node, ast.JoinedStr):
                text = ast.unparse(node)
                for call in COUNTING:
                    pieces = text.split(f"{call}(")[1:]
                    found.update((name, f"{call}({piece.split(')')[0]})") for piece in pieces)
    assert found == set(USES), "counts of another shape: pin them in SHAPES, list them in USES"
    assert set(USES.values()) <= set(SHAPES)


@pytest.mark.parametrize(
    ("prelude", "why"),
    [
        ("sys._is_gil_enabled = lambda: False", "threads count for themselves"),
        ("sys.implementation.name = 'pypy'", "nothing is counted"),
        ("sys.getrefcount = lambda x: 2", "another holder goes unseen"),
        ("sys.getrefcount = lambda x, f=sys.getrefcount: min(f(x), 4)", "some holders do"),
    ],
)
def test_where_counts_say_less_nothing_is_found_unheld(prelude, why):
    source = Path(refcounts.__file__).read_text()
    known = "HELD_ONCE, HELD_TWICE, PASSED_VARIABLE, PASSED_ITEM"
    check = f"import sys\n{prelude}\n{source}\nassert ({known}) == _UNKNOWN"
    subprocess.run([sys.executable, "-c", check.replace("from __future__", "#")], check=True)


class Value:
    """A value of a backend, which shares its memory or does not."""

    def __init__(self, exclusive):
        self.exclusive = exclusive


class Chain:
    """A cell with a tensor, whose handle has a value."""

    def __init__(self, exclusive=True):
        self._value = Slot(Slot(Value(exclusive)))

    def may_be_written_over(self):
        handle = self._value.held
        value = handle.held
        return may_overwrite(self, handle, value, PASSED_VARIABLE)


@counted
def test_memory_may_be_written_over_if_nothing_else_holds_any_part_of_the_chain():
    chain = Chain()
    assert chain.may_be_written_over()
    for part in (
        lambda: chain._value,
        lambda: chain._value.held,
        lambda: chain._value.held.held,
    ):
        kept = [part()]
        assert not chain.may_be_written_over()
        del kept
        assert chain.may_be_written_over()
    assert not Chain(exclusive=False).may_be_written_over()


@counted
def test_memory_of_what_no_cell_holds_may_be_written_over_if_only_a_list_does():
    given = [Value(True), Value(True), Value(False), object()]
    other = given[1]
    found = [may_overwrite(None, None, h, PASSED_VARIABLE) for h in given]
    assert found == [True, False, False, False]
    further = given[:]
    assert [may_overwrite(None, None, h, PASSED_VARIABLE + 1) for h in given] == found
    del further, other


# Through the code that counts -------------------------------------------------------------------


@pytest.fixture
def runs(monkeypatch):
    """For each run of a plan which of its inputs may be written over."""
    found, over = [], GraphPlans.run_donating

    def spy(self, given, numbers, free, donation):
        found.append(list(free))
        return over(self, given, numbers, free, donation)

    monkeypatch.setattr(GraphPlans, "run_donating", spy)
    return found


def suspended(x):
    yield 1
    yield x


def of_generator(x):
    waiting = suspended(x)
    next(waiting)
    return waiting


HOLDERS = {
    "nobody": lambda x: None,
    "a variable": lambda x: x,
    "a list": lambda x: [x],
    "a closure": lambda x: lambda: x,
    "a generator": of_generator,
    "its handle": lambda x: x._handle,
    "the handle below": lambda x: x._handle.value,
    "a tuple of these": lambda x: (x._handle, x._handle.value),
    "an array": np.asarray,
    "DLPack": np.from_dlpack,
}
LENGTH = 1 << 15
"""Elements from which on a short log is planned, too."""


def fresh(value):
    x = it.asarray(np.full(LENGTH, value, "float32"), device="cpu") + 0
    x._handle.computed()
    return x


@counted
@pytest.mark.parametrize("by", HOLDERS)
@pytest.mark.parametrize("unneeded", [False, True], ids=["whole", "trimmed"])
def test_streams_write_over_what_nobody_holds(runs, by, unneeded):
    for turn in range(5):
        x, other = fresh(turn), fresh(0)
        runs.clear()
        holder = HOLDERS[by](x)
        y, dropped = it.exp(x) * 2, it.sin(other) if unneeded else None
        del x, dropped
        got = np.asarray(y)
        np.testing.assert_allclose(got, np.exp(np.full(LENGTH, turn, "float32")) * 2, rtol=1e-6)
        if runs:
            assert runs[-1] == [by == "nobody"]
        if isinstance(holder, np.ndarray):
            assert (holder == turn).all()
        elif isinstance(holder, it.Tensor):
            assert (np.asarray(holder) == turn).all()
    assert runs


@counted
def test_a_list_of_inputs_that_only_the_call_holds(monkeypatch, runs):
    """What is left out of a trimmed log must not let the list go that is counted on."""
    run, kept = PlanCache.run, []

    def spy(self, log, outputs, given, numbers, donation):
        if len(given) != 2:
            return run(self, log, outputs, given, numbers, donation)
        kept[:] = given
        del given[:]
        return run(self, log, outputs, [h for h in kept], numbers, donation)  # noqa: C416

    monkeypatch.setattr(PlanCache, "run", spy)
    for turn in range(4):
        x, other = fresh(turn), fresh(0)
        runs.clear()
        y, dropped = it.exp(x) * 3, it.cos(other)
        del x, other, dropped
        np.asarray(y)
    assert runs == [[False]]


@counted
def test_what_lies_between_two_pieces_is_written_over_and_what_was_given_is_not(runs):
    for turn in range(4):
        x = fresh(turn)
        runs.clear()
        y = x
        for _ in range(160):
            y = it.tanh(it.cumulative_sum(y * 0.5) + 1)
        np.asarray(y)
        np.testing.assert_array_equal(np.asarray(x), np.full(LENGTH, turn, "float32"))
    assert len(runs) > 1
    assert runs[0] == [False]
    assert any(map(any, runs[1:]))


def stepped(count):
    with it.device("cpu"):
        cells = [Cell(it.zeros((8,)) + 0) for _ in range(count)]

        def step(x):
            for c in cells:
                c.value = c.value * 0.5 + x

        return cells, compile(step), it.ones((8,))


@counted
@pytest.mark.parametrize("by", HOLDERS)
@pytest.mark.parametrize("count", [2, MANY + 1], ids=["lines", "loops"])
def test_compiled_calls_write_over_what_only_a_cell_holds(runs, by, count):
    cells, step, x = stepped(count)
    for turn in range(7):
        runs.clear()
        # The cell's own tensor: what a program gets by `value` is another one.
        holder = HOLDERS[by](cells[1]._value)
        step(x)
        if turn > 3:
            assert len(runs) == 1
            assert runs[0].count(True) == count - (by != "nobody"), runs
        if isinstance(holder, (np.ndarray, it.Tensor)):
            np.testing.assert_array_equal(np.asarray(holder), np.full(8, 2 - 2 * 0.5**turn))
        del holder
    np.testing.assert_array_equal(np.asarray(cells[1].value), np.full(8, 2 - 2 * 0.5**7))


@counted
@pytest.mark.parametrize("count", [2, MANY + 1], ids=["lines", "loops"])
def test_what_a_program_reads_of_a_cell_keeps_its_value(runs, count):
    cells, step, x = stepped(count)
    for _ in range(6):
        runs.clear()
        read = cells[0].value
        before = np.array(read)
        step(x)
        np.testing.assert_array_equal(np.asarray(read), before)
    assert runs[-1].count(True) == count - 1


def test_a_stream_that_holds_much_alone_is_run(monkeypatch):
    """Counted for memory only: too low a count runs a stream early, too high a one late."""
    monkeypatch.setattr("ingle.fusion.stream.MOST_BYTES", LENGTH * 4 * 16)
    y, kept = fresh(0), []
    for k in range(400):
        x = fresh(k % 3)
        kept.append(x)
        y = y + x
    np.testing.assert_array_equal(np.asarray(y), np.full(LENGTH, sum(k % 3 for k in range(400))))
