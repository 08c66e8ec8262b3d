"""Reductions, running sums and products, mean and variance, argmax and argmin."""

import ml_dtypes
import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, AxisError, DTypeError, ShapeError

AXES = [None, 0, -1, (0, 2), (1,), (-1, -2), ()]
BASE = np.random.default_rng(0).uniform(-2, 2, (3, 4, 5))
FLOATS = ["sum", "prod", "max", "min", "mean", "var", "std"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", [*FLOATS, "any", "all", "count_nonzero"])
def test_like_numpy(name, axis, road):
    base = BASE if name in FLOATS else np.round(BASE)
    for keepdims in (False, True):
        result = getattr(it, name)(it.asarray(base), axis=axis, keepdims=keepdims)
        expected = np.asarray(getattr(np, name)(base, axis=axis, keepdims=keepdims))
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12, atol=1e-15)
        assert result.numpy().dtype == expected.dtype


@pytest.mark.parametrize("name", [*FLOATS, "argmax", "argmin", "sort", "cumulative_sum"])
def test_strided_inputs(name):
    x = it.permute_dims(it.asarray(BASE), (2, 0, 1))
    expected = getattr(np, name)(BASE.transpose(2, 0, 1), axis=1)
    np.testing.assert_allclose(getattr(it, name)(x, axis=1).numpy(), expected, rtol=1e-12)
    wide = it.broadcast_to(it.asarray(BASE[0, 0]), (4, 5))
    expected = getattr(np, name)(np.broadcast_to(BASE[0, 0], (4, 5)), axis=0)
    np.testing.assert_allclose(getattr(it, name)(wide, axis=0).numpy(), expected, rtol=1e-12)


def test_dtypes_of_sums_and_products():
    small = it.asarray(np.asarray([100, 100, 100], np.int8))
    assert it.sum(small).dtype is it.int64
    assert it.sum(small).item() == 300
    assert it.prod(small).item() == 1_000_000
    assert it.sum(it.asarray(np.asarray([200, 200], np.uint8))).dtype is it.uint64
    assert it.sum(it.asarray([True, True, False])).item() == 2
    assert it.sum(small, dtype=it.float32).dtype is it.float32
    assert it.sum(it.ones(2, dtype=it.complex64)).dtype is it.complex64
    assert it.mean(small).dtype is it.float32
    assert it.cumulative_sum(small).tolist() == [100, 200, 300]
    assert it.cumulative_prod(it.asarray([True, False])).dtype is it.int64
    with it.default_dtypes(integer=it.int32):
        assert it.sum(small).dtype is it.int32
        assert it.sum(it.asarray(np.ones(2, np.int64))).dtype is it.int64
        assert it.argmax(small).dtype is it.int32


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_types_accumulate_in_float32(dtype, road):
    ones = it.asarray(np.ones(4096, dtype))
    assert it.sum(ones).item() == 4096
    assert it.cumulative_sum(ones).numpy()[-1] == 4096 or road == "bodies"
    large = it.asarray(np.full(4096, 3e4, dtype))
    assert it.mean(large).item() == float(dtype(3e4))
    assert it.var(large).item() == 0
    assert it.std(it.asarray(np.asarray([-3e4, 3e4], dtype))).item() == float(dtype(3e4))
    assert it.mean(large).numpy().dtype == dtype


def test_empty_and_0d(road):
    empty = it.zeros((0, 3))
    assert it.sum(empty, axis=0).tolist() == [0.0] * 3
    assert it.prod(empty, axis=0).tolist() == [1.0] * 3
    assert it.any(empty).item() is False
    assert it.all(empty).item() is True
    assert np.isnan(it.mean(empty, axis=0).numpy()).all()
    assert it.max(empty, axis=1).shape == (0,)
    assert it.logsumexp(empty, axis=0).tolist() == [-np.inf] * 3
    assert it.cumulative_sum(empty, axis=0).shape == (0, 3)
    for function in (it.max, it.min, it.argmax, it.argmin):
        with pytest.raises(ShapeError, match="no elements"):
            function(empty, axis=0)
    point = it.asarray(3.0)
    assert (it.sum(point).item(), it.max(point).item(), it.argmax(point).item()) == (3.0, 3.0, 0)
    assert it.var(it.asarray([1.0]), correction=1).numpy().tolist() != [0.0]


def test_nan_and_ties(road):
    x = it.asarray([[1.0, np.nan, 3.0], [2.0, 2.0, 1.0]])
    np.testing.assert_array_equal(it.max(x, axis=1).numpy(), [np.nan, 2.0])
    np.testing.assert_array_equal(it.min(x, axis=1).numpy(), [np.nan, 1.0])
    assert it.argmax(x, axis=1).tolist() == [1, 0]
    assert it.argmin(x, axis=1, keepdims=True).tolist() == [[1], [2]]
    assert it.argmax(x).item() == 1
    assert it.argmax(x, keepdims=True).shape == (1, 1)
    assert it.any(x).item() is True


