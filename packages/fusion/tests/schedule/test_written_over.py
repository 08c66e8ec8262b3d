"""Values between kernels that are written over what dies there: less memory, the same numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, pipeline
from ingle.fusion.schedule.schedule import HostStep, Schedule, touched


@pytest.fixture
def schedules(monkeypatch: pytest.MonkeyPatch) -> list[Schedule]:
    """The schedules of the plans that are made."""
    found: list[Schedule] = []
    original = pipeline.laid_out

    def laid_out(*args: Any, **options: Any) -> Schedule:
        found.append(original(*args, **options))
        return found[-1]

    monkeypatch.setattr(pipeline, "laid_out", laid_out)
    return found


def ranges(schedule: Schedule) -> dict[int, tuple[int, int, int, int]]:
    """For each value in the arena the first and the last call, and its bytes: from and to."""
    calls = [
        call for step in schedule.steps for call in ([step] if isinstance(step, HostStep) else step)
    ]
    graph, found = schedule.graph, dict[int, tuple[int, int, int, int]]()
    for at, call in enumerate(calls):
        for root, _ in touched(graph, schedule.views, call):
            if root in schedule.offsets:
                aval, first = graph.values[root].aval, schedule.offsets[root]
                nbytes = math.prod(aval.shape) * aval.dtype.itemsize
                begin = found[root][0] if root in found else at
                found[root] = begin, at, first, first + nbytes
    return found


def shared(schedule: Schedule) -> int:
    """How many pairs of values meet in a call and in memory; they are written place by place."""
    spans, count = list(ranges(schedule).values()), 0
    for number, (first, last, low, high) in enumerate(spans):
        for begin, end, start, stop in spans[:number]:
            if low < stop and start < high and first <= end and begin <= last:
                assert (low, high) == (start, stop)
                assert first == end or begin == last
                count += 1
    return count


def chain(x: Any, w: Any) -> Any:
    """Products with a softmax of each, which is as large as what it is of."""
    for _ in range(3):
        x = it.softmax(x @ w, axis=-1) @ it.exp(w)
    return x


def test_what_dies_in_a_kernel_is_written_over(schedules: list[Schedule]) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(64, 96)), rng.normal(size=(96, 96))
    given = [it.asarray(v.astype(np.float32), device="cpu") for v in (x, w)]
    found = compile(chain)(*given).numpy()
    assert shared(schedules[-1]) >= 3
    for _ in range(3):
        logits = np.exp(x @ w - (x @ w).max(axis=-1, keepdims=True))
        x = logits / logits.sum(axis=-1, keepdims=True) @ np.exp(w)
    np.testing.assert_allclose(found, x, rtol=2e-3)


def test_what_is_read_elsewhere_stays(schedules: list[Schedule]) -> None:
    """A transposed read, and one behind the kernel, see what was there."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(64, 64)), rng.normal(size=(64, 64))
    given = [it.asarray(v.astype(np.float32), device="cpu") for v in (x, w)]

    @compile
    def program(x: Any, w: Any) -> Any:
        y = x @ w
        z = it.softmax(y, axis=-1) + it.permute_dims(y, (1, 0))
        return z @ w + y

    found = program(*given).numpy()
    assert shared(schedules[-1]) == 0
    y = x @ w
    e = np.exp(y - y.max(axis=-1, keepdims=True))
    expected = (e / e.sum(axis=-1, keepdims=True) + y.T) @ w + y
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
