"""Sums down columns of what is stored as well, on a played GPU: a column is read ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened

import ingle.tensor as it
from ingle.fusion import compile, explain


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU."""
    with pytest.MonkeyPatch.context() as patch:
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), "columngpu", patch)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [3, 32, 70])
def test_what_lies_below_is_under_way_before_the_first_row_is_stored(
    device: Any, rows: int
) -> None:
    """Be it in the memory of an operand; the bits are those of the processor."""
    cells = {}

    def stepper(where: str) -> Any:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((rows, 10)).astype(np.float32)
        cells[where] = it.Cell(it.asarray(x, device=where))

        def step(y: it.Tensor) -> it.Tensor:
            z = cells[where].value * y + 0.5
            cells[where].value = z
            return it.sum(z, axis=0)

        return compile(step)

    y = np.random.default_rng(1).standard_normal((rows, 10)).astype(np.float32)
    found = []
    for where in ("columngpu", "cpu"):
        step, there = stepper(where), it.asarray(y, device=where)
        if where == "columngpu":
            assert "ahead0[n]" in str(explain(step, there, source=True, runs=0))
        sums = [step(there).numpy() for _ in range(4)]
        found.append([*sums, cells[where].value.numpy()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
