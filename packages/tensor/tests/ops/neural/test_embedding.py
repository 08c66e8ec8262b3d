"""embedding against PyTorch, and which indices it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad, vmap
from ingle.tensor.errors import AxisError, DTypeError, OutOfRangeError, ShapeError

RNG = np.random.default_rng(0)


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


@pytest.mark.parametrize("batched", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("padding_idx", [None, 1])
def test_the_row_of_padding_gets_no_gradient_through_a_batch(
    batched: tuple[bool, bool], padding_idx: int | None
) -> None:
    indices, tables = it.asarray([[0, 1, 1], [1, 2, 0]]), it.ones((2, 4, 3))
    axes = tuple(0 if b else None for b in batched)
    each = vmap(lambda i, w: it.embedding(i, w, padding_idx=padding_idx), in_axes=axes)
    places = indices if batched[0] else indices[0]
    gradient = grad(lambda w: it.sum(each(places, w)))(tables if batched[1] else tables[0])
    wanted = np.zeros((2, 4, 3))
    for element in range(2):
        for row in (indices if batched[0] else it.stack([indices[0]] * 2))[element].tolist():
            wanted[element if batched[1] else 0, row] += row != padding_idx
    np.testing.assert_array_equal(gradient.numpy(), wanted if batched[1] else wanted[0])


@pytest.mark.parametrize("wrong", [7, -1])
@pytest.mark.usefixtures("road")
def test_an_index_outside_of_the_table(wrong: int) -> None:
    with pytest.raises(OutOfRangeError):
        it.embedding(it.asarray([0, wrong]), it.ones((7, 3))).numpy()


def test_an_index_outside_of_the_table_is_named() -> None:
    with pytest.raises(OutOfRangeError, match="indices holds -3, but there are 7 rows"):
        it.embedding(it.asarray([0, -3]), it.ones((7, 3))).numpy()


@pytest.mark.parametrize("wrong", [7, -1])
@pytest.mark.usefixtures("road")
def test_a_gradient_alone_refuses_what_the_embedding_refuses(wrong: int) -> None:
    """Nobody reads the loss, so only the gradient runs."""
    indices = it.asarray([0, wrong])
    for total in (it.sum, lambda rows: it.sum(it.square(rows))):
        with pytest.raises(OutOfRangeError, match=r"^embedding: "):
            grad(lambda table, total=total: total(it.embedding(indices, table)))(
                it.ones((7, 3))
            ).numpy()


def test_bad_arguments() -> None:
    weight = it.ones((4, 5))
    with pytest.raises(DTypeError, match="indices must be integers"):
        it.embedding(it.ones((2, 5)), weight)
    with pytest.raises(ShapeError, match="rows, features"):
        it.embedding(it.asarray([0]), it.ones(3))
    with pytest.raises(AxisError, match="padding_idx"):
        it.embedding(it.asarray([0]), weight, padding_idx=4)
