"""Children of a process in which another thread works: they compute like any other process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ingle.fusion
import ingle.tensor
import ingle_cpu

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork here")

PROGRAM = """
import os, random, signal, sys, threading, time
import numpy as np
import ingle.nn as nn, ingle.optim as optim, ingle.tensor as it
from ingle.fusion import compile

def step_of(net):
    optimizer = optim.Adam(net, lr=1e-3)
    def step(x):
        loss = (net(x) ** 2).mean()
        optimizer.step(loss.backward())
        return loss
    return step

def plain(n):
    # Another shape each time, each twice: there is always something to plan.
    x = it.asarray(np.ones((n, 3), np.float32))
    for _ in range(3):
        y = x
        for k in range(4):
            y = it.tanh(y * 2.0 + 1.0) - it.sum(y, axis=0)
        y.numpy()
    return y

def work():
    n = 20000
    while not over:
        n += 1
        plain(n)
        net = nn.Linear(3, n % 50 + 1)
        step = (compile if n % 2 else lambda f: f)(step_of(net))
        for _ in range(4):
            step(it.asarray(np.ones((n % 13 + 1, 3), np.float32))).item()
        held.append(it.ones(300) * float(n))
        it.random.normal(5, generator=shared)
        del held[:-3]

def child():
    for value in list(held):
        try:
            v = value.numpy()
            assert (v == v[0]).all()
        except it.errors.IngleError as error:
            assert "fork" in str(error), error
    it.random.normal(5, generator=shared).numpy()
    x = np.linspace(0, 1, 60000).astype(np.float32).reshape(-1, 3)
    for _ in range(3):
        y = it.asarray(x)
        for k in range(9):
            y = it.tanh(y * 2.0 + 1.0)
        got = y.numpy()
    want = x
    for k in range(9):
        want = np.tanh(want * 2 + 1)
    np.testing.assert_allclose(got, want, rtol=1e-4)
    step = compile(step_of(nn.Linear(3, 7)))
    assert all(np.isfinite(step(it.ones((5, 3))).item()) for _ in range(4))

over, held, shared = [], [it.ones(3)], it.random.Generator(1)
child()  # What another thread is importing at a fork is imported in no child: Python's own affair.
thread = threading.Thread(target=work, daemon=True)
thread.start()
rng = random.Random(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    time.sleep(rng.random() * 0.05)
    pid = os.fork()
    if not pid:
        signal.alarm(60)
        try:
            child()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
        os._exit(1)
    status = os.waitpid(pid, 0)[1]
    if status:
        print("child", status)
        sys.exit(1)
over.append(True)
thread.join(60)
print("fine")
"""


@pytest.mark.slow
def test_children_compute_while_a_thread_of_the_parent_works():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, "1", "12"],
        capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "INGLE_DEVICE": "cpu"},
    )  # fmt: skip
    assert done.stdout.strip() == "fine", done.stdout + done.stderr


HELD = {"late_imports.py", "pool.py", "engine.py", "queue.py", "transactions.py"}
"""Whose locks are held over a fork."""
RENEWED = {"locks.py", "time_slices.py"}
"""Who makes locks and conditions anew in a child."""


def test_every_lock_is_renewed_or_held():
    for package in (ingle.tensor, ingle.fusion, ingle_cpu):
        for path in Path(package.__path__[0]).rglob("*.py"):
            if path.name not in HELD | RENEWED:
                made = re.findall(
                    r"(?<!type\()threading\.(?:R?Lock|Condition|Semaphore)\(", path.read_text()
                )
                assert not made, f"{path}: use ingle.tensor.locks.renewed"
