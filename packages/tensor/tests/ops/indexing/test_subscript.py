"""Reading, replacing and adding by index, against NumPy and PyTorch."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    OperandError,
    OutOfRangeError,
    ShapeError,
)
from ingle.tensor.ops.indexing.linear_index import ravel_index
from ingle.testkit.bits import same_bits


def random_slice(rng: np.random.Generator, size: int) -> builtins.slice:
    def bound() -> int | None:
        return None if rng.random() < 0.3 else int(rng.integers(-size - 2, size + 3))

    step = int(rng.choice([-3, -2, -1, 1, 2, 3]))
    return builtins.slice(bound(), bound(), None if rng.random() < 0.4 else step)


def random_key(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A key that NumPy accepts most of the time, with every kind of item."""
    common = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3))))
    key: list[Any] = []
    axis, dots = 0, False
    while axis < len(shape) and rng.random() < 0.9:
        kind = rng.choice(
            ["int", "slice", "none", "dots", "array", "list", "mask", "scalar", "bool"],
            p=[0.17, 0.25, 0.08, 0.07, 0.22, 0.07, 0.08, 0.03, 0.03],
        )
        size = shape[axis]
        if kind == "none":
            key.append(None)
            continue
        if kind == "bool":
            key.append(bool(rng.integers(0, 2)))
            continue
        if kind == "dots":
            if not dots:
                key.append(...)
                dots = True
                axis += int(rng.integers(0, 2))
            continue
        if kind == "mask":
            span = int(rng.integers(1, min(2, len(shape) - axis) + 1))
            key.append(rng.random(shape[axis : axis + span]) < 0.5)
            axis += span
            continue
        if kind == "slice":
            key.append(random_slice(rng, size))
        elif not size:
            key.append(np.zeros((0,), np.int64))
        elif kind == "int":
            key.append(int(rng.integers(-size, size)))
        elif kind == "scalar":
            key.append(np.array(rng.integers(-size, size)))
        else:
            drop = tuple(1 if rng.random() < 0.2 else n for n in common)
            values = rng.integers(-size, size, drop[int(rng.integers(0, len(drop) + 1)) :])
            key.append(values.tolist() if kind == "list" else values)
        axis += 1
    return tuple(key)


def as_ours(key: tuple[Any, ...], rng: np.random.Generator) -> tuple[Any, ...]:
    """The key with some of its arrays as tensors."""
    return tuple(
        it.asarray(k) if isinstance(k, np.ndarray) and rng.random() < 0.7 else k for k in key
    )


SHAPES = [(), (5,), (3, 4), (2, 3, 4), (2, 1, 3, 2), (3, 0, 2)]


@pytest.mark.parametrize("seed", range(40))
def test_getitem_equals_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(25):
        shape = SHAPES[int(rng.integers(0, len(SHAPES)))]
        values = rng.normal(size=shape)
        key = random_key(rng, shape)
        try:
            expected = values[key]
        except IndexError:
            with pytest.raises((IndexError, ValueError)):
                it.asarray(values)[as_ours(key, rng)]
            continue
        try:
            got = it.asarray(values)[as_ours(key, rng)]
        except OutOfRangeError:
            # NumPy does not look at indices of which nothing is read.
            assert not expected.size
            continue
        np.testing.assert_array_equal(got.numpy(), expected, err_msg=f"{shape} {key}")
        assert got.shape == expected.shape, (shape, key)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(40))
