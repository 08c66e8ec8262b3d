"""Transposed convolution, and convolution with borders that are not zeros, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, OperandError, ShapeError


def _random_case(seed: int) -> tuple[list[np.ndarray], dict[str, Any], int]:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    groups, batch, channels, features = (int(rng.integers(1, 4)) for _ in range(4))

    def draw(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.integers(low, high, rank))

    kernel, stride, dilation = draw(1, 4), draw(1, 4), draw(1, 4)
    options = {
        "stride": stride,
        "dilation": dilation,
        "padding": tuple(d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True)),
        "output_padding": tuple(
            int(rng.integers(0, max(s, d))) for s, d in zip(stride, dilation, strict=True)
        ),
        "groups": groups,
    }
    arrays = [
        rng.standard_normal((batch, groups * channels, *draw(2, 5))),
        rng.standard_normal((groups * channels, features, *kernel)),
        rng.standard_normal(groups * features),
    ]
    return arrays, options, rank


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.usefixtures("road")
def test_forward_and_gradients_of_both_orders(like_torch: Any, seed: int) -> None:
    functional = pytest.importorskip("torch").nn.functional
    arrays, options, rank = _random_case(seed)
    ours, theirs = (getattr(m, f"conv_transpose{rank}d") for m in (it, functional))
    like_torch(
        lambda *xs: ours(*xs, **options), lambda *ts: theirs(*ts, **options), arrays, atol=1e-9
    )


def test_output_padding_above_the_stride_but_below_the_dilation(like_torch: Any) -> None:
    functional = pytest.importorskip("torch").nn.functional
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 2, 4)), rng.standard_normal((2, 3, 3))]
    options: dict[str, Any] = {"output_padding": 2, "dilation": 3, "padding": 1}
    like_torch(
        lambda x, w: it.conv_transpose1d(x, w, **options),
        lambda x, w: functional.conv_transpose1d(x, w, **options),
        arrays,
    )


def test_without_a_batch() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 4))
    w = it.asarray(np.random.default_rng(1).standard_normal((3, 2, 3, 3)))
    whole = it.conv_transpose2d(it.asarray(x[None]), w, stride=2)
    alone = it.conv_transpose2d(it.asarray(x), w, stride=2)
    np.testing.assert_array_equal(alone.numpy(), whole.numpy()[0])


@pytest.mark.parametrize(
    ("x", "w", "options", "error", "says"),
    [
        ((2, 3, 8, 8), (2, 4, 3, 3), {}, ShapeError, "3 channels"),
        ((2, 3, 8, 8), (3, 4, 3, 3), {"groups": 2}, ShapeError, "groups=2"),
        ((2, 3), (3, 4, 3, 3), {}, ShapeError, r"got \(2, 3\)"),
        ((2, 3, 2, 2), (3, 4, 1, 1), {"padding": 1}, ShapeError, "use less padding"),
        ((2, 3, 8, 8), (3, 4, 3, 3), {"output_padding": 1}, ArgumentError, "below the stride"),
        ((2, 3, 8, 8), (3, 4, 3, 3), {"output_padding": -1}, ArgumentError, "output_padding"),
    ],
)
def test_bad_input_says_what_is_wrong(
    x: Any, w: Any, options: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        it.conv_transpose2d(it.ones(x), it.ones(w), **options)
    assert "conv_transpose2d" in str(caught.value)


def test_bad_operands() -> None:
    x, w = it.ones((2, 3, 8)), it.ones((3, 4, 3))
    with pytest.raises(ShapeError, match="bias must have one value for each of the 4 features"):
        it.conv_transpose1d(x, w, it.ones(3))
    with pytest.raises(OperandError, match="weight must be a tensor"):
        it.conv_transpose1d(x, [1.0])  # type: ignore[arg-type]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_padding_modes(like_torch: Any, mode: str, rank: int) -> None:
    functional = pytest.importorskip("torch").nn.functional
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal((2, 2, 5, 4, 5)[: rank + 2]),
        rng.standard_normal((3, 2) + (3,) * rank),
    ]
    ours, theirs = (getattr(m, f"conv{rank}d") for m in (it, functional))
    like_torch(
        lambda x, w: ours(x, w, padding=2, stride=2, padding_mode=mode),
        lambda x, w: theirs(functional.pad(x, (2,) * 2 * rank, mode=mode), w, stride=2),
        arrays,
    )


def test_padding_mode_is_checked() -> None:
    with pytest.raises(ArgumentError, match="conv1d: padding_mode='edges' is none of 'zeros'"):
        it.conv1d(it.ones((1, 1, 3)), it.ones((1, 1, 3)), padding=1, padding_mode="edges")
    with pytest.raises(ShapeError, match="at least 4 elements along axis 2"):
        it.conv1d(it.ones((1, 1, 3)), it.ones((1, 1, 3)), padding=3, padding_mode="reflect")
