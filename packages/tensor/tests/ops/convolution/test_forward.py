"""Convolution against PyTorch, with NumPy's kernels and composed of core operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, OperandError, ShapeError


def _random_case(seed: int) -> tuple[list[np.ndarray], dict[str, Any], int]:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    groups, batch, channels, features = (int(rng.integers(1, 4)) for _ in range(4))

    def draw(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.integers(low, high, rank))

    kernel, stride, dilation, padding = draw(1, 4), draw(1, 4), draw(1, 3), draw(0, 4)
    size = tuple(
        d * (k - 1) + 1 + int(rng.integers(0, 5)) for d, k in zip(dilation, kernel, strict=True)
    )
    arrays = [
        rng.standard_normal((batch, groups * channels, *size)),
        rng.standard_normal((groups * features, channels, *kernel)),
        rng.standard_normal(groups * features),
    ]
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return arrays, options, rank


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.usefixtures("road")
def test_forward_and_gradients_of_both_orders(like_torch: Any, seed: int) -> None:
    functional = pytest.importorskip("torch").nn.functional
    arrays, options, rank = _random_case(seed)
    ours = getattr(it, f"conv{rank}d")
    theirs = getattr(functional, f"conv{rank}d")
    like_torch(
        lambda *xs: ours(*xs, **options), lambda *ts: theirs(*ts, **options), arrays, atol=1e-9
    )


@pytest.mark.filterwarnings("ignore:Using padding='same' with even:UserWarning")
@pytest.mark.parametrize("kernel", [(3, 3), (2, 5), (1, 1)])
def test_same_keeps_the_size_as_pytorch_does(like_torch: Any, kernel: tuple[int, int]) -> None:
    functional = pytest.importorskip("torch").nn.functional
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 3, 7, 8)), rng.standard_normal((4, 3, *kernel))]
    like_torch(
        lambda x, w: it.conv2d(x, w, padding="same", dilation=(1, 2)),
        lambda x, w: functional.conv2d(x, w, padding="same", dilation=(1, 2)),
        arrays,
    )


def test_pairs_pad_each_side_by_itself() -> None:
    x, w = it.ones((1, 1, 3)), it.ones((1, 1, 2))
    assert it.conv1d(x, w, padding=((0, 1),)).tolist() == [[[2.0, 2.0, 1.0]]]
    assert it.conv1d(x, w, padding=((1, 0),)).tolist() == [[[1.0, 2.0, 2.0]]]


def test_without_a_batch() -> None:
    x = np.random.default_rng(0).standard_normal((3, 6, 6))
    w = it.asarray(np.random.default_rng(1).standard_normal((2, 3, 3, 3)))
    whole = it.conv2d(it.asarray(x[None]), w)
    np.testing.assert_array_equal(it.conv2d(it.asarray(x), w).numpy(), whole.numpy()[0])


@pytest.mark.sampled(4, slow=1)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("innermost", [False, True])
@pytest.mark.usefixtures("road")
def test_each_channel_by_itself(like_torch: Any, rank: int, stride: int, innermost: bool) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(rank)
    x = rng.standard_normal((3, 5, *(9, 7, 6)[:rank]))
    w = rng.standard_normal((5, 1, *(3, 2, 1)[:rank]))
    options: dict[str, Any] = {"stride": stride, "padding": 1, "dilation": 2, "groups": 5}
    there, back = (0, *range(2, rank + 2), 1), (0, rank + 1, *range(1, rank + 1))

    def ours(a: Any, b: Any) -> Any:
        # Not a view of the memory order only: adding makes an array of that order.
        moved = it.permute_dims(it.permute_dims(a, there) + 0, back) if innermost else a
        return getattr(it, f"conv{rank}d")(moved, b, **options)

    theirs = getattr(torch.nn.functional, f"conv{rank}d")
    like_torch(ours, lambda a, b: theirs(a, b, **options), [x, w], atol=1e-9)


@pytest.mark.parametrize(
    "shape",
    [pytest.param((2, 3, 400, 300), marks=pytest.mark.slow), (70, 20, 16, 16), (1, 2, 3, 5)],
)
def test_channels_by_themselves_in_blocks(shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape, np.float32)
    w = rng.standard_normal((shape[1], 1, 3, 3), np.float32)
    options: dict[str, Any] = {"padding": (1, 2), "groups": shape[1]}
    a, b = it.asarray(x).require_grad(), it.asarray(w).require_grad()
    ta, tb = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    expected = torch.nn.functional.conv2d(ta, tb, **options)
    out = it.conv2d(a, b, **options)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-4)
    g = rng.standard_normal(out.shape, np.float32)
    grads = out.backward(it.asarray(g))
    expected.backward(torch.tensor(g))
    np.testing.assert_allclose(grads[a].numpy(), ta.grad.numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(grads[b].numpy(), tb.grad.numpy(), rtol=1e-3, atol=1e-2)


def test_large_images_are_gathered_in_rows() -> None:
    functional = pytest.importorskip("torch").nn.functional
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 16, 70, 80), np.float32)
    w = rng.standard_normal((8, 16, 5, 5), np.float32)
    expected = functional.conv2d(torch.tensor(x), torch.tensor(w), padding=2).numpy()
    got = it.conv2d(it.asarray(x), it.asarray(w), padding=2).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_are_summed_in_float32(dtype: str) -> None:
    ones = it.ones((1, 4096, 1), dtype=dtype)
    assert it.conv1d(ones, ones).astype("float32").item() == 4096.0


def test_complex_gradients_are_conjugated(like_torch: Any) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 2, 6)) + 1j * rng.standard_normal((2, 2, 6))
    w = rng.standard_normal((3, 2, 3)) + 1j * rng.standard_normal((3, 2, 3))
    g = rng.standard_normal((2, 3, 4)) + 1j * rng.standard_normal((2, 3, 4))
    tx, tw = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    torch.nn.functional.conv1d(tx, tw).backward(torch.tensor(g))
    ix, iw = it.asarray(x).require_grad(), it.asarray(w).require_grad()
    grads = it.conv1d(ix, iw).backward(it.asarray(g))
    np.testing.assert_allclose(grads[ix].numpy(), tx.grad.numpy())
    np.testing.assert_allclose(grads[iw].numpy(), tw.grad.numpy())


@pytest.mark.usefixtures("road")
def test_no_batch_no_channels_no_size() -> None:
    assert it.conv2d(it.ones((0, 2, 5, 5)), it.ones((3, 2, 3, 3))).shape == (0, 3, 3, 3)
    x, w = it.ones((0, 2, 5)).require_grad(), it.ones((3, 2, 3)).require_grad()
    grads = it.conv1d(x, w).sum().backward()
    assert grads[x].shape == (0, 2, 5)
    assert not grads[w].numpy().any()
    empty = it.conv1d(it.ones((2, 0, 5)), it.ones((3, 0, 2)))
    assert empty.shape == (2, 3, 4)
    assert not empty.numpy().any()


def test_promotes() -> None:
    out = it.conv1d(it.ones((1, 1, 3)), it.ones((1, 1, 2), dtype="float64"))
    assert out.dtype is it.float64


@pytest.mark.parametrize(
    ("x", "w", "options", "error", "says"),
    [
        ((2, 3, 8, 8), (4, 2, 3, 3), {}, ShapeError, "3 channels"),
        ((2, 4, 8, 8), (3, 2, 3, 3), {"groups": 2}, ShapeError, "3 features"),
        ((2, 3, 4, 8), (4, 3, 5, 3), {}, ShapeError, "image axis 0 the window spans 5"),
        ((2, 3, 4, 8), (4, 3, 3, 3), {"dilation": 2}, ShapeError, "dilation 2"),
        ((2, 3), (4, 3, 5, 3), {}, ShapeError, r"got \(2, 3\)"),
        ((2, 3, 8, 8), (4, 3, 3), {}, ShapeError, "needs x of 4 axes"),
        ((2, 3, 8, 8), (4, 3, 3, 3), {"padding": -1}, ArgumentError, "padding"),
        ((2, 3, 8, 8), (4, 3, 3, 3), {"padding": "full"}, ArgumentError, "'same', 'valid'"),
        ((2, 3, 8, 8), (4, 3, 3, 3), {"padding": (1, 2, 3)}, ArgumentError, "padding"),
        ((2, 3, 8, 8), (4, 3, 3, 3), {"padding": ((1, 2),)}, ArgumentError, "a pair for each"),
        ((2, 3, 8, 8), (4, 3, 3, 3), {"padding": "same", "stride": 2}, ArgumentError, "stride 1"),
        ((2, 3, 8, 8), (4, 3, 3, 3), {"stride": 0}, ArgumentError, "stride"),
        ((2, 3, 8, 8), (4, 3, 3, 3), {"stride": 1.5}, ArgumentError, "stride"),
        ((2, 3, 8, 8), (4, 3, 3, 3), {"groups": 0}, ArgumentError, "groups"),
    ],
)
def test_bad_input_says_what_is_wrong(
    x: Any, w: Any, options: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        it.conv2d(it.ones(x), it.ones(w), **options)
    assert "conv2d" in str(caught.value)


def test_bad_operands() -> None:
    x, w = it.ones((2, 3, 8)), it.ones((4, 3, 3))
    with pytest.raises(ShapeError, match="bias must have one value for each of the 4 features"):
        it.conv1d(x, w, it.ones(3))
    with pytest.raises(OperandError, match="weight must be a tensor"):
        it.conv1d(x, [1.0])  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="must be floats, got int64"):
        it.conv1d(x.astype("int64"), w.astype("int64"))
    with pytest.raises(ShapeError, match="weight must be"):
        it.conv(x, it.ones((2, 2)))
    with pytest.raises(ShapeError, match=r"g must be \(batch, 4, 6\)"):
        it.conv_input_gradient(it.ones((2, 4, 5)), w, 8)
    with pytest.raises(ShapeError, match=r"g must be \(2, features, 6\)"):
        it.conv_weight_gradient(x, it.ones((2, 4, 5)), 3)
