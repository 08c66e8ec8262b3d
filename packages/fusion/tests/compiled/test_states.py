"""Objects of Python's library and of others in C: changes are seen, or they are refused."""

from __future__ import annotations

import copy
import functools
import io
import logging
import operator
import pickle
import queue
import random
import threading

import numpy as np
import pytest

import ingle.nn as nn
import ingle.tensor as it
from ingle.fusion import CompileError, compile
from ingle.tensor import structure


def event():
    made = threading.Event()
    return made, lambda e: float(e.is_set()), made.set


def lock(kind):
    made = kind()
    return made, lambda held: float("unlocked" in repr(held)), made.acquire


def condition():
    made = threading.Condition()
    return made, lambda c: float(c._lock._is_owned()), made.acquire


def semaphore():
    made = threading.Semaphore(1)
    return made, lambda s: float(s._value), made.release


def barrier():
    made = threading.Barrier(2)
    return made, lambda b: float(b.broken), made.abort


def growing(kind):
    made = kind()
    made.put(1)
    return made, lambda q: float(q.qsize()), lambda: made.put(0)


def generator():
    made = random.Random(0)
    return made, lambda r: float(hash(r.getstate()) % 1000), made.random


def bits():
    made = np.random.default_rng(0)
    return made, lambda g: float(g.bit_generator.state["state"]["state"] % 1000), made.random


def stream():
    made = io.BytesIO(b"ab")
    return made, lambda s: float(len(s.getvalue())), lambda: made.write(b"abcde")


THINGS = {
    "event": event,
    "lock": lambda: lock(threading.Lock),
    "rlock": lambda: lock(threading.RLock),
    "condition": condition,
    "semaphore": semaphore,
    "barrier": barrier,
    "queue": lambda: growing(queue.Queue),
    "priority queue": lambda: growing(queue.PriorityQueue),
    "random": generator,
    "numpy's generator": bits,
    "bytes": stream,
}


class Holder(nn.Module):
    def __init__(self, held, read):
        super().__init__()
        self.held = held
        self.read = read

    def forward(self, x):
        return x * self.read(self.held)


def check(call, want, change):
    """That results are right before and after a change; a first call, one that compares, two."""
    x = it.ones(2)
    for _ in range(2):
        for _ in range(3):
            assert float(call(x)[0]) == np.float32(want())
        change()
    assert float(call(x)[0]) == np.float32(want())


@pytest.mark.parametrize("name", THINGS)
def test_changes_are_seen(name):
    if name != "lock" and name != "barrier":  # which can be taken, or broken, only once
        thing, read, change = THINGS[name]()
        f = compile(lambda x, thing: x * read(thing))
        check(lambda x: f(x, thing), lambda: read(thing), change)
    thing, read, change = THINGS[name]()
    f = compile(lambda x, thing: x * read(thing))
    before = float(f(it.ones(2), thing)[0])
    assert float(f(it.ones(2), thing)[0]) == before == np.float32(read(thing))
    change()
    assert float(f(it.ones(2), thing)[0]) == np.float32(read(thing))


@pytest.mark.parametrize("name", [n for n in THINGS if n not in ("lock", "barrier")])
def test_changes_of_what_a_module_holds_are_seen(name):
    thing, read, change = THINGS[name]()
    check(compile(Holder(thing, read)), lambda: read(thing), change)


def test_methods_are_their_objects():
    made = threading.Event()
    check(
        compile(Holder(made.is_set, lambda f: float(f()))), lambda: float(made.is_set()), made.set
    )
    held = threading.RLock()
    check(
        compile(Holder(held._is_owned, lambda f: float(f()))),
        lambda: float(held._is_owned()),
        held.acquire,
    )


@functools.cache
def two():
    return 2.0


@pytest.mark.parametrize(
    "thing",
    [logging.getLogger("there"), two, operator.itemgetter(0), np.cos, object(), threading.Lock()],
    ids=lambda thing: type(thing).__name__,
)
def test_what_stays_as_it_is_is_recorded_once(thing):
    f = compile(lambda x, thing: x * 2.0)
    for _ in range(4):
        assert f(it.ones(1), thing).item() == 2.0
    assert f.recordings == 2


def generating():
    yield 1.0


def refuse(thing):
    with pytest.raises(CompileError, match="cannot be compared"):
        compile(lambda x, thing: x)(it.ones(1), thing)


@pytest.mark.parametrize("make", [generating, threading.local, queue.SimpleQueue])
def test_what_nobody_can_look_into_is_refused(make):
    refuse(make())


def test_open_files_are_refused(tmp_path):
    with (tmp_path / "log").open("w") as file:
        refuse(file)


def test_taking_from_an_iterator_is_refused():
    numbers = iter([2.0, 3.0, 5.0])
    f = compile(lambda x, numbers: x * next(numbers))
    with pytest.raises(CompileError, match="changes a list"):
        f(it.ones(1), numbers)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 2.0

    def forward(self, x):
        return x * self.factor


@pytest.mark.parametrize(
    "write",
    [
        lambda m, v: m.__dict__.__setitem__("factor", v),
        lambda m, v: vars(m).update(factor=v),
        lambda m, v: vars(m).__ior__({"factor": v}),
    ],
)
def test_what_is_written_to_a_modules_dict_is_seen(write):
    module, x = Scaled(), it.ones(1)
    f = compile(module)
    for factor in (3.0, 5.0, 2.5):
        write(module, factor)
        for _ in range(3):
            assert f(x).item() == factor


def test_a_dict_that_somebody_keeps_is_compared_until_nobody_does():
    module, x = Scaled(), it.ones(1)
    f = compile(module)
    held = vars(module)
    for factor in (3.0, 5.0, 2.5):
        held["factor"] = factor
        for _ in range(3):
            assert f(x).item() == factor
    assert structure._handed_out
    count = f.recordings
    del held
    f(x)
    assert not structure._handed_out
    assert f.recordings == count


def test_copies_and_looks_record_nothing_anew():
    module, x = Scaled(), it.ones(1)
    f = compile(module)
    for _ in range(100):
        other = copy.deepcopy(pickle.loads(pickle.dumps(module)))
        assert "factor" in dir(other)
        assert vars(other) == {"factor": 2.0}
        assert f(x).item() == 2.0
    assert f.recordings == 2
    assert not structure._handed_out


def test_many_dicts_are_not_kept_where_nobody_compiles():
    for _ in range(10 * structure._MOST_HANDED_OUT):
        vars(Scaled())
    assert len(structure._handed_out) <= structure._MOST_HANDED_OUT
