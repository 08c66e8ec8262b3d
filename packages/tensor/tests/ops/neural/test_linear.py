"""linear and embedding against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import AxisError, DTypeError, OutOfRangeError, ShapeError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (0, 5), (2, 2, 2, 5)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.usefixtures("road")
def test_linear(like_torch: Any, shape: tuple[int, ...], bias: bool) -> None:
    functional = pytest.importorskip("torch").nn.functional
    arrays = [RNG.standard_normal(shape), RNG.standard_normal((4, 5))]
    arrays += [RNG.standard_normal(4)] if bias else []
    like_torch(it.linear, functional.linear, arrays)


@pytest.mark.parametrize("padding_idx", [None, 2, -1])
@pytest.mark.usefixtures("road")
def test_embedding(like_torch: Any, padding_idx: int | None) -> None:
    torch = pytest.importorskip("torch")
    indices = RNG.integers(0, 7, (3, 4))
    like_torch(
        lambda w: it.square(it.embedding(it.asarray(indices), w, padding_idx=padding_idx)),
        lambda w: (
            torch.nn.functional.embedding(torch.tensor(indices), w, padding_idx=padding_idx) ** 2
        ),
        [RNG.standard_normal((7, 3))],
    )


@pytest.mark.parametrize("wrong", [7, -1])
@pytest.mark.usefixtures("road")
def test_an_index_outside_of_the_table(wrong: int) -> None:
    with pytest.raises(OutOfRangeError):
        it.embedding(it.asarray([0, wrong]), it.ones((7, 3))).numpy()


def test_an_index_outside_of_the_table_is_named() -> None:
    with pytest.raises(OutOfRangeError, match="indices holds -3, but there are 7 rows"):
        it.embedding(it.asarray([0, -3]), it.ones((7, 3))).numpy()


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
    with pytest.raises(DTypeError, match="indices must be integers"):
        it.embedding(x, weight)
    with pytest.raises(ShapeError, match="rows, features"):
        it.embedding(it.asarray([0]), it.ones(3))
    with pytest.raises(AxisError, match="padding_idx"):
        it.embedding(it.asarray([0]), weight, padding_idx=4)
