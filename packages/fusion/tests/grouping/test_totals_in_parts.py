"""Totals of many sums of blocks are those of parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.grouping import totals_in_parts
from ingle.fusion.grouping.totals_in_parts import part_of

pytest.importorskip("ingle_cpu")

RULE = "split_sum"


def test_parts_follow_from_the_number_of_blocks() -> None:
    assert [part_of(n) for n in (0, 96, 255, 256, 272, 512, 513, 8192)] == [
        None, None, None, 32, 16, 32, None, 32,
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("rows", "kernels"), [(512, 3), (8192, 5), (32 * 17, 2)])
def test_sums_down_columns(
    splitting: list[Any], monkeypatch: pytest.MonkeyPatch, rows: int, kernels: int, dtype: str
) -> None:
    """Blocks, then parts as long as they are many, then all; where no part divides them, blocks."""
    monkeypatch.setattr(totals_in_parts, "MANY", 16)
    monkeypatch.setattr(totals_in_parts, "PARTS", (4, 2))

    def sums(x: Any) -> Any:
        return it.sum(x, axis=0)

    x = np.random.default_rng(0).standard_normal((rows, 3))
    x[:, 2] = -0.0
    given = it.asarray(x, device="cpu").astype(dtype)
    found = compile(sums)(given)
    wide = given.astype("float64").numpy()
    rounding = {"float32": 1e-6, "float64": 1e-13, "bfloat16": 2.0**-8}[dtype]
    np.testing.assert_allclose(
        found.astype("float64").numpy(), wide.sum(axis=0), rtol=rounding, atol=1e-8 * rows
    )
    assert np.signbit(found.astype("float64").numpy()[2])
    assert any(splitting)
    assert len(explain(sums, given, runs=0).steps) == kernels


def test_what_is_no_number_stays_that(
    splitting: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals_in_parts, "MANY", 16)
    monkeypatch.setattr(totals_in_parts, "PARTS", (4, 2))
    x = np.ones((1024, 4), np.float32)
    x[500, 0], x[1, 1], x[1000, 2] = np.nan, np.inf, -np.inf
    found = compile(lambda x: it.sum(x, axis=0))(it.asarray(x, device="cpu")).numpy()
    np.testing.assert_array_equal(found, np.float32([np.nan, np.inf, -np.inf, 1024]))
    assert any(splitting)
