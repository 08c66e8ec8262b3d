"""The collector rests while functions are recorded, and goes on afterwards whatever happens."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import pytest

import ingle.tensor as it
from ingle.fusion import CompileError, compile
from ingle.fusion.support.gc_pauses import uncollected


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
