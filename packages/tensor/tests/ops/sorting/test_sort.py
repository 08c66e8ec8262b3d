"""sort, argsort and topk."""

import ml_dtypes
import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import AxisError, DTypeError, ShapeError

BASE = np.random.default_rng(0).permutation(60).reshape(3, 4, 5) / 7.0


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_like_numpy(axis, descending, road):
    x = it.asarray(BASE)
    expected = np.sort(BASE, axis=axis)
    expected = np.flip(expected, axis) if descending else expected
    result = it.sort(x, axis=axis, descending=descending)
    np.testing.assert_array_equal(result.numpy(), expected)
    order = it.argsort(x, axis=axis, descending=descending)
    assert order.dtype is it.int64
    np.testing.assert_array_equal(np.take_along_axis(BASE, order.numpy(), axis), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.bool_, np.float16, ml_dtypes.bfloat16])
def test_equal_elements_keep_their_order(dtype, road):
    base = np.asarray([1, 0, 1, 0, 1, 1, 0]).astype(dtype)
    x = it.asarray(base)
    assert it.argsort(x).tolist() == [1, 3, 6, 0, 2, 4, 5]
    assert it.argsort(x, descending=True).tolist() == [0, 2, 4, 5, 1, 3, 6]
    assert it.sort(x).numpy().dtype == dtype


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16])
def test_nan_is_the_largest(dtype, road):
    x = it.asarray(np.asarray([2, np.nan, -np.inf, np.inf, 1], dtype))
    ascending = [-np.inf, 1, 2, np.inf, np.nan]
    np.testing.assert_array_equal(it.sort(x).numpy().astype(float), ascending)
    np.testing.assert_array_equal(
        it.sort(x, descending=True).numpy().astype(float), ascending[::-1]
    )
    assert it.argsort(x).tolist() == [2, 4, 0, 3, 1]


def test_topk_like_torch(road):
    torch = pytest.importorskip("torch")
    for axis, k, largest in ((0, 2, True), (1, 4, False), (2, 1, True), (-1, 0, True)):
        values, indices = it.topk(it.asarray(BASE), k, axis=axis, largest=largest)
        wanted = torch.topk(torch.tensor(BASE), k, dim=axis, largest=largest)
        np.testing.assert_array_equal(values.numpy(), wanted.values.numpy())
        np.testing.assert_array_equal(indices.numpy(), wanted.indices.numpy())


def test_gradients(road, like_torch):
    torch = pytest.importorskip("torch")
    like_torch(lambda x: it.sort(x, axis=1) ** 3, lambda t: torch.sort(t, 1).values ** 3, [BASE])
    like_torch(lambda x: it.topk(x, 2)[0] ** 3, lambda t: torch.topk(t, 2).values ** 3, [BASE])


def test_empty_and_bad_calls():
    assert it.sort(it.zeros((2, 0))).shape == (2, 0)
    assert it.argsort(it.zeros((0, 2)), axis=0).shape == (0, 2)
    with pytest.raises(AxisError, match="sort"):
        it.sort(it.asarray(1.0))
    with pytest.raises(DTypeError, match="must be ordered"):
        it.sort(it.asarray([1j]))
    with pytest.raises(ShapeError, match="k=6, but axis 2"):
        it.topk(it.asarray(BASE), 6)
