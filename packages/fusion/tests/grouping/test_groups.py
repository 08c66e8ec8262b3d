"""Which operations share a kernel, where more than one could have them."""

from __future__ import annotations

import pytest

import ingle.tensor as it
from ingle.fusion import explain

pytest.importorskip("ingle_cpu")


@pytest.mark.parametrize("rows", [1, 2])
def test_a_norm_is_one_kernel(rows: int) -> None:
    """A vector has the loops of a single row too; what is done with both belongs to the row."""
    w = it.ones(48, dtype="bfloat16", device="cpu")
    x = it.ones((rows, 1, 48), dtype="bfloat16", device="cpu")
    (step,) = explain(lambda x, w: it.rms_norm(x, (48,), w), x, w, runs=0).steps
    assert {"sum", "rsqrt", "multiply"} <= set(step.operations) | set(step.again)
