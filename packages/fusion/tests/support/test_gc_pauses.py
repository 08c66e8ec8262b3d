"""The collector rests while functions are recorded, and goes on afterwards whatever happens."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Generator

import pytest

import ingle.tensor as it
from ingle.fusion import CompileError, compile
from ingle.fusion.support import gc_pauses
from ingle.fusion.support.gc_pauses import uncollected
from ingle.fusion.support.share_of_time import ShareOfTime


def full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


@pytest.fixture
def thawed(monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    """As in a program that freezes nothing; the tests' own collection has."""
    monkeypatch.setattr(gc_pauses, "_counting", ShareOfTime(1.0))
    gc.unfreeze()
    yield
    gc.freeze()


class Link:
    """One of two that hold each other, which only the collector finds."""

    def __init__(self) -> None:
        self.other = self


@pytest.mark.slow
@pytest.mark.usefixtures("thawed")
def test_what_was_made_in_a_pause_is_not_gone_through() -> None:
    gc.collect()
    before, kept = full_collections(), []
    for _ in range(40):
        with uncollected():
            kept.append([Link() for _ in range(2_000)])
        assert gc.get_count()[0] < gc.get_threshold()[0]
        assert gc.get_freeze_count() == 0
    # As many as these are more than a quarter of what there was: they would be gone through.
    assert full_collections() == before


@pytest.mark.slow
@pytest.mark.usefixtures("thawed")
def test_what_nobody_holds_of_it_is_found_later() -> None:
    with uncollected():
        links = [Link() for _ in range(2_000)]
    gone = weakref.ref(links[0])
    del links
    gc.collect()
    assert gone() is None


@pytest.mark.slow
@pytest.mark.usefixtures("thawed")
def test_only_so_much_goes_by_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_pauses, "MOST_UNSEEN", 3_000)
    gc.collect()
    kept = []
    for _ in range(2):
        with uncollected():
            kept.append([Link() for _ in range(2_500)])
    kept.append([Link()])  # the collector comes with what is made next
    assert gc.get_count()[0] < gc.get_threshold()[0]
    with uncollected():
        kept.append([Link() for _ in range(2_500)])
        young = gc.get_count()[0]
    assert young > 2_000
    assert gc.get_objects(generation=2)[-1] is not kept[-1][-1]


@pytest.mark.slow
@pytest.mark.usefixtures("thawed")
def test_what_the_program_froze_stays_frozen() -> None:
    gc.freeze()
    with uncollected():
        kept = [Link() for _ in range(2_000)]
    assert kept
    assert gc.get_freeze_count() > 0


@pytest.mark.slow
@pytest.mark.usefixtures("thawed")
def test_what_is_frozen_is_seldom_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes as long as there is much of it."""
    counted: list[int] = []

    def count() -> int:
        counted.append(1)
        time.sleep(0.1)
        return 1

    monkeypatch.setattr(gc, "get_freeze_count", count)
    monkeypatch.setattr(gc_pauses, "_counting", ShareOfTime(1e-4))
    kept = []
    for _ in range(4):
        gc.collect()
        with uncollected():
            kept.append([Link() for _ in range(2_000)])
    assert len(counted) == 1


def test_the_collector_goes_on_after_recordings() -> None:
    seen: list[bool] = []

    def function(x: it.Tensor) -> it.Tensor:
        seen.append(gc.isenabled())
        return x * 2.0

    compiled = compile(function)
    for _ in range(3):
        compiled(it.ones(3, device="cpu"))
    assert seen == [False, False]
    assert gc.isenabled()
    with pytest.raises(CompileError):
        compile(lambda x: float(x))(it.ones(()))
    assert gc.isenabled()


def test_who_has_stopped_it_finds_it_stopped() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_pauses_of_threads_overlap() -> None:
    begun, done = threading.Event(), threading.Event()

    def other() -> None:
        with uncollected(), uncollected():
            begun.set()
            done.wait(10)

    thread = threading.Thread(target=other)
    with uncollected():
        thread.start()
        begun.wait(10)
    done.set()
    thread.join()
    assert gc.isenabled()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_collects_again() -> None:
    program = """
import gc, os, threading
from ingle.fusion.support.gc_pauses import uncollected
from ingle.fusion.support.share_of_time import ShareOfTime
begun, done = threading.Event(), threading.Event()
def other():
    with uncollected():
        begun.set(); done.wait(10)
thread = threading.Thread(target=other); thread.start(); begun.wait(10)
assert not gc.isenabled()
child = os.fork()
if not child:
    os._exit(0 if gc.isenabled() else 1)
assert os.waitpid(child, 0)[1] == 0
done.set(); thread.join()
assert gc.isenabled()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
