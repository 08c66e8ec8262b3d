"""Small kernels that come last keep the order in which they write and read one value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor.device import backend_of

pytest.importorskip("ingle_cpu")


@pytest.fixture(autouse=True)
def _joining(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device `cpu` with the order of one that joins launches."""
    monkeypatch.setattr(backend_of("cpu").inner, "joins_launches", True)


def assigned(x: Any) -> Any:
    """A copy whose rows but the first are written behind it: both write one value."""
    x[0, 0] = 1.0
    y = x[:, :]
    y[1:] = 7.0
    return y


@pytest.mark.parametrize("side", [4, 300])
def test_what_is_written_over_a_copy_stays(side: int) -> None:
    for _ in range(3):
        x = it.asarray(np.full((side, side), 3, np.float32), device="cpu")
        y = assigned(x)
        assert np.all(y[1:].numpy() == 7)
        assert np.all(x.numpy()[1:] == 3)


def test_what_is_read_before_it_is_written_over() -> None:
    def both(x: Any, cell: Any) -> tuple[Any, Any]:
        before = x + cell.value
        cell.value = it.slice_update(cell.value, before[:2], (1,))
        again = cell.value * 2
        cell.value = it.slice_update(cell.value, before[2:4], (2,))
        return before, again

    x, compiled = np.arange(6, dtype=np.float32), compile(both)
    cells = [it.Cell(it.asarray(x * 0, device="cpu")) for _ in range(2)]
    for _ in range(4):
        given = it.asarray(x, device="cpu")
        found, wanted = compiled(given, cells[0]), both(given, cells[1])
        for a, b in zip((*found, cells[0].value), (*wanted, cells[1].value), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
