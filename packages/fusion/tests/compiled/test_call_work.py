"""What a call of a compiled function does in Python does not grow with what was recorded."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import Fusion, compile
from ingle.tensor.device import backend_of


def calls_of(function: Any, *args: Any) -> int:
    """Frames and built-in functions that a warm call enters, but for what a device's plugin does to
    put kernels into a queue, which it may do one by one; `cpu` runs all of a plan at once."""
    for _ in range(4):
        function(*args)
    plugin = type(backend_of(None).inner).__module__.partition(".")[0]
    found = within = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal found, within
        launches = plugin != "ingle_cpu" and str(frame.f_globals.get("__name__")).startswith(plugin)
        if event == "call" and (within or launches):
            within += 1
        elif event == "return" and within:
            within -= 1
        elif not within:
            found += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return found


def chained(length: int) -> Any:
    """A function of so many operations."""

    def run(x: Any) -> Any:
        for _ in range(length):
            x = it.tanh(x) * 0.5
        return x

    return compile(run)


def training(depth: int) -> Any:
    """A step whose forward and backward parts have so many operations for the same weights."""
    net = nn.Linear(4, 4)
    optimizer = optim.SGD(net, lr=0.01)

    @compile
    def step(x: Any) -> Any:
        for _ in range(depth):
            x = it.tanh(net(x))
        loss = it.mean(x)
        optimizer.step(loss.backward())
        return loss.detach()

    return step


@pytest.mark.parametrize("made", [chained, training])
def test_a_warm_call_does_not_look_at_each_operation(made: Any) -> None:
    if not isinstance(backend_of(None), Fusion):
        pytest.skip("the device runs operation by operation, in compiled functions too")
    x = it.asarray(np.ones((2, 4), np.float32))
    few, many = (calls_of(made(length), x) for length in (3, 24))
    assert many <= few + 8
