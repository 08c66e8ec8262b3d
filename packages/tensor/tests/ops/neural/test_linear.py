"""linear against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import DTypeError, ShapeError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (0, 5), (2, 2, 2, 5)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.usefixtures("road")
def test_linear(like_torch: Any, shape: tuple[int, ...], bias: bool) -> None:
    functional = pytest.importorskip("torch").nn.functional
    arrays = [RNG.standard_normal(shape), RNG.standard_normal((4, 5))]
    arrays += [RNG.standard_normal(4)] if bias else []
    like_torch(it.linear, functional.linear, arrays)


def test_bad_input() -> None:
    x, weight = it.ones((2, 5)), it.ones((4, 5))
    with pytest.raises(ShapeError, match="6 and 5 differ"):
        it.linear(it.ones((2, 6)), weight)
    with pytest.raises(ShapeError, match="each of the 4 rows"):
        it.linear(x, weight, it.ones(5))
    with pytest.raises(ShapeError, match="weight"):
        it.linear(x, it.ones(5))
    with pytest.raises(DTypeError, match="must be floats"):
        it.linear(x.astype("int64"), weight.astype("int64"))
