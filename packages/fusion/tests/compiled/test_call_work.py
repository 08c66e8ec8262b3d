"""What a call of a compiled function does in Python does not grow with what was recorded."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import Fusion, compile
from ingle.fusion.compiled.fast_call_many import MANY
from ingle.tensor.device import backend_of


def calls_of(function: Any, *args: Any) -> Counter[str]:
    """How often a warm call enters functions, by name (built-in ones have none here), but for what
    a device's plugin does to put kernels into a queue, which it may do one by one; `cpu` runs all
    of a plan at once."""
    for _ in range(4):
        function(*args)
    plugin = type(backend_of(None).inner).__module__.partition(".")[0]
    found: Counter[str] = Counter()
    within = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal within
        launches = plugin != "ingle_cpu" and str(frame.f_globals.get("__name__")).startswith(plugin)
        if event == "call" and (within or launches):
            within += 1
        elif event == "return" and within:
            within -= 1
        elif not within and event in ("call", "c_call"):
            found[frame.f_code.co_name if event == "call" else ""] += 1

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


@pytest.mark.slow
@pytest.mark.parametrize("made", [chained, training])
def test_a_warm_call_does_not_look_at_each_operation(made: Any) -> None:
    if not isinstance(backend_of(None), Fusion):
        pytest.skip("the device runs operation by operation, in compiled functions too")
    x = it.asarray(np.ones((2, 4), np.float32))
    few, many = (calls_of(made(length), x).total() for length in (3, 24))
    assert many <= few + 8


@pytest.mark.parametrize("weights", [4, 80])
def test_a_warm_call_does_not_ask_the_device_about_each_input(weights: int) -> None:
    """How inputs lie is known of the class of their handles."""
    if not isinstance(backend_of(None), Fusion):
        pytest.skip("the device runs operation by operation, in compiled functions too")
    cells = [it.Cell(it.asarray(np.eye(4, dtype=np.float32))) for _ in range(weights)]

    @compile
    def run(x: Any) -> Any:
        for cell in cells:
            x = it.tanh(x @ cell.value)
        return x

    found = calls_of(run, it.asarray(np.ones((2, 4), np.float32)))
    assert found["run"]
    assert not found["in_order"] + found["axes_in_memory"]


def counting(cells: int) -> Any:
    """A step that gives so many cells new values, some of them numbers."""
    held = [it.Cell(it.asarray(np.eye(4, dtype=np.float32))) for _ in range(cells)]
    counters = [it.Cell(0) for _ in range(cells // 4)]

    @compile
    def step(x: Any) -> Any:
        for cell in held:
            cell.value = cell * 0.5 + x
        for counter in counters:
            counter.value = counter.value + 1
        return x + 1.0

    return step


def test_a_warm_call_does_not_look_at_each_of_many_cells() -> None:
    """What holds of all is asked of all together: identities, references, memory."""
    if not isinstance(backend_of(None), Fusion):
        pytest.skip("the device runs operation by operation, in compiled functions too")
    x = it.asarray(np.eye(4, dtype=np.float32))
    few, many = (calls_of(counting(cells), x).total() for cells in (MANY, 4 * MANY))
    assert many <= few + 8


class Block(nn.Module):
    """A module of somebody's own."""

    def __init__(self) -> None:
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return it.tanh(self.linear(x))


def test_a_warm_call_looks_at_classes_of_modules_and_not_at_each_module() -> None:
    if not isinstance(backend_of(None), Fusion):
        pytest.skip("the device runs operation by operation, in compiled functions too")
    x = it.asarray(np.ones((2, 4), np.float32))
    found = []
    for depth in (3, 24):
        net = nn.Sequential(*[Block() for _ in range(depth)])
        found.append(calls_of(compile(lambda x, net=net: net(x)), x)["holds"])
    assert found[0] == found[1] <= 2
