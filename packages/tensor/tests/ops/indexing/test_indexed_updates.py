"""x.at[key]: every way to update, over every kind of key, against NumPy's ufunc.at."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import DTypeError, OperandError, OutOfRangeError, ShapeError

UFUNCS: dict[str, np.ufunc] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "max": np.maximum, "min": np.minimum,
}  # fmt: skip
MASK = np.array([[True, False, True], [False, False, True], [True, True, False], [False] * 3])
KEYS: dict[str, Any] = {
    "number": 2,
    "negative": -1,
    "slice": slice(1, 4, 2),
    "backwards": (slice(None, None, -1), slice(2, 0, -1)),
    "ellipsis": (..., 1),
    "new axis": (None, slice(0, 2)),
    "everything": ...,
    "nothing": slice(2, 2),
    "list with duplicates": [1, 1, 3, 1],
    "both ends": [-1, 3, 0],
    "pairs": ([0, 2, 0, 0], [1, 1, 1, -2]),
    "apart": ([0, 0], None, [2, 2]),
    "outer": (np.array([[0], [2]]), np.array([[1, 1]])),
    "with a slice": (slice(0, 3), [0, 0, 2]),
    "mask": MASK,
    "mask of rows": np.array([True, False, True, True]),
    "no index": np.zeros(0, np.int64),
    "bool": True,
}


def ours(key: Any) -> Any:
    """Arrays in a key as tensors."""
    if isinstance(key, tuple):
        return tuple(map(ours, key))
    return it.asarray(key) if isinstance(key, np.ndarray) else key


@pytest.mark.sampled(4)
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("how", UFUNCS)
def test_updates_equal_numpy(how: str, key: Any) -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(0.5, 2.0, (4, 3))
    shape = x[key].shape
    for value in (rng.uniform(0.5, 2.0, shape), np.float64(1.5), rng.uniform(0.5, 2, shape[-1:])):
        want = x.copy()
        UFUNCS[how].at(want, key, value)
        got = getattr(it.asarray(x).at[ours(key)], how)(it.asarray(value))
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-14)
    want = x.copy()
    UFUNCS[how].at(want, key, 2)
    np.testing.assert_allclose(getattr(it.asarray(x).at[ours(key)], how)(2).numpy(), want)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_get_set_and_apply_equal_numpy(key: Any) -> None:
    x = np.random.default_rng(3).uniform(0.5, 2.0, (4, 3))
    place = it.asarray(x).at[ours(key)]
    np.testing.assert_array_equal(place.get().numpy(), x[key])
    want = x.copy()
    want[key] = 7
    np.testing.assert_array_equal(place.set(7).numpy(), want)
    want = x.copy()
    want[key] = np.sqrt(x[key])  # once, however often an element is named
    np.testing.assert_allclose(place.apply(it.sqrt).numpy(), want, rtol=1e-15)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float16", "float32", "complex64"])
@pytest.mark.parametrize("how", ["add", "subtract", "multiply", "max", "min"])
def test_the_dtype_stays(how: str, dtype: str) -> None:
    if dtype == "complex64" and how in ("max", "min"):
        return
    x = np.array([3, 5, 7]).astype(dtype)
    values = np.array([2, 1, 4]).astype(dtype)
    want = x.copy()
    UFUNCS[how].at(want, [0, 0, 2], values)
    got = getattr(it.asarray(x).at[[0, 0, 2]], how)(it.asarray(values))
    assert got.dtype.name == dtype
    np.testing.assert_array_equal(got.numpy(), want)
    small = getattr(it.asarray(x).at[[0, 0, 2]], how)(it.asarray([2, 1, 4], dtype="uint8"))
    np.testing.assert_array_equal(small.numpy(), want)


def test_the_last_of_several_values_stays() -> None:
    x = it.zeros(3).at[[1, 1, 1]].set(it.asarray([1.0, 2.0, 3.0]))
    assert x.tolist() == [0.0, 3.0, 0.0]


@pytest.mark.parametrize("how", ["set", *UFUNCS])
@pytest.mark.parametrize(
    "key", [slice(1, 3), [0, 0, 2], np.array([True, False, True, True])], ids=str
)
def test_gradients(how: str, key: Any, like_torch: Callable[..., None]) -> None:
    """First and second order, by the tensor and by the value."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(8)
    x = rng.permutation(np.linspace(0.5, 2.0, 12)).reshape(4, 3)
    value = rng.permutation(np.linspace(0.55, 2.05, x[key].size)).reshape(x[key].shape)
    rows = np.arange(4)[key] if isinstance(key, (slice, np.ndarray)) else np.array(key)

    def theirs(x: Any, value: Any) -> Any:
        index = torch.tensor(rows)[:, None].expand(-1, 3)
        if how == "set":
            last = [max(np.flatnonzero(rows == r)) for r in np.unique(rows)]
            return x.index_put((torch.tensor(rows[last]),), value[last])
        if how in ("subtract", "add"):
            return x.scatter_add(0, index, value if how == "add" else -value)
        if how == "divide":
            return x / torch.ones_like(x).scatter_reduce(0, index, value, "prod")
        kind = {"multiply": "prod", "max": "amax", "min": "amin"}[how]
        return x.scatter_reduce(0, index, value, kind)

    like_torch(
        lambda x, value: getattr(x.at[ours(key)], how)(value), theirs, [x, value],
        second=how not in ("multiply", "divide", "max", "min"),
    )  # fmt: skip


