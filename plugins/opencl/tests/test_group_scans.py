"""Running results along rows have the bits of the processor, by groups and by work items alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain


@pytest.mark.sampled(2)
@pytest.mark.parametrize("length", [5, 31, 32, 1100])
def test_of_any_length(wide_backend: Any, length: int) -> None:
    x = np.random.default_rng(length).normal(size=(200, length)).astype("float32")

    @compile
    def run(x: Any) -> Any:
        return it.cumulative_sum(x[::-1], axis=1)

    found, wanted = (
        run(it.asarray(x, device=device)).numpy() for device in ("opencl_wide", "cpu")
    )  # fmt: skip
    np.testing.assert_array_equal(found, wanted)
    there = it.asarray(x, device="opencl_wide")
    (source,) = explain(run, there, source=True, runs=0).sources
    assert ("barrier(" in source) == (length >= 32)
