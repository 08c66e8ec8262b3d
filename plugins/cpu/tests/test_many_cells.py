"""Compiled functions with so many cells that calls go through them in loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.compiled.fast_call_many import MANY, ManyCells

COUNT = MANY + 6
SHAPE = (40, 30)


class Sums:
    """Cells with running sums, a number that grows, and what NumPy says that they hold."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.arrays = [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(COUNT)]
        self.cells = [it.Cell(it.asarray(a, device="cpu")) for a in self.arrays]
        self.turn = it.Cell(0)
        self.turns = 0

        @compile
        def step(x: it.Tensor, rate: float) -> it.Tensor:
            self.turn.value = self.turn.value + 1
            for cell in self.cells:
                cell.value = cell.value * rate + x * self.turn.value
            return it.max(self.cells[0].value)

        self.step = step

    def expected(self, x: np.ndarray, rate: float) -> None:
        self.turns += 1
        made = np.float32(rate)
        self.arrays = [a * made + x * np.float32(self.turns) for a in self.arrays]

    def check(self) -> None:
        assert self.turn.value == self.turns
        for cell, array in zip(self.cells, self.arrays, strict=True):
            np.testing.assert_allclose(cell.value.numpy(), array, rtol=1e-5)


@pytest.fixture
def sums() -> Sums:
    found, x = Sums(), np.full(SHAPE, 0.5, np.float32)
    for rate in (0.5, 0.25, 0.125, 0.5):
        result = found.step(it.asarray(x, device="cpu"), rate)
        found.expected(x, rate)
        assert result.item() == pytest.approx(float(found.arrays[0].max()), rel=1e-5)
        found.check()
    return found


def run(sums: Sums, rate: float) -> None:
    sums.step(it.full(SHAPE, 0.5, device="cpu"), rate)


def test_calls_go_through_cells_in_loops(sums: Sums, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    put = ManyCells._put
    monkeypatch.setattr(ManyCells, "_put", lambda *args: seen.append(1) or put(*args))
    run(sums, 0.5)
    assert seen
    sums.expected(np.full(SHAPE, 0.5, np.float32), 0.5)
    sums.check()
    assert sums.step.recordings == 2


def test_what_somebody_holds_stays_what_it_was(sums: Sums) -> None:
    held = [cell.value for cell in sums.cells[::2]]
    before = [np.array(h.numpy()) for h in held]
    run(sums, 0.5)
    sums.expected(np.full(SHAPE, 0.5, np.float32), 0.5)
    sums.check()
    for tensor, array in zip(held, before, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)


def test_new_values_lie_where_the_old_ones_lay(sums: Sums) -> None:
    run(sums, 0.5)
    handles = [cell.value._handle.computed() for cell in sums.cells]  # type: ignore[attr-defined]
    places = [h.address for h in handles]
    del handles
    run(sums, 0.5)
    after = [cell.value._handle.computed().address for cell in sums.cells]  # type: ignore[attr-defined]
    assert places == after


def _stopped(sums: Sums) -> None:
    with it.transaction():
        run(sums, 0.5)
        raise ValueError("stop")


def test_other_shapes_types_and_scopes_go_the_general_way(sums: Sums) -> None:
    x = np.full(SHAPE, 0.5, np.float32)
    sums.step(it.asarray(x, device="cpu"), 2)
    sums.expected(x, 2.0)
    sums.check()
    with it.transaction():
        run(sums, 0.5)
    sums.expected(x, 0.5)
    sums.check()
    with pytest.raises(ValueError, match="stop"):
        _stopped(sums)
    sums.check()
    sums.cells[3].value = it.asarray(np.ones(SHAPE, np.float32)[:, ::-1], device="cpu")
    sums.arrays[3] = np.ones(SHAPE, np.float32)
    run(sums, 0.5)
    sums.expected(x, 0.5)
    sums.check()


def test_an_interrupt_in_the_middle_leaves_a_whole_group(
    sums: Sums, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = ManyCells._put
    calls: list[int] = []

    def interrupted(self: ManyCells, *args: Any) -> None:
        calls.append(1)
        if len(calls) > 1:
            put(self, *args)
            return
        every, self._writes = self._writes, self._writes[:5]
        try:
            put(self, *args)
        finally:
            self._writes = every
        raise KeyboardInterrupt

    held = [cell.value for cell in sums.cells]
    monkeypatch.setattr(ManyCells, "_put", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(sums, 0.5)
    monkeypatch.undo()
    del held
    sums.expected(np.full(SHAPE, 0.5, np.float32), 0.5)
    sums.check()
    run(sums, 0.25)
    sums.expected(np.full(SHAPE, 0.5, np.float32), 0.25)
    sums.check()