@pytest.mark.parametrize("how", ["multiply", "divide", "max", "min"])
def test_second_order(how: str) -> None:
    """Where PyTorch has no second derivatives of its own: against differences of the first."""
    grad = pytest.importorskip("ingle.autodiff").grad
    rng = np.random.default_rng(5)
    x, value = rng.uniform(0.5, 2.0, 4), rng.uniform(0.5, 2.0, 3)

    def slope(x: it.Tensor, value: it.Tensor) -> it.Tensor:
        f = lambda x, v: (getattr(x.at[[0, 0, 2]], how)(v) ** 3).sum()  # noqa: E731
        return sum((g * g).sum() for g in grad(f, (0, 1))(x, value))

    found = [g.numpy() for g in grad(slope, (0, 1))(it.asarray(x), it.asarray(value))]
    step = 1e-6
    for place, array in enumerate((x, value)):
        for i in range(len(array)):
            moved = [[x.copy(), value.copy()] for _ in range(2)]
            moved[0][place][i] += step
            moved[1][place][i] -= step
            up, down = (slope(*map(it.asarray, m)).item() for m in moved)
            np.testing.assert_allclose(found[place][i], (up - down) / (2 * step), rtol=1e-6)


def test_errors() -> None:
    x = it.asarray([1, 2, 3])
    for how in ("divide", "apply"):
        with pytest.raises(DTypeError, match=r"x\.at\[\.\.\.\]\.divide: x must be|float"):
            getattr(x.at[0], how)(it.sqrt if how == "apply" else 2)
    with pytest.raises(DTypeError, match=r"x\.at\[\.\.\.\]\.max: x must be .* got complex64"):
        it.zeros(2, dtype="complex64").at[0].max(1)
    with pytest.raises(DTypeError, match=r"x\.at\[\.\.\.\]\.add: x must be .* got bool"):
        it.asarray([True]).at[0].add(True)
    with pytest.raises(DTypeError, match="a float32 value does not fit a tensor of int64"):
        x.at[0].multiply(it.asarray(1.5))
    with pytest.raises(DTypeError, match=r"value=1\.5 does not fit"):
        x.at[0].subtract(1.5)
    with pytest.raises(OutOfRangeError, match="index 3 is out of range for axis 0 of size 3"):
        x.at[[0, 3]].max(1)
    with pytest.raises(ShapeError, match=r"a value of shape \(4,\) does not broadcast"):
        x.at[[0, 1]].min(it.zeros(4, dtype="int64"))


def test_updates_in_batches() -> None:
    vmap = pytest.importorskip("ingle.autodiff").vmap
    x, i = it.asarray(np.arange(12.0).reshape(3, 4)), it.asarray([[0, 0], [1, 3], [2, -1]])
    for how, function in UFUNCS.items():
        want = x.numpy().copy()
        for row, places in zip(want, i.numpy(), strict=True):
            function.at(row, places, 2.5)
        got = vmap(lambda x, i, how=how: getattr(x.at[i], how)(2.5))(x, i)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-15)


def test_what_is_no_update():
    x = it.ones((2, 3))
    for call in (
        lambda: x.at[0] + 1,
        lambda: 1 - x.at[0],
        lambda: x.at[0] @ x,
        lambda: -x.at[0],
        lambda: operator.iadd(x.at[0], 1),
    ):
        with pytest.raises(OperandError, match=r"is no tensor.*write x\.at\[key\]\.add\(value\)"):
            call()
    with pytest.raises(OperandError, match=r"write x\[key\] = value"):
        x.at[0] = 3
    with pytest.raises(OperandError, match="a key goes in brackets"):
        x.at(0)
    with pytest.raises(AttributeError, match=r"'mul'; write x\.at\[key\]\.multiply\(value\)"):
        x.at[0].mul(2)
    with pytest.raises(AttributeError, match=r"'power'; .*apply\(function\)"):
        x.at[0].power(2)
