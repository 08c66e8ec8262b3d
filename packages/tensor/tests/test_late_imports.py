"""Modules that are loaded late come whole, whatever interrupts the import."""

import contextvars
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ingle.tensor.late_imports import late, uninterrupted

on_main = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="no timers that interrupt on this system"
)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a module of a name that nobody has loaded."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


@on_main
def test_a_handler_gets_the_module_whole(written):
    name = written("late_and_slow", "import time\ntime.sleep(0.1)\nanswer = 42\n")
    answers = []
    before = signal.signal(signal.SIGALRM, lambda *_: answers.append(late(name).answer))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        answers.append(late(name).answer)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert answers == [42, 42]


@on_main
def test_a_timer_faster_than_the_import_nests_no_handlers(written):
    name = written("late_and_slower", "import time\ntime.sleep(0.2)\nanswer = 42\n")
    depth, deepest = [0], [0]

    def handler(*_):
        depth[0] += 1
        deepest[0] = max(deepest[0], depth[0])
        late(name)
        depth[0] -= 1

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        assert late(name).answer == 42
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert deepest[0] < 10


_FORKS = """
import os, sys, threading, time
import ingle.tensor as it
thread = threading.Thread(target=lambda: it.ones((3,)).numpy())
thread.start()
time.sleep(float(sys.argv[1]))
child = os.fork()
if not child:
    os._exit(0 if float((it.ones((4,)) + 1).sum()) == 8 else 1)
for _ in range(1500):
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        break
    time.sleep(0.01)
else:
    os.kill(child, 9)
    status = "it hangs"
thread.join()
print(status)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("wait", [0.0, 0.05])
def test_a_child_forked_while_the_default_device_is_loaded_computes(wait):
    ran = subprocess.run(
        [sys.executable, "-c", _FORKS, str(wait)], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "0\n"
    assert not ran.stderr


def test_modules_that_import_each_other_do_not_wait_for_each_other(written):
    name = written(
        "late_and_circular",
        "from ingle.tensor.late_imports import late\n"
        "first = 1\n"
        "seen = late('late_and_circular').first\n"
        "answer = 42\n",
    )
    __import__(name)
    assert late(name).answer == 42
    assert late(name).seen == 1


def test_context_variables_hold_and_errors_come_through():
    variable = contextvars.ContextVar("variable", default=0)
    token = variable.set(3)
    try:
        assert uninterrupted(lambda: uninterrupted(variable.get)) == 3
    finally:
        variable.reset(token)
    with pytest.raises(ZeroDivisionError):
        uninterrupted(lambda: 1 // 0)
    assert uninterrupted(threading.current_thread) is not threading.current_thread()


def test_threads_that_load_the_same_get_the_same(written):
    name = written("late_and_shared", "import time\ntime.sleep(0.1)\nanswer = object()\n")
    found = []
    threads = [threading.Thread(target=lambda: found.append(late(name).answer)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 5
    assert len(set(map(id, found))) == 1


def test_a_finalizer_gets_the_module_whole(written):
    lines = "class Loop:\n    pass\nfor _ in range(5000):\n    x = Loop()\n    x.me = x\n"
    name = written("late_with_loops", lines + "answer = 42\n")
    seen = []

    class Dying:
        def __init__(self):
            self.me = self

        def __del__(self):
            seen.append(late(name).answer)

    Dying()
    assert late(name).answer == 42
    assert gc.isenabled()
    # The thread that imported may be collecting as it ends: then a call here returns at once, and
    # the finalizer runs there.
    deadline = time.monotonic() + 60
    while not seen and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.001)
    assert seen == [42]


def test_what_failed_is_tried_again(written, tmp_path):
    name = written("late_and_broken", "raise ImportError('not yet')\n")
    with pytest.raises(ImportError, match="not yet"):
        late(name)
    (tmp_path / "late_and_broken.py").write_text("answer = 'here, and longer than before'\n")
    assert late(name).answer.startswith("here")


def test_the_collector_pauses_while_a_package_imports_what_it_exports(written):
    name = written("late_and_large", "import gc\nworked = gc.isenabled()\n")
    outer = written("importing", f"from ingle.tensor.late_imports import load\nload({name!r})\n")
    __import__(outer)
    assert not late(name).worked
    assert gc.isenabled()


def test_the_collector_works_on_where_a_package_fails_to_import(written):
    name = written("late_and_torn", "raise ValueError('torn')\n")
    outer = written("importing_torn", f"import ingle.tensor.late_imports as l\nl.load({name!r})\n")
    with pytest.raises(ValueError, match="torn"):
        __import__(outer)
    assert gc.isenabled()
