"""Views of small tensors are made as they come, several of them by one call."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle_cpu.eager.view_call import ViewCall


@pytest.fixture
def ready(monkeypatch):
    """What views are called with: each call once."""
    seen = []
    call = ViewCall.__call__

    def noted(self, op, inputs):
        seen.append(op.operation.name)
        return call(self, op, inputs)

    monkeypatch.setattr(ViewCall, "__call__", noted)
    return seen


KEYS = [1, -1, slice(1, 3), (slice(None), 1), (2, 3), (slice(0, 4, 2), 1), (1, slice(3, None, -1))]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("key", KEYS)
def test_pieces_are_numpys(key, transposed):
    x = it.asarray(np.arange(20, dtype="f").reshape(4, 5), device="cpu")
    values = x.numpy()
    if transposed:
        x, values = it.permute_dims(x, (1, 0)), values.T
    for _ in range(30):
        np.testing.assert_array_equal(x[key].numpy(), values[key])


def test_a_row_is_one_call_at_any_place(ready):
    x = it.asarray(np.arange(12, dtype="f").reshape(4, 3), device="cpu")
    for _ in range(30):
        assert x[1].tolist() == [3, 4, 5]
    ready.clear()
    assert [x[n].tolist() for n in range(4)] == x.tolist()
    assert ready == ["slice"] * 4


@pytest.mark.usefixtures("first_operations")
def test_a_view_before_what_is_no_view_is_a_call_of_its_own(ready):
    x = it.asarray(np.asarray([[3, 1], [4, 2]], np.float32), device="cpu")
    for _ in range(30):
        assert it.argmax(x).item() == 2
    ready.clear()
    assert it.argmax(x).item() == 2
    assert ready == ["reshape"]


@pytest.mark.parametrize("device", ["cpu", "cpu_bare"])
@pytest.mark.usefixtures("bare_device")
def test_a_view_of_what_is_written_in_place_keeps_its_values(device):
    x = it.zeros((300, 300), device=device) + 0.0
    x[0] = 1.0
    for _ in range(30):
        row = x[0]
        assert row.numpy().sum() == 300
    x[0] = 2.0
    assert row.numpy().sum() == 300
    assert x[0].numpy().sum() == 600
