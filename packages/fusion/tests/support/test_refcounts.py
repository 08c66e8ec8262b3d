"""Memory is written over only where nothing else holds it, whatever the shape of the code.

`sys.getrefcount` says of the same object different things in code of different shapes, and in other
versions of Python again: each shape is pinned here, on objects. `runtime/test_donated_memory.py` is
about the code that uses them.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
from operator import attrgetter
from pathlib import Path

import pytest

import ingle.fusion
from ingle.fusion.support import refcounts
from ingle.fusion.support.refcounts import (
    HELD_ONCE,
    MAPPED_ATTRIBUTE,
    MAPPED_ITEM,
    PASSED_ITEM,
    may_overwrite,
    may_overwrite_all,
    refs,
)

COUNTED = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
counted = pytest.mark.skipif(not COUNTED, reason="needs CPython with the GIL")
SOURCES = Path(ingle.fusion.__file__).parent
BORROWED = sys.version_info >= (3, 14)
"""Whether a function's variables are lent to a call rather than referred to once more."""

COUNTS = (
    "HELD_ONCE", "PASSED_ITEM", "MAPPED_ITEM", "MAPPED_ATTRIBUTE",
)  # fmt: skip
COUNTING = ("refs", "may_overwrite", "may_overwrite_all")
USES = {
    (
        "compiled/fast_call.py",
        "may_overwrite({cell}, held[{place}], held[{place + 1}], {PASSED_ITEM + 1})",
    ): "generated item that is passed",
    (
        "compiled/fast_call_many.py",
        "may_overwrite(cells[n], donated[n], values[n], PASSED_ITEM + 1)",
    ): "item that is passed",
    ("compiled/fast_call_many.py", "may_overwrite_all(self._owners, donated, values, 1)"): (
        "items that are mapped"
    ),
    ("runtime/device_handles.py", "refs(self.memory)"): "attribute",
    ("runtime/plan_cache.py", "may_overwrite(None, None, given[place], held)"): (
        "item that is passed"
    ),
}
"""What is counted where, and in code of which shape; a new one needs a row in `SHAPES`."""


class Slot:
    def __init__(self, held):
        self.held = held


def of_attribute(slot, items):
    return refs(slot.held)


def passed(value):
    return refs(value)


def of_passed_generated_item(slot, items):
    names = {"passed": passed, "k0": slot, "lock": threading.Lock()}
    lines = [
        "try:",
        "    k0h = k0.held",
        "except AttributeError: return None",
        "with lock:",
        "    before = None",
        "    held = [k0h]",
        "    try:",
        "        f0 = passed(held[0]) - 1",
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


def of_passed_item(slot, items):
    n = 0
    return passed(items[n])


def of_mapped_items(slot, items):
    (found,) = map(refs, items)
    return found


def of_mapped_attributes(slot, items):
    slots = [slot]
    (found,) = map(refs, map(attrgetter("held"), slots))
    return found


SHAPES = {
    # how it is counted: (by what, where the object lies, what counts it, the count)
    "attribute": (of_attribute, "slot", HELD_ONCE, 2),
    "generated item that is passed": (
        of_passed_generated_item, "slot", PASSED_ITEM, 4 - BORROWED,
    ),
    "item that is passed": (of_passed_item, "both", PASSED_ITEM, 4 - BORROWED),
    "items that are mapped": (of_mapped_items, "both", MAPPED_ITEM, 3),
    "attributes that are mapped": (of_mapped_attributes, "slot", MAPPED_ATTRIBUTE, 2),
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


@pytest.mark.slow
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
    known = ", ".join(name for name in vars(refcounts) if name in COUNTS)
    assert len(known.split()) == len(COUNTS)
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
        held = [self._value.held, self._value.held.held]
        return may_overwrite(self, held[0], held[1], PASSED_ITEM)


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
def test_memory_of_many_may_be_written_over_if_nothing_else_holds_any_part_of_one():
    chains = [Chain() for _ in range(3)]

    def may_be_written_over():
        handles = [chain._value.held for chain in chains]
        values = [handle.held for handle in handles]
        return may_overwrite_all(chains, handles, values, 0)

    assert may_be_written_over()
    for part in (
        lambda: chains[1]._value,
        lambda: chains[1]._value.held,
        lambda: chains[1]._value.held.held,
    ):
        kept = [part()]
        assert not may_be_written_over()
        del kept
        assert may_be_written_over()
    chains[2] = Chain(exclusive=False)
    assert not may_be_written_over()


@counted
def test_memory_of_what_no_cell_holds_may_be_written_over_if_only_a_list_does():
    given = [Value(True), Value(True), Value(False), object()]
    other = given[1]
    found = [may_overwrite(None, None, given[n], PASSED_ITEM - 1) for n in range(4)]
    assert found == [True, False, False, False]
    further = given[:]
    assert [may_overwrite(None, None, given[n], PASSED_ITEM) for n in range(4)] == found
    del further, other
