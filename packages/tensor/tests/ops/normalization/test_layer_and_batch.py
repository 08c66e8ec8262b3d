"""softmax, layer_norm and batch_norm against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, ShapeError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.usefixtures("road")
def test_softmax(like_torch: Any, name: str, axis: int) -> None:
    functional = pytest.importorskip("torch").nn.functional
    x = RNG.standard_normal((3, 4, 5)) * 20
    like_torch(
        lambda a: getattr(it, name)(a, axis=axis),
        lambda a: getattr(functional, name)(a, dim=axis),
        [x],
    )


def test_softmax_of_extreme_values() -> None:
    x = it.asarray([1e30, -1e30, float("-inf")])
    assert it.softmax(x).tolist() == [1.0, 0.0, 0.0]
    assert it.log_softmax(it.asarray([0.0, float("-inf")])).tolist() == [0.0, float("-inf")]
    assert it.softmax(it.ones((0, 3))).shape == (0, 3)
    assert it.softmax(it.ones((3, 0))).shape == (3, 0)


@pytest.mark.parametrize("over", [(5,), (4, 5), (3, 4, 5)])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.usefixtures("road")
def test_layer_norm(like_torch: Any, over: tuple[int, ...], affine: bool) -> None:
    functional = pytest.importorskip("torch").nn.functional
    arrays = [RNG.standard_normal((3, 4, 5)) + 3]
    arrays += [RNG.standard_normal(over) for _ in range(2)] if affine else []
    like_torch(
        lambda x, *wb: it.layer_norm(x, over, *wb),
        lambda x, *wb: functional.layer_norm(x, over, *wb),
        arrays,
        rtol=1e-7,
        atol=1e-8,
    )


@pytest.mark.parametrize("shape", [(8, 3), (4, 3, 5), (4, 3, 2, 5)])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.usefixtures("road")
def test_batch_norm_in_training(like_torch: Any, shape: tuple[int, ...], affine: bool) -> None:
    functional = pytest.importorskip("torch").nn.functional
    arrays = [RNG.standard_normal(shape) + 2]
    arrays += [RNG.standard_normal(3) for _ in range(2)] if affine else []
    like_torch(
        lambda x, *wb: it.batch_norm_training(x, *wb)[0],
        lambda x, *wb: functional.batch_norm(
            x, None, None, *(wb or (None, None)), training=True
        ),
        arrays,
        rtol=1e-7,
        atol=1e-8,
    )  # fmt: skip


@pytest.mark.usefixtures("road")
def test_gradients_of_the_statistics(like_torch: Any) -> None:
    x = RNG.standard_normal((6, 3, 4))

    def ours(a: Any) -> Any:
        _, mean, var = it.batch_norm_training(a)
        return mean * var

    like_torch(ours, lambda a: a.mean(dim=(0, 2)) * a.var(dim=(0, 2), correction=0), [x], rtol=1e-7)


@pytest.mark.usefixtures("road")
def test_batch_norm_with_given_statistics(like_torch: Any) -> None:
    torch = pytest.importorskip("torch")
    mean, var = RNG.standard_normal(3), RNG.uniform(0.5, 2, 3)
    arrays = [RNG.standard_normal((4, 3, 5)), RNG.standard_normal(3), RNG.standard_normal(3)]
    like_torch(
        lambda x, w, b: it.batch_norm(x, it.asarray(mean), it.asarray(var), w, b),
        lambda x, w, b: torch.nn.functional.batch_norm(
            x, torch.tensor(mean), torch.tensor(var), w, b
        ),
        arrays,
    )


def test_returns_the_biased_variance() -> None:
    x = RNG.standard_normal((6, 3, 4))
    _, mean, var = it.batch_norm_training(it.asarray(x))
    np.testing.assert_allclose(mean.numpy(), x.mean(axis=(0, 2)))
    np.testing.assert_allclose(var.numpy(), x.var(axis=(0, 2)))


def test_half_types_keep_statistics_in_float32() -> None:
    x = it.asarray(RNG.standard_normal((64, 3)) * 100 + 300, dtype="float16").require_grad()
    out, mean, var = it.batch_norm_training(x, it.ones(3, dtype="float16"))
    assert (out.dtype, mean.dtype, var.dtype) == (it.float16, it.float32, it.float32)
    assert np.isfinite(var.numpy()).all()
    assert out.sum().backward()[x].dtype is it.float16
    assert it.layer_norm(x, 3).dtype is it.float16


def test_far_from_zero_the_variance_does_not_cancel() -> None:
    x = (10000 + RNG.standard_normal((512, 1))).astype(np.float32)
    out = it.batch_norm_training(it.asarray(x))[0].numpy()
    wide = x.astype(np.float64)
    expected = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)
    np.testing.assert_allclose(out, expected, atol=2e-3)


def test_bad_input() -> None:
    x = it.ones((4, 3, 5))
    with pytest.raises(ShapeError, match=r"must end in normalized_shape=\(4,\)"):
        it.layer_norm(x, 4)
    with pytest.raises(ShapeError, match="weight must have normalized_shape"):
        it.layer_norm(x, 5, it.ones(3))
    with pytest.raises(ArgumentError, match="eps"):
        it.layer_norm(x, 5, eps=-1.0)
    with pytest.raises(DTypeError, match="must be floats"):
        it.layer_norm(x.astype("int32"), 5)
    with pytest.raises(ShapeError, match="each of the 3 channels"):
        it.batch_norm_training(x, it.ones(5))
    with pytest.raises(ShapeError, match="running_mean must have one value"):
        it.batch_norm(x, it.ones(4), it.ones(3))
    with pytest.raises(ShapeError, match="more than one value"):
        it.batch_norm_training(it.ones((1, 3)))
    with pytest.raises(ShapeError, match="batch, channels"):
        it.batch_norm_training(it.ones(3))
    with pytest.raises(ArgumentError, match="both running_mean and running_var"):
        it.batch_norm(x, it.ones(3), None)
