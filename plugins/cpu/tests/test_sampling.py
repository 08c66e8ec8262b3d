"""Images at places of a grid: kernels compute them, whatever lies between and beyond elements."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import explain

MODES = "bilinear", "nearest", "bicubic"
BORDERS = "zeros", "border", "reflection"


@pytest.mark.parametrize(("mode", "border"), list(itertools.product(MODES, BORDERS)))
def test_grids_are_sampled_by_kernels(mode: str, border: str) -> None:
    rng = np.random.default_rng(0)
    images = rng.standard_normal((2, 3, 7, 9)).astype(np.float32)
    places = rng.uniform(-1.5, 1.5, (2, 5, 6, 2)).astype(np.float32)

    def sample(x: Any, grid: Any) -> Any:
        return it.grid_sample(x, grid, mode=mode, padding_mode=border)

    x, grid = (it.asarray(a, device="cpu") for a in (images, places))
    assert "host" not in [step.kind for step in explain(sample, x, grid).steps]
    expected = sample(*(it.asarray(a.astype(np.float64), device="numpy") for a in (images, places)))
    np.testing.assert_allclose(np.asarray(sample(x, grid)), np.asarray(expected), atol=2e-5)