def test_logsumexp(road):
    x = it.asarray([[1000.0, 1000.0], [-np.inf, -np.inf], [np.inf, 0.0], [0.0, -np.inf]])
    expected = [1000 + np.log(2), -np.inf, np.inf, 0.0]
    np.testing.assert_allclose(it.logsumexp(x, axis=1).numpy(), expected, rtol=1e-6)
    assert it.logsumexp(x, axis=(0, 1), keepdims=True).shape == (1, 1)


def test_cumulative_options(road):
    x = it.asarray(np.arange(1, 8, dtype=np.int32))
    assert it.cumulative_sum(x, include_initial=True).tolist() == [0, 1, 3, 6, 10, 15, 21, 28]
    assert it.cumulative_prod(x, include_initial=True).tolist()[:5] == [1, 1, 2, 6, 24]
    assert it.cumulative_sum(x, dtype=it.float64).dtype is it.float64
    with pytest.raises(AxisError, match=r"axis must be given"):
        it.cumulative_sum(it.zeros((2, 2)))


def test_bad_calls():
    x = it.zeros((2, 3))
    with pytest.raises(AxisError, match="sum: axis=2 is out of range"):
        it.sum(x, axis=2)
    with pytest.raises(AxisError, match="must not name an axis twice"):
        it.mean(x, axis=(0, -2))
    with pytest.raises(DTypeError, match="max: x must be"):
        it.max(it.asarray([1j]))
    with pytest.raises(DTypeError, match=r"var: .* must be float"):
        it.var(it.asarray([1j]))
    with pytest.raises(ArgumentError, match="correction must be a number"):
        it.var(x, correction="1")


REDUCTIONS = {
    "sum": "sum", "max": "amax", "min": "amin", "mean": "mean", "logsumexp": "logsumexp",
}  # fmt: skip


@pytest.mark.parametrize("axis", [0, -1, (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_gradients(name, axis, road, like_torch):
    torch = pytest.importorskip("torch")
    theirs = getattr(torch, REDUCTIONS[name])
    like_torch(lambda x: getattr(it, name)(x, axis=axis), lambda t: theirs(t, dim=axis), [BASE])


@pytest.mark.parametrize("name", ["var", "std"])
def test_gradients_of_deviations(name, road, like_torch):
    torch = pytest.importorskip("torch")
    for correction in (0, 1):
        for axis in (1, (0, 2)):
            like_torch(
                lambda x, a=axis, c=correction: getattr(it, name)(x, axis=a, correction=c),
                lambda t, a=axis, c=correction: getattr(torch, name)(t, dim=a, correction=c),
                [BASE],
            )


def test_gradient_of_std_is_zero_where_std_is():
    x = it.ones((3, 4)).require_grad()
    grads = it.std(x, axis=1).sum().backward()
    assert grads[x].tolist() == [[0.0] * 4] * 3


@pytest.mark.slow
@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_gradient_of_prod(zeros, like_torch):
    torch = pytest.importorskip("torch")
    for size in (1, 2, 3, 7, 8):
        x = np.random.default_rng(size).uniform(0.5, 2, (2, size))
        x[0, :zeros] = 0
        like_torch(lambda v: it.prod(v, axis=1), lambda v: torch.prod(v, 1), [x])
        like_torch(it.prod, torch.prod, [x])
        like_torch(lambda v: it.cumulative_prod(v, axis=1), lambda v: torch.cumprod(v, 1), [x])


def test_gradient_of_prod_over_several_axes():
    rng = np.random.default_rng(3)
    base = rng.uniform(0.5, 2, (2, 3, 4))
    base[1, 2, 3] = 0
    x = it.asarray(base).require_grad()
    weights = rng.standard_normal(3)
    got = it.prod(x, axis=(0, 2)).backward(it.asarray(weights))[x].numpy()
    expected = np.zeros_like(base)
    for i, j, k in np.ndindex(base.shape):
        others = base[:, j, :].copy()
        others[i, k] = 1
        expected[i, j, k] = weights[j] * others.prod()
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_gradient_of_an_empty_product():
    x = it.zeros((3, 0)).require_grad()
    assert it.prod(x, axis=1).sum().backward()[x].shape == (3, 0)


def test_gradient_of_cumulative_sum(road, like_torch):
    torch = pytest.importorskip("torch")
    like_torch(lambda v: it.cumulative_sum(v * v, axis=1), lambda v: torch.cumsum(v * v, 1), [BASE])


def test_ties_share_the_gradient():
    x = it.asarray([[2.0, 2.0, 1.0], [0.0, 3.0, 3.0]]).require_grad()
    assert it.max(x, axis=1).sum().backward()[x].tolist() == [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
