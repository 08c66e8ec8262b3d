"""unfold and fold against PyTorch, with NumPy's kernels and composed of core operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, OperandError, ShapeError

CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 5, 8), {"kernel_size": (2, 3)}),
    ((2, 3, 5, 8), {"kernel_size": 2, "stride": (2, 3), "padding": (1, 2)}),
    ((1, 2, 7, 7), {"kernel_size": (3, 2), "dilation": (2, 3), "stride": 2}),
    ((3, 5, 6), {"kernel_size": (2, 2), "padding": 1}),
]


@pytest.mark.parametrize(("shape", "options"), CASES)
@pytest.mark.usefixtures("road")
def test_unfold(like_torch: Any, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    functional = pytest.importorskip("torch").nn.functional
    x = np.random.default_rng(0).standard_normal(shape)
    like_torch(
        lambda a: it.square(it.unfold(a, **options)),
        lambda a: functional.unfold(a, **options) ** 2,
        [x],
    )


@pytest.mark.parametrize(("shape", "options"), CASES)
@pytest.mark.usefixtures("road")
def test_fold(like_torch: Any, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    columns = functional.unfold(torch.zeros(shape), **options).shape
    x = np.random.default_rng(0).standard_normal(columns)
    size = shape[-2:]
    like_torch(
        lambda a: it.square(it.fold(a, size, **options)),
        lambda a: functional.fold(a, size, **options) ** 2,
        [x],
    )


@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("rank", [1, 3])
def test_other_ranks_multiply_as_convolutions_do(rank: int) -> None:
    rng = np.random.default_rng(0)
    x = it.asarray(rng.standard_normal((2, 3, *(5, 4, 6)[:rank])))
    w = it.asarray(rng.standard_normal((4, 3, *(2,) * rank)))
    columns = it.unfold(x, 2, padding=1, stride=2)
    expected = it.conv(x, w, padding=1, stride=2)
    got = it.reshape(it.reshape(w, (4, -1)) @ columns, expected.shape)
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-12)


@pytest.mark.usefixtures("road")
def test_empty_and_integers() -> None:
    assert it.unfold(it.ones((0, 2, 5)), 2).shape == (0, 4, 4)
    assert it.fold(it.ones((0, 4, 4)), (5,), 2).shape == (0, 2, 5)
    assert it.fold(it.ones((1, 2, 3), dtype="int32"), (4,), 2).tolist() == [[[1, 2, 2, 1]]]
    assert it.fold(it.ones((1, 4096, 1), dtype="float16"), (1,), 1).shape == (1, 4096, 1)


def test_bad_input_says_what_is_wrong() -> None:
    x = it.ones((2, 3, 4, 4))
    with pytest.raises(ShapeError, match="unfold: along image axis 0 the window spans 5"):
        it.unfold(x, 5)
    with pytest.raises(ShapeError, match=r"unfold: x must be .* got shape \(3,\)"):
        it.unfold(it.ones(3), 2)
    with pytest.raises(ShapeError, match=r"fold: .* x must be \(batch, channels \* 4, 9\)"):
        it.fold(it.ones((2, 12, 8)), (4, 4), 2)
    with pytest.raises(ArgumentError, match="fold: output_size must give a size"):
        it.fold(it.ones((2, 12, 9)), 4, 2)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"fold: x must be .* got shape \(2,\)"):
        it.fold(it.ones(2), (4, 4), 2)
    with pytest.raises(ArgumentError, match="unfold: stride"):
        it.unfold(x, 2, stride=0)
    with pytest.raises(DTypeError, match=r"unfold: .* must be numbers, got bool"):
        it.unfold(x > 0, 2)
    with pytest.raises(OperandError, match="fold: x must be a tensor"):
        it.fold([1.0], (2,), 2)  # type: ignore[arg-type]
