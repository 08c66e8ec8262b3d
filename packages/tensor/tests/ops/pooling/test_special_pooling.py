"""Pooling with indices, unpooling, fractional and power pooling, against PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import (
    ArgumentError,
    DTypeError,
    OperandError,
    OutOfRangeError,
    ShapeError,
)


def _distinct(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.permutation(math.prod(shape)).reshape(shape) / 10.0 - 3.0


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((2, 3, 9), {"kernel_size": 3, "stride": 2, "padding": 1}),
        ((3, 8, 7), {"kernel_size": (3, 2), "dilation": 2, "padding": (1, 0)}),
        ((2, 2, 7, 8), {"kernel_size": 3, "ceil_mode": True, "padding": 1}),
        ((2, 2, 5, 4, 6), {"kernel_size": 2, "stride": (1, 2, 3)}),
    ],
)
@pytest.mark.usefixtures("road")
def test_max_pool_with_indices(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    rank = {3: 1, 4: 2, 5: 3}[len(shape)] if shape != (3, 8, 7) else 2
    x = _distinct(shape)
    ours = getattr(it, f"max_pool{rank}d")
    theirs = getattr(torch.nn.functional, f"max_pool{rank}d")
    tracked = it.asarray(x).require_grad()
    values, indices = ours(tracked, **options, return_indices=True)
    expected = theirs(torch.tensor(x), **options, return_indices=True)
    np.testing.assert_array_equal(values.numpy(), expected[0].numpy())
    np.testing.assert_array_equal(indices.numpy(), expected[1].numpy())
    assert indices.dtype is it.int64
    with_indices = (values * values).sum().backward()[tracked].numpy()
    alone = ours(tracked, **options)
    np.testing.assert_array_equal(with_indices, (alone * alone).sum().backward()[tracked].numpy())


@pytest.mark.parametrize(
    ("shape", "options", "size"),
    [
        ((2, 3, 9), {"kernel_size": 3}, None),
        ((2, 3, 9), {"kernel_size": 2}, (9,)),
        ((2, 3, 8, 6), {"kernel_size": 2}, (2, 3, 8, 6)),
        ((3, 9, 8), {"kernel_size": (3, 2), "stride": 2, "padding": 1}, (9, 8)),
        ((1, 2, 4, 6, 4), {"kernel_size": 2}, None),
    ],
)
def test_max_unpool(like_torch: Any, shape: Any, options: dict[str, Any], size: Any) -> None:
    torch = pytest.importorskip("torch")
    rank = 2 if shape == (3, 9, 8) else len(shape) - 2
    ours = getattr(it, f"max_unpool{rank}d")
    theirs = getattr(torch.nn.functional, f"max_unpool{rank}d")
    pool = getattr(torch.nn.functional, f"max_pool{rank}d")
    values, places = pool(torch.tensor(_distinct(shape)), **options, return_indices=True)
    # A maximum found twice where windows overlap is twice the same value: order does not matter.
    index = it.asarray(places.numpy())
    like_torch(
        lambda a: it.square(ours(a, index, **options, output_size=size)),
        lambda a: theirs(a, places, **options, output_size=size) ** 2,
        [values.numpy()],
    )


def test_max_unpool_checks_its_indices() -> None:
    x = it.ones((2, 1, 2))
    for bad in (4, -5):
        with pytest.raises(OutOfRangeError, match="size 4"):
            it.max_unpool1d(x, it.full((2, 1, 2), bad), 2).numpy()
    with pytest.raises(ShapeError, match="max_unpool1d: indices must have the shape"):
        it.max_unpool1d(x, it.zeros((2, 2), dtype="int64"), 2)
    with pytest.raises(DTypeError, match="max_unpool1d: indices must be integers"):
        it.max_unpool1d(x, x, 2)
    with pytest.raises(ArgumentError, match="max_unpool1d: output_size must give 1 sizes"):
        it.max_unpool1d(x, it.zeros((2, 1, 2), dtype="int64"), 2, output_size=())
    with pytest.raises(ShapeError, match="max_unpool2d: x must be"):
        it.max_unpool2d(it.ones(2), it.zeros(2, dtype="int64"), 2)


@pytest.mark.parametrize(
    ("shape", "kernel", "more"),
    [
        ((2, 3, 9, 8), 2, {"output_size": (5, 4)}),
        ((2, 3, 9, 8), (3, 2), {"output_ratio": (0.5, 0.7)}),
        ((1, 2, 7, 7), 2, {"output_size": 1}),
        ((1, 2, 7, 6, 9), 2, {"output_size": (4, 3, 5)}),
    ],
)
def test_fractional_max_pool(like_torch: Any, shape: Any, kernel: Any, more: Any) -> None:
    torch = pytest.importorskip("torch")
    rank = len(shape) - 2
    name = f"fractional_max_pool{rank}d"
    ours, theirs = getattr(it, name), getattr(torch.nn.functional, name)
    u = np.random.default_rng(1).random((*shape[:2], rank))
    # PyTorch takes the numbers of pictures in the order of width, height.
    given = torch.tensor(u[..., ::-1].copy() if rank == 2 else u)
    x = _distinct(shape)
    like_torch(
        lambda a: it.square(ours(a, kernel, **more, samples=it.asarray(u))),
        lambda a: theirs(a, kernel, **more, _random_samples=given) ** 2,
        [x],
    )
    found = ours(it.asarray(x), kernel, **more, samples=it.asarray(u), return_indices=True)
    want = theirs(torch.tensor(x), kernel, **more, _random_samples=given, return_indices=True)
    np.testing.assert_array_equal(found[1].numpy(), want[1].numpy())


def test_fractional_max_pool_draws_from_a_generator() -> None:
    x = it.asarray(_distinct((2, 3, 20, 20)))
    runs = [
        it.fractional_max_pool2d(x, 2, output_size=9, generator=it.random.Generator(s)).tolist()
        for s in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]
    assert it.fractional_max_pool2d(x[0], 2, output_ratio=0.5).shape == (3, 10, 10)


def test_fractional_max_pool_says_what_is_wrong() -> None:
    x = it.ones((2, 3, 5, 5))
    name = "fractional_max_pool2d"
    with pytest.raises(ArgumentError, match=f"{name}: give one of output_size and output_ratio"):
        it.fractional_max_pool2d(x, 2)
    with pytest.raises(ArgumentError, match=f"{name}: output_ratio must be a number in"):
        it.fractional_max_pool2d(x, 2, output_ratio=1.5)
    with pytest.raises(ShapeError, match=rf"{name}: .* got output_size \(5, 5\)"):
        it.fractional_max_pool2d(x, 2, output_size=5)
    with pytest.raises(ShapeError, match=rf"{name}: samples must be floats of shape \(2, 3, 2\)"):
        it.fractional_max_pool2d(x, 2, output_size=2, samples=it.zeros((2, 2)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("p", [1, 2.0, 3.5])
def test_lp_pool(like_torch: Any, rank: int, p: float) -> None:
    functional = pytest.importorskip("torch").nn.functional
    ours, theirs = (getattr(m, f"lp_pool{rank}d") for m in (it, functional))
    x = np.random.default_rng(0).uniform(0.5, 2.0, (2, 3, 5, 7, 5)[: 2 + rank])
    like_torch(
        lambda a: ours(a, p, 2, stride=1, ceil_mode=True),
        lambda a: theirs(a, p, 2, stride=1, ceil_mode=True),
        [x],
    )
    like_torch(lambda a: ours(a, p, 3), lambda a: theirs(a, p, 3), [x])


def test_lp_pool_says_what_is_wrong() -> None:
    with pytest.raises(ArgumentError, match="lp_pool1d: norm_type must be a number other than 0"):
        it.lp_pool1d(it.ones((1, 5)), 0, 2)
    with pytest.raises(ShapeError, match="lp_pool1d: along image axis 0 the window spans 9"):
        it.lp_pool1d(it.ones((1, 5)), 2, 9)
    with pytest.raises(DTypeError, match=r"lp_pool1d: .* must be floats, got int32"):
        it.lp_pool1d(it.ones((1, 5), dtype="int32"), 2, 2)
    with pytest.raises(OperandError, match="lp_pool2d: x must be a tensor"):
        it.lp_pool2d([1.0], 2, 2)  # type: ignore[arg-type]
