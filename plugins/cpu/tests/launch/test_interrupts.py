"""Ctrl-C at the moments at which a run on another thread could be left behind."""

from __future__ import annotations

import threading

import pytest

from ingle_cpu.launch.interrupts import run_interruptibly


class Work:
    """Runs until it is stopped."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.begun = self.ended = False

    def run(self) -> None:
        self.begun = True
        self.stop.wait()
        self.ended = True

    def abort(self) -> None:
        self.stop.set()

    def forget_abort(self) -> None:
        self.stop.clear()


@pytest.mark.parametrize("before", [False, True])
def test_ctrl_c_while_the_thread_starts(before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    work, start = Work(), threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if not before:
            start(thread)
            while not work.begun:
                pass
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(work)
    assert work.ended == work.begun  # nobody writes to memory that others may get
    assert work.begun != before
