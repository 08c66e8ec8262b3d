"""Products of matrices and vectors against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import AxisError, DTypeError, OperandError, ShapeError

PAIRS = [
    ((2, 3), (3, 5)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((4, 2, 3), (3, 5)),
    ((4, 2, 3), (4, 3, 5)), ((4, 1, 2, 3), (5, 3, 2)), ((2, 0), (0, 3)), ((0, 2), (2, 3)),
    ((2, 3, 0), (0, 5)), ((3,), (2, 3, 5)), ((0, 2, 3), (3, 1)),
]  # fmt: skip


def values(shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    if np.dtype(dtype).kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return (rng.normal(size=shape) * 3).astype(dtype)


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.int32])
def test_matmul_equals_numpy(a: Any, b: Any, dtype: Any) -> None:
    x, y = values(a, dtype), values(b, dtype)
    got = it.asarray(x) @ it.asarray(y)
    expected = np.matmul(x, y)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [it.float16, it.bfloat16])
def test_half_types_are_summed_in_float32(dtype: it.DType) -> None:
    x = it.ones((1, 3000), dtype=dtype)
    # The nearest number that the dtype has; a sum in the dtype itself stops growing before.
    assert (x @ x.T).item() == float(np.float32(3000).astype(dtype.dtype))
    assert (x @ x.T).dtype is dtype


def test_strides_do_not_matter() -> None:
    x, y = values((4, 6)), values((5, 6, 4))
    expected = np.matmul(y.transpose(0, 2, 1)[:, ::-1], x.T[::2][:3].repeat(2, 0))
    ty = it.permute_dims(it.asarray(y), (0, 2, 1))[:, ::-1]
    tx = it.repeat(it.asarray(x).T[::2][:3], 2, axis=0)
    np.testing.assert_allclose((ty @ tx).numpy(), expected, rtol=1e-12)


def test_the_gradient_of_an_empty_inner_axis() -> None:
    x = it.zeros((2, 3, 0)).require_grad()
    w = it.zeros((0, 5)).require_grad()
    grads = it.sum(x @ w).backward()
    assert grads[x].shape == (2, 3, 0)
    assert grads[w].shape == (0, 5)


@pytest.mark.parametrize("axes", [0, 1, 2, ((0, 2), (1, 0)), ((-1,), (0,)), ((), ())])
def test_tensordot_equals_numpy(axes: Any) -> None:
    if axes == 2:
        x, y = values((5, 3, 4)), values((3, 4, 2))
    elif axes == ((0, 2), (1, 0)):
        x, y = values((3, 2, 4)), values((4, 3, 5))
    else:
        x, y = values((2, 3, 4)), values((4, 3))
    got = it.tensordot(it.asarray(x), it.asarray(y), axes=axes)
    expected = np.tensordot(x, y, axes=axes)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.int8])
def test_vecdot_equals_numpy(dtype: Any) -> None:
    for a, b, axis in (((3,), (3,), -1), ((2, 3), (3,), -1), ((4, 1, 3), (5, 3), -1),
                       ((3, 2), (3, 1), -2), ((0,), (0,), -1)):  # fmt: skip
        x, y = values(a, dtype), values(b, dtype)
        got = it.vecdot(it.asarray(x), it.asarray(y), axis=axis)
        expected = np.linalg.vecdot(x, y, axis=axis)
        assert got.dtype.dtype == x.dtype
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_outer_and_matrix_transpose() -> None:
    x, y = values((3,)), values((4,))
    np.testing.assert_allclose(it.outer(it.asarray(x), it.asarray(y)).numpy(), np.outer(x, y))
    z = values((2, 3, 4))
    np.testing.assert_array_equal(it.matrix_transpose(it.asarray(z)).numpy(), z.swapaxes(1, 2))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: it.ones((2, 3)) @ it.ones((2, 3)), ShapeError, "inner sizes differ"),
        (lambda: it.ones((2, 2, 3)) @ it.ones((3, 3, 1)), ShapeError, "do not broadcast"),
        (lambda: it.ones(()) @ it.ones(3), ShapeError, "at least one axis each"),
        (lambda: it.matmul(it.ones(3), 2), OperandError, "x2 must be a tensor"),
        (
            lambda: it.ones((2, 2), dtype=bool) @ it.ones((2, 2), dtype=bool),
            DTypeError,
            "must be numbers",
        ),
        (lambda: it.matrix_transpose(it.ones(3)), ShapeError, "at least 2 axes"),
        (lambda: it.tensordot(it.ones((2, 3)), it.ones((2, 4)), axes=1), ShapeError, "equal sizes"),
        (lambda: it.tensordot(it.ones(2), it.ones(2), axes=2), AxisError, r"axes of x1 \(1\)"),
        (lambda: it.tensordot(it.ones(2), it.ones(2), axes=((0,), ())), AxisError, "as many"),
        (lambda: it.vecdot(it.ones(2), it.ones(3)), ShapeError, "differ in size"),
        (lambda: it.vecdot(it.ones(2), it.ones(2), axis=1), AxisError, "axis=1"),
        (lambda: it.outer(it.ones((2, 2)), it.ones(2)), ShapeError, "must have one axis"),
    ],
)
def test_products_refuse(call: Any, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize(("a", "b"), [((3,), (3, 2)), ((2, 3), (3,)), ((3,), (3,)), ((), (3, 2))])
def test_integer_products_take_matrices(a: Any, b: Any) -> None:
    x, y = it.ones(a, dtype=it.int8), it.ones(b, dtype=it.uint8)
    with pytest.raises(
        ShapeError, match=r"matmul_integer: x1 and x2 need at least two axes.* reshape"
    ):
        it.matmul_integer(x, y)