def test_setitem_equals_numpy(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    for _ in range(25):
        shape = SHAPES[int(rng.integers(0, len(SHAPES)))]
        values = rng.normal(size=shape)
        key = random_key(rng, shape)
        try:
            piece = values[key].shape
        except IndexError:
            continue
        cut = piece[int(rng.integers(0, len(piece) + 1)) :]
        new = rng.normal(size=tuple(1 if rng.random() < 0.2 else n for n in cut))
        x = it.asarray(values)
        try:
            x[as_ours(key, rng)] = it.asarray(new)
        except OutOfRangeError:
            assert not values[key].size
            continue
        expected = values.copy()
        expected[key] = new
        np.testing.assert_array_equal(x.numpy(), expected, err_msg=f"{shape} {key}")
        added = values.copy()
        np.add.at(added, key, new)
        got = it.asarray(values).at[as_ours(key, rng)].add(new)
        np.testing.assert_allclose(got.numpy(), added, rtol=1e-12, err_msg=f"{shape} {key}")


def test_setitem_rebinds_this_object_only() -> None:
    x = it.zeros(3)
    same, other = x, it.Tensor(x._handle)
    x[1] = 5
    assert same.tolist() == [0.0, 5.0, 0.0]
    assert other.tolist() == [0.0, 0.0, 0.0]


def test_in_place_operators_rebind() -> None:
    x = it.asarray([1.0, 2.0])
    alias, held = x, it.Tensor(x._handle)
    x += 1
    x *= 2.0
    x -= it.ones(2)
    x /= 3
    assert x is alias
    np.testing.assert_allclose(x.numpy(), [1.0, 5 / 3], rtol=1e-6)
    assert held.tolist() == [1.0, 2.0]
    x[0] += 10
    np.testing.assert_allclose(x.numpy(), [11.0, 5 / 3], rtol=1e-6)
    n = it.asarray([6, 7])
    n //= 2
    n %= 2
    n |= 4
    assert n.tolist() == [5, 5]
    m = it.eye(2)
    m @= 2 * it.eye(2)
    assert m.tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_in_place_operators_keep_shape_and_dtype() -> None:
    x = it.ones(3)
    with pytest.raises(ShapeError, match=r"keeps its shape \(3,\)"):
        x += it.ones((2, 3))
    n = it.arange(3)
    with pytest.raises(DTypeError, match="keeps its dtype int64"):
        n /= 2
    assert n.tolist() == [0, 1, 2]


def test_gradients_flow_through_setitem() -> None:
    x = it.asarray([1.0, 2.0, 3.0]).require_grad()
    y = x * 2
    y[1:] = x[:2] * 10
    assert it.sum(y).backward()[x].tolist() == [12.0, 10.0, 0.0]


def test_values_take_the_dtype_of_the_tensor() -> None:
    x = it.zeros(3, dtype=it.float64)
    x[0] = 0.1
    x[1] = [0.1]
    x[2] = it.asarray(2)
    assert x.tolist() == [0.1, 0.1, 2.0]
    n = it.zeros(3, dtype=it.int32)
    n[:] = np.arange(3)
    n[it.asarray([0, 0])] = 9
    n[it.asarray([True, False, True])] = 7
    assert n.tolist() == [7, 1, 7]
    b = it.zeros(2, dtype=bool)
    b[0] = True
    assert b.tolist() == [True, False]


@pytest.mark.parametrize(
    ("x", "key", "value", "error", "match"),
    [
        (it.arange(3), 0, 1.5, DTypeError, "value=1.5 does not fit the dtype int64"),
        (it.arange(3), 0, it.ones(()), DTypeError, "float32 value does not fit"),
        (it.zeros(3), 0, 1j, DTypeError, "does not fit the dtype float32"),
        (it.zeros(3, dtype=bool), 0, 2, DTypeError, "does not fit the dtype bool"),
        (it.zeros((2, 3)), 0, it.ones(2), ShapeError, r"\(2,\) does not broadcast .* \(3,\)"),
        (it.zeros((2, 3)), [0, 1], it.ones((3, 3)), ShapeError, "does not broadcast"),
        (it.zeros(3), it.asarray([True] * 3), it.ones(2), ShapeError, "does not broadcast"),
        (it.zeros(3), 3, 0, OutOfRangeError, "index 3 is out of range for axis 0 of size 3"),
        (it.zeros(3), 0, "a", DTypeError, "no dtype"),
    ],
)
def test_setitem_refuses(x: Any, key: Any, value: Any, error: type, match: str) -> None:
    x = it.Tensor(x._handle)
    before = x.tolist()
    with pytest.raises(error, match=match):
        x[key] = value
    assert x.tolist() == before


X = it.asarray(np.arange(24.0).reshape(2, 3, 4))


@pytest.mark.parametrize(
    ("key", "error", "match"),
    [
        (2, OutOfRangeError, r"index 2 is out of range for axis 0 of size 2: valid are -2 to 1"),
        ((0, -4), OutOfRangeError, "index -4 is out of range for axis 1 of size 3"),
        ((0, 0, [0, 4]), OutOfRangeError, "index 4 is out of range for axis 2 of size 4"),
        (it.asarray([0, 2]), OutOfRangeError, "hold 2, but axis 0 has size 2: valid are -2 to 1"),
        ((0, it.asarray([-4])), OutOfRangeError, "hold -4, but axis 1 has size 3"),
        ((it.asarray([0]), it.asarray([7])), OutOfRangeError, "hold 7, but axis 1 has size 3"),
        ((0, 0, 0, 0), AxisError, r"4 axes are indexed, but the tensor of shape \(2, 3, 4\) has 3"),
        ((..., 0, ...), AxisError, "only one Ellipsis"),
        (1.0, OperandError, "got 1.0 of type float"),
        ("a", OperandError, "type str"),
        (it.asarray([1.0]), OperandError, "integer or bool, got float32"),
        ([0.5], OperandError, "integers or bools, got float64"),
        ([[0], [0, 1]], OperandError, "ragged"),
        (it.asarray([True, False, True]), OutOfRangeError, "mask has size 3 where axis 0"),
        (np.zeros((2, 4), bool), OutOfRangeError, "mask has size 4 where axis 1"),
        (slice(0, 2, 0), OperandError, "step other than 0"),
        (slice(0.5, 2), OperandError, "parts of a slice"),
    ],
)
def test_getitem_refuses(key: Any, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        X[key].numpy()


def test_a_0d_tensor_has_no_axis_to_index() -> None:
    x = it.asarray(3.0)
    assert x[()].item() == 3.0
    assert x[None].shape == (1,)
    assert x[...].item() == 3.0
    for key in (0, it.asarray(0), [0], slice(None)):
        with pytest.raises(AxisError, match="has 0"):
            x[key]
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(x)


def test_iteration_and_lists_of_tensors() -> None:
    x = it.arange(6).reshape(3, 2)
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    i = it.asarray(2)
    assert x[[i, it.asarray(0)]].tolist() == [[4, 5], [0, 1]]
    assert x[i].tolist() == [4, 5]
    assert x[range(2)].tolist() == [[0, 1], [2, 3]]
    assert x[np.int64(1), np.True_].tolist() == [[2, 3]]
    cell = it.Cell(it.arange(4))
    assert cell[1:3].tolist() == [1, 2]
    assert it.arange(4)[it.Cell(it.asarray([3, 0]))].tolist() == [3, 0]


@pytest.mark.parametrize("dtype", [it.int8, it.uint8, it.int32, it.uint64])
def test_every_integer_dtype_is_an_index(dtype: it.DType) -> None:
    x = it.asarray([10.0, 20.0, 30.0])
    index = it.asarray([2, 0], dtype=dtype)
    assert x[index].tolist() == [30.0, 10.0]
    assert it.take(x, index).tolist() == [30.0, 10.0]
    assert it.scatter_add(x, index, it.ones(2)).tolist() == [11.0, 20.0, 31.0]


@pytest.mark.parametrize("dtype", [it.float16, it.bfloat16, it.float32, it.complex64, it.int16])
@pytest.mark.parametrize("width", [3, 200])
def test_scatter_add_in_every_dtype(dtype: it.DType, width: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 5, 40)
    updates = rng.integers(-3, 4, (40, width)).astype(np.float64)
    expected = np.zeros((5, width))
    np.add.at(expected, rows, updates)
    got = it.scatter_add(it.zeros((5, width), dtype=dtype), rows, it.asarray(updates).astype(dtype))
    assert got.dtype is dtype
    np.testing.assert_array_equal(got.numpy().real.astype(np.float64), expected)


def test_scatter_is_deterministic_and_the_last_update_stays() -> None:
    rng = np.random.default_rng(1)
    rows = it.asarray(rng.integers(0, 7, 500))
    updates = it.asarray(rng.normal(size=(500, 4)).astype(np.float32))
    first = it.scatter_add(it.zeros((7, 4)), rows, updates).numpy()
    for _ in range(5):
        again = it.scatter_add(it.zeros((7, 4)), rows, updates).numpy()
        assert same_bits(again, first)
    last = np.zeros((7, 4), np.float32)
    for row, update in zip(rows.tolist(), updates.numpy(), strict=True):
        last[row] = update
    np.testing.assert_array_equal(it.scatter_set(it.zeros((7, 4)), rows, updates).numpy(), last)


def test_scatter_refuses() -> None:
    x = it.zeros((3, 2))
    with pytest.raises(ShapeError, match=r"updates must have shape \(2, 2\)"):
        it.scatter_add(x, [0, 1], it.zeros((2, 3)))
    with pytest.raises(DTypeError, match="updates must have the dtype float32"):
        it.scatter_set(x, [0], it.zeros((1, 2), dtype="float64"))
    with pytest.raises(OutOfRangeError, match="hold 3, but axis 0 has size 3"):
        it.scatter_add(x, [3], it.zeros((1, 2))).numpy()
    with pytest.raises(DTypeError, match="must be numbers, got bool"):
        it.scatter_add(it.zeros(2, dtype=bool), [0], it.zeros(1, dtype=bool))
    with pytest.raises(AxisError, match="axis=2"):
        it.scatter_add(x, [0], x, axis=2)


def test_take_and_take_along_axis() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4, 5))
    t = it.asarray(x)
    for axis, n in enumerate(x.shape):
        for shape in ((), (2,), (2, 3), (0,)):
            index = rng.integers(-n, n, shape)
            got = it.take(t, it.asarray(index), axis=axis)
            np.testing.assert_array_equal(got.numpy(), np.take(x, index, axis=axis))
        index = rng.integers(-n, n, (*x.shape[:axis], 2, *x.shape[axis + 1 :]))
        got = it.take_along_axis(t, index, axis=axis)
        np.testing.assert_array_equal(got.numpy(), np.take_along_axis(x, index, axis))
    spread = it.take_along_axis(t, it.asarray([[[0]], [[1]], [[2]]]), axis=2)
    np.testing.assert_array_equal(spread.numpy()[..., 0], x[np.arange(3), :, np.arange(3)])


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: it.take(X, [0]), ArgumentError, "axis must be given"),
        (lambda: it.take(X, [3], axis=1), OutOfRangeError, "hold 3, but axis 1 has size 3"),
        (lambda: it.take(X, it.asarray([0.5]), axis=0), DTypeError, "got float32"),
        (lambda: it.take(X, it.asarray([True]), axis=0), DTypeError, r"with x\[mask\]"),
        (lambda: it.take(X, [0.5], axis=0), DTypeError, "must be integers, got float64"),
        (lambda: it.take(X[:0], [0], axis=0), OutOfRangeError, "has no elements"),
        (lambda: it.take([1, 2], [0]), OperandError, "x must be a tensor"),
        (lambda: it.take_along_axis(X, [0]), ShapeError, "as many axes as x"),
        (lambda: it.take_along_axis(X, [[[4]]]), OutOfRangeError, "axis 2 has size 4"),
        (lambda: it.take_along_axis(X, np.zeros((2, 2, 1), int)), ShapeError, "do not broadcast"),
        (
            lambda: ravel_index([it.asarray([5])], (5,), called="f"),
            OutOfRangeError,
            "f: the indices hold 5, but axis 0 has size 5",
        ),
        (lambda: ravel_index([], (), called="f"), ShapeError, "f: indices must have"),
    ],
)
def test_gathering_refuses(call: Any, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call().numpy()


def test_bodies_equal_the_kernels() -> None:
    """What a backend without kernels of these names computes."""
    from ingle.tensor.operation import OPERATIONS

    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 3, (4, 1)), rng.integers(-5, 5, (6,))
    body = OPERATIONS["ravel_index"].body
    assert body is not None
    got = body(it.asarray(a), it.asarray(b), sizes=(3, 5), axes=(0, 1), called="f")
    assert got.tolist() == ((a % 3) * 5 + b % 5).tolist()
    outside = body(it.asarray([3, -6]), it.asarray([0, 0]), sizes=(3, 5), axes=(0, 1), called="f")
    assert outside.tolist() == [15, 15]
    for shape in ((7,), (3, 4), (2, 0)):
        x = rng.integers(0, 2, shape)
        body = OPERATIONS["nonzero"].body
        assert body is not None
        np.testing.assert_array_equal(body(it.asarray(x)).numpy(), np.array(np.nonzero(x)))
