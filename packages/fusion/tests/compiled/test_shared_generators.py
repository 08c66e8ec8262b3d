"""Threads and handlers of signals that share a generator of random numbers."""

from __future__ import annotations

import sys
import threading

import pytest

import ingle.tensor as it
from ingle.fusion import compile


@pytest.mark.parametrize("cells", [0, 70], ids=["few cells", "many cells"])
def test_threads_that_share_a_generator_never_draw_the_same(cells):
    """One in a compiled step, and one beside it: 64 random bits never come twice."""
    generator = it.random.Generator(11)
    others = [it.Cell(it.zeros(1)) for _ in range(cells)]

    def drawn():
        return it.random.randint(0, 1 << 62, (2,), generator=generator)

    @compile
    def step(x):
        for cell in others:
            cell.value = cell + 1.0
        return drawn(), it.sum(it.sin(x) @ it.cos(x))

    x = it.ones((200, 200))
    for _ in range(4):
        step(x)[0].tolist()
    seen, stop, errors = [[], []], threading.Event(), []

    def beside():
        try:
            while not stop.is_set():
                seen[0] += drawn().tolist()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=beside)
    thread.start()
    try:
        for _ in range(150 if not cells else 40):
            seen[1] += step(x)[0].tolist()
    finally:
        stop.set()
        thread.join()
    assert not errors
    assert seen[0]
    both = seen[0] + seen[1]
    assert len(set(both)) == len(both)


def test_a_handler_that_draws_in_the_middle_of_a_draw_gets_others():
    generator = it.random.Generator(0)
    places = set()

    def look(frame, event, arg):
        if frame.f_code.co_filename.endswith("generator.py") and event in ("call", "c_return"):
            sys.setprofile(None)
            inner.append(generator.draw(3).counter)
            sys.setprofile(look)

    for _ in range(20):
        inner = []
        sys.setprofile(look)
        try:
            outer = generator.draw(3).counter
        finally:
            sys.setprofile(None)
        assert inner
        drawn = [outer, *inner]
        assert not places & set(drawn)
        assert len(set(drawn)) == len(drawn)
        places |= set(drawn)
