"""Arguments that calls of PyTorch bring along, and dtypes that functions took no note of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError

torch: Any = pytest.importorskip("torch")
RNG = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def check(ours: Any, theirs: Any, *arrays: np.ndarray) -> None:
    """The result and the gradients of its sum with fixed weights."""
    xs = [it.asarray(a).require_grad() for a in arrays]
    ts = [torch.tensor(a, requires_grad=True) for a in arrays]
    out, expected = ours(*xs), theirs(*ts)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-11)
    weights = draw(*expected.shape).astype(out.numpy().dtype)
    grads = out.backward(it.asarray(weights))
    expected.backward(torch.tensor(weights))
    for x, t in zip(xs, ts, strict=True):
        np.testing.assert_allclose(grads[x].numpy(), t.grad.numpy(), rtol=1e-8, atol=1e-10)


class TestAttention:
    @pytest.mark.parametrize("causal", [False, True])
    def test_groups_of_heads_share_keys(self, causal: bool) -> None:
        arrays = draw(2, 6, 3, 4), draw(2, 2, 5, 4), draw(2, 2, 5, 3)
        options: dict[str, Any] = {"is_causal": causal, "enable_gqa": True}
        theirs = torch.nn.functional.scaled_dot_product_attention
        check(
            lambda q, k, v: it.scaled_dot_product_attention(q, k, v, **options),
            lambda q, k, v: theirs(q, k, v, **options), *arrays,
        )  # fmt: skip
        with pytest.raises(ShapeError, match="enable_gqa"):
            it.scaled_dot_product_attention(
                *map(it.asarray, arrays[:2]), it.zeros((5, 3)), **options
            )

    def test_what_dropout_leaves_counts_more(self) -> None:
        q, k = it.zeros((64, 4)), it.zeros((64, 4))
        generator = it.random.Generator(0)
        shares = it.scaled_dot_product_attention(
            q, k, it.eye(64), dropout_p=0.25, generator=generator
        ).numpy()
        kept = shares > 0
        assert abs(kept.mean() - 0.75) < 0.03
        np.testing.assert_allclose(shares[kept], 1 / 64 / 0.75, rtol=1e-6)
        with pytest.raises(ArgumentError, match="dropout_p"):
            it.scaled_dot_product_attention(q, k, k, dropout_p=1.5)


@pytest.mark.parametrize("divisor", [3, -2])
@pytest.mark.parametrize("options", [{}, {"padding": 1, "count_include_pad": False}, {"stride": 1}])
def test_averages_by_another_divisor(divisor: int, options: dict[str, Any]) -> None:
    more: dict[str, Any] = {**options, "ceil_mode": True, "divisor_override": divisor}
    theirs = torch.nn.functional.avg_pool2d
    check(lambda x: it.avg_pool2d(x, 2, **more), lambda x: theirs(x, 2, **more), draw(2, 3, 5, 5))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_with_an_end(mode: str) -> None:
    places, offsets = np.array([1, 0, 3, 3, 2]), np.array([0, 2, 2, 5])
    theirs = torch.nn.functional.embedding_bag
    check(
        lambda w: it.embedding_bag(
            it.asarray(places), w, it.asarray(offsets), mode=mode, include_last_offset=True
        ),
        lambda w: theirs(
            torch.tensor(places), w, torch.tensor(offsets), mode=mode, include_last_offset=True
        ),
        draw(4, 3),
    )


@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_are_searched_in_rows(side: str) -> None:
    rows, values = np.sort(draw(2, 3, 7)), draw(2, 3, 4)
    for device in ("numpy", "cpu"):
        a, b = it.asarray(rows, device=device), it.asarray(values, device=device)
        expected = torch.searchsorted(torch.tensor(rows), torch.tensor(values), side=side)
        assert it.searchsorted(a, b, side=side).tolist() == expected.tolist()
    shuffled = RNG.permuted(rows, axis=-1)
    order = it.argsort(it.asarray(shuffled), axis=-1)
    found = it.searchsorted(it.asarray(shuffled), it.asarray(values), side=side, sorter=order)
    assert found.tolist() == expected.tolist()
    with pytest.raises(ShapeError, match="a row for each"):
        it.searchsorted(it.asarray(rows), it.asarray(values[0]))


def test_filled_by_a_tensor() -> None:
    mask = np.array([[True, False, True]])
    check(
        lambda x, v: it.masked_fill(x, it.asarray(mask), v),
        lambda x, v: x.masked_fill(torch.tensor(mask), v), draw(2, 3), draw(),
    )  # fmt: skip
    with pytest.raises(DTypeError, match="does not fit the dtype int32"):
        it.masked_fill(it.asarray([1, 2, 3], dtype="int32"), it.asarray(mask), it.asarray(0.5))


def test_dropout_outside_of_training() -> None:
    x = it.asarray(draw(5))
    assert it.dropout(x, 0.9, training=False).tolist() == x.tolist()


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8"])
def test_relu_of_integers_is_an_integer(dtype: str) -> None:
    x = np.array([0, 3, 100, -5 if dtype[0] == "i" else 7]).astype(dtype)
    for ours, high in ((it.relu, 127), (it.relu6, 6)):
        found = ours(it.asarray(x))
        assert found.dtype.name == dtype
        assert found.tolist() == np.clip(x, 0, high).tolist()


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8"])
def test_pieces_of_integers_with_bounds_of_their_dtype_are_integers(dtype: str) -> None:
    x = np.array([0, 1, 3, 100]).astype(dtype)
    y = it.asarray(x)
    for ours, theirs in (
        (it.hardtanh(y, 1, 4.0), torch.nn.functional.hardtanh(torch.tensor(x), 1, 4)),
        (it.threshold(y, 2, 9), torch.nn.functional.threshold(torch.tensor(x), 2, 9)),
    ):
        assert ours.dtype.name == dtype
        assert ours.tolist() == theirs.tolist()
    # Numbers that the dtype does not hold make them floats.
    assert it.hardtanh(y, 0.5, 4).tolist() == [0.5, 1.0, 3.0, 4.0]
    assert it.threshold(y, 2.5, -0.5).tolist() == [-0.5, -0.5, 3.0, 100.0]
    assert it.hardtanh(y).dtype.name == (dtype if dtype[0] == "i" else "float32")


def test_activations_of_complex_numbers() -> None:
    z = draw(3, 4) + 1j * draw(3, 4)
    check(it.sigmoid, torch.sigmoid, z)
    check(it.silu, lambda x: x * torch.sigmoid(x), z)
    far = it.sigmoid(it.asarray([1000 + 1j, -1000 + 1j]))
    np.testing.assert_allclose(far.numpy(), [1, 0])
    found = it.logsumexp(it.asarray(z), axis=1)
    np.testing.assert_allclose(found.numpy(), np.log(np.exp(z).sum(axis=1)))
    check(
        lambda x: it.logsumexp(x + 5, axis=(0, 1), keepdims=True),
        lambda x: torch.exp(x + 5).sum(dim=(0, 1), keepdim=True).log(), z,
    )  # fmt: skip
    assert np.isfinite(it.logsumexp(it.asarray([1e4 + 1j, 1e4])).numpy())


def test_a_source_with_too_few_elements() -> None:
    mask = it.asarray([True, True, True])
    for device in ("numpy", "cpu"):
        x, where = it.zeros(3, device=device), mask.to_device(device)
        for source in (it.ones(2, device=device), it.ones(0, device=device)):
            with pytest.raises(OutOfRangeError):
                it.masked_scatter(x, where, source).numpy()
