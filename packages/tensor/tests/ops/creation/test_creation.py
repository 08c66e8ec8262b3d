"""Tensors from values, ranges and other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.dtypes import ALL_DTYPES
from ingle.tensor.errors import ArgumentError, DTypeError, OperandError, ShapeError

STEPS = [
    (0, 10, 1), (0, 10, 3), (10, 0, -3), (5, 5, 1), (0, 5, -1), (0.0, 1.0, 0.1), (0.5, 5.5, 0.5),
    (1, 0, -0.1), (0, 1, 0.3), (-3, 3, 0.7), (0.0, 1e-3, 1e-4), (1, 1.3, 0.1), (0, 2.1, 0.3),
]  # fmt: skip


@pytest.mark.parametrize(("start", "stop", "step"), STEPS)
def test_arange_equals_numpy(start: Any, stop: Any, step: Any) -> None:
    got = it.arange(start, stop, step)
    expected = np.arange(start, stop, step)
    assert got.shape == expected.shape
    assert got.dtype is (it.int64 if expected.dtype.kind == "i" else it.float32)
    wide = it.arange(start, stop, step, dtype=it.float64)
    np.testing.assert_allclose(wide.numpy(), expected, rtol=1e-14, atol=1e-15)


def test_arange_counts_exactly_far_out() -> None:
    assert it.arange(2**62, 2**62 + 3).tolist() == [2**62, 2**62 + 1, 2**62 + 2]
    top = it.arange(2**64 - 2, 2**64 - 5, -1, dtype=it.uint64)
    assert top.tolist() == [2**64 - 2, 2**64 - 3, 2**64 - 4]
    assert it.arange(5, 0, -2, dtype=it.uint8).tolist() == [5, 3, 1]
    assert it.arange(-2, 1, dtype=it.int8).tolist() == [-2, -1, 0]
    assert it.arange(3, dtype=it.complex64).tolist() == [0, 1, 2]


def test_small_and_large_integers_in_one_list_are_exact_as_uint64() -> None:
    """NumPy makes floats of a list in which some numbers need int64 and others uint64."""
    far = 2**64 - 700
    assert it.asarray([5, far], dtype=it.uint64).tolist() == [5, far]
    assert it.asarray([[5], [far]], dtype=it.uint64).tolist() == [[5], [far]]
    assert it.asarray([np.int64(5), far], dtype=it.uint64).tolist() == [5, far]
    assert it.asarray([5.5, 2.0], dtype=it.uint64).tolist() == [5, 2]
    with pytest.raises(DTypeError, match="the number -1 does not fit uint64"):
        it.asarray([-1, far], dtype=it.uint64)
    with pytest.raises(DTypeError, match="the number -3 does not fit uint64"):
        it.asarray([np.int64(-3), np.uint64(far)], dtype=it.uint64)


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "match"),
    [
        ((0, 1, 0), {}, ArgumentError, "step must not be 0"),
        ((float("nan"),), {}, ArgumentError, "must be finite"),
        ((0, float("inf")), {}, ArgumentError, "stop must be finite"),
        (("a",), {}, OperandError, "must be a real number"),
        ((1j,), {}, OperandError, "must be a real number"),
        ((2,), {"dtype": bool}, DTypeError, "bool has no ranges"),
        ((2**63,), {}, ArgumentError, "more elements than memory"),
    ],
)
def test_arange_refuses(args: Any, kwargs: Any, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        it.arange(*args, **kwargs)


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 7, 50])
def test_linspace_equals_numpy(num: int, endpoint: bool) -> None:
    for start, stop in ((0, 1), (-1.5, 2.7), (3, -3), (2, 2)):
        got = it.linspace(start, stop, num, endpoint=endpoint, dtype=it.float64)
        expected = np.linspace(start, stop, num, endpoint=endpoint)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-15, atol=1e-15)
        if endpoint and num > 1:
            assert got[-1].item() == stop
    assert it.linspace(0, 1, num).dtype is it.float32
    waves = it.linspace(0, 1j, num, endpoint=endpoint)
    assert waves.dtype is it.complex64
    np.testing.assert_allclose(waves.numpy(), np.linspace(0, 1j, num, endpoint=endpoint), rtol=1e-6)


def test_linspace_refuses() -> None:
    with pytest.raises(ArgumentError, match="num must not be negative"):
        it.linspace(0, 1, -1)
    with pytest.raises(DTypeError, match="must be float or complex"):
        it.linspace(0, 1, 3, dtype=it.int32)
    with pytest.raises(DTypeError, match="must be complex"):
        it.linspace(0, 1j, 3, dtype=it.float32)
    with pytest.raises(OperandError, match="start must be a number"):
        it.linspace("a", 1, 3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="num must be an integer"):
        it.linspace(0, 1, 3.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid_equals_numpy(indexing: str) -> None:
    for sizes in ((3,), (3, 2), (2, 3, 4), (0, 2), ()):
        axes = [np.arange(n) for n in sizes]
        got = it.meshgrid(*[it.asarray(a) for a in axes], indexing=indexing)
        expected = np.meshgrid(*axes, indexing=indexing)  # type: ignore[call-overload]
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            np.testing.assert_array_equal(g.numpy(), e)


def test_meshgrid_refuses() -> None:
    with pytest.raises(ArgumentError, match="'xy' or 'ij'"):
        it.meshgrid(it.arange(2), indexing="yx")
    with pytest.raises(ShapeError, match=r"arrays\[1\] must have one axis"):
        it.meshgrid(it.arange(2), it.zeros((2, 2)))
    with pytest.raises(DTypeError, match="one dtype"):
        it.meshgrid(it.arange(2), it.zeros(2))


@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_full_and_its_kin(dtype: it.DType) -> None:
    for shape in ((), 3, (2, 0), (2, 3)):
        for made, value in ((it.zeros, 0), (it.ones, 1), (it.empty, 0)):
            x = made(shape, dtype=dtype)
            assert x.dtype is dtype
            np.testing.assert_array_equal(x.numpy(), np.full(shape, value, dtype.dtype))
    like = it.full((2,), 1, dtype=dtype)
    for made_like, value in ((it.zeros_like, 0), (it.ones_like, 1), (it.empty_like, 0)):
        assert made_like(like).dtype is dtype
        assert made_like(like).tolist() == [value] * 2
    assert it.full_like(like, 1, dtype=it.float32).dtype is it.float32


def test_full_of_a_tensor() -> None:
    value = it.asarray(3, dtype=it.int32).astype(it.float64).require_grad()
    x = it.full((2, 2), value)
    assert x.dtype is it.float64
    assert x.tolist() == [[3, 3], [3, 3]]
    assert x.sum().backward()[value].item() == 4
    assert it.full(2, value, dtype=it.int8).dtype is it.int8


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: it.full(2, 300, dtype=it.uint8), DTypeError, "fill_value=300 does not fit uint8"),
        (lambda: it.full(2, 1.5, dtype=it.int32), DTypeError, "does not fit int32"),
        (lambda: it.full(2, 1j, dtype=it.float32), DTypeError, "does not fit float32"),
        (lambda: it.full(2, it.ones(1)), OperandError, "a number or a 0-d tensor"),
        (lambda: it.full(2, "1"), OperandError, "fill_value must be a tensor"),
        (lambda: it.zeros(-1), ShapeError, "must not have a negative size"),
        (lambda: it.zeros((2, 1.5)), ArgumentError, "must be an integer"),
        (lambda: it.zeros(2, dtype="float31"), DTypeError, "is no dtype"),
        (lambda: it.eye(-1), ShapeError, "n_rows must be from 0"),
        (lambda: it.eye(2, k=0.5), ArgumentError, "k must be an integer"),
    ],
)
def test_creation_refuses(call: Any, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def test_a_scalar_takes_its_own_dtype() -> None:
    assert it.full(1, True).dtype is it.bool
    assert it.full(1, 1).dtype is it.int64
    assert it.full(1, 1.0).dtype is it.float32
    assert it.full(1, 1j).dtype is it.complex64
    assert it.full(1, np.float64(2)).tolist() == [2.0]


def test_eye_equals_numpy() -> None:
    for n, m, k in ((3, None, 0), (3, 5, 1), (5, 3, -2), (0, 3, 0), (2, 2, 7)):
        np.testing.assert_array_equal(it.eye(n, m, k=k).numpy(), np.eye(n, m, k))
    assert it.eye(2, dtype=it.bool).tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize("k", [-5, -1, 0, 1, 3, 9])
def test_triangles_and_diagonals_equal_numpy(k: int) -> None:
    rng = np.random.default_rng(0)
    for shape in ((3, 3), (2, 5), (5, 2), (2, 3, 4), (0, 3)):
        x = rng.normal(size=shape)
        np.testing.assert_array_equal(it.tril(it.asarray(x), k=k).numpy(), np.tril(x, k))
        np.testing.assert_array_equal(it.triu(it.asarray(x), k=k).numpy(), np.triu(x, k))
        if abs(k) <= max(shape[-2:]):
            got = it.diagonal(it.asarray(x), offset=k)
            np.testing.assert_array_equal(got.numpy(), np.diagonal(x, k, -2, -1))
    mask = it.tril(it.ones((2, 2), dtype=it.bool), k=k)
    assert mask.dtype is it.bool


def test_triangles_need_matrices() -> None:
    for function in (it.tril, it.triu, it.diagonal):
        with pytest.raises(ShapeError, match=r"at least 2 axes, got shape \(3,\)"):
            function(it.zeros(3))


def test_infinities_outside_of_a_triangle_are_gone() -> None:
    x = it.full((2, 2), float("inf"))
    assert it.tril(x).tolist() == [[float("inf"), 0.0], [float("inf"), float("inf")]]


def test_one_hot() -> None:
    torch = pytest.importorskip("torch")
    labels = np.array([[0, 2], [1, 4]])
    expected = torch.nn.functional.one_hot(torch.tensor(labels), 5).numpy()
    got = it.one_hot(it.asarray(labels), 5)
    assert got.dtype is it.float32
    np.testing.assert_array_equal(got.numpy(), expected)
    first = it.one_hot(it.asarray(labels), 5, axis=0, dtype=it.int8)
    np.testing.assert_array_equal(first.numpy(), np.moveaxis(expected, -1, 0))
    assert it.one_hot(it.zeros((0,), dtype=it.int64), 3).shape == (0, 3)


@pytest.mark.parametrize(
    ("labels", "count", "error", "match"),
    [
        ([0, 3], 3, IndexError, "hold 3, but with num_classes=3 valid are 0 to 2"),
        ([-1], 3, IndexError, "hold -1"),
        ([0.5], 3, DTypeError, "must be integers, got float32"),
        ([0], 0, ArgumentError, "at least 1"),
    ],
)
def test_one_hot_refuses(labels: Any, count: int, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        it.one_hot(it.asarray(labels), count).numpy()


def test_asarray_of_numbers_and_lists() -> None:
    assert it.asarray(3).dtype is it.int64
    assert it.asarray(3.0).dtype is it.float32
    assert it.asarray([True]).dtype is it.bool
    assert it.asarray([1j]).dtype is it.complex64
    assert it.asarray([]).dtype is it.float32
    assert it.asarray([[]]).shape == (1, 0)
    assert it.asarray(np.arange(3, dtype=np.int16)).dtype is it.int16
    # No detour through the default dtype.
    assert it.asarray(0.1, dtype=it.float64).item() == 0.1
    with it.default_dtypes(floating=it.float64, integer=it.int32):
        assert it.asarray([0.1]).item() == 0.1
        assert it.asarray([1]).dtype is it.int32
    big = np.arange(3, dtype=">i4")
    assert it.asarray(big).tolist() == [0, 1, 2]


def test_asarray_copies() -> None:
    source = np.zeros(3)
    x = it.asarray(source)
    source[0] = 1
    assert x.tolist() == [0.0, 0.0, 0.0]
    shown = x.numpy()
    with pytest.raises(ValueError, match="read-only"):
        shown[0] = 1


def test_asarray_stacks_tensors() -> None:
    a, b = it.asarray([1.0, 2.0]).require_grad(), it.Cell(it.asarray([3.0, 4.0]))
    x = it.asarray([a, b, [5, 6]])
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert it.sum(x * x).backward()[a].tolist() == [2.0, 4.0]
    assert it.asarray([[it.asarray(1), 2], [3, it.asarray(4)]]).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ShapeError, match="all shapes must be equal"):
        it.asarray([a, [1.0]])


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: it.asarray([[1], [1, 2]]), OperandError, "cannot make a tensor"),
        (lambda: it.asarray([object()]), OperandError, "no numbers"),
        (lambda: it.asarray([2**70]), OperandError, "too large"),
        (lambda: it.asarray("abc"), DTypeError, "no dtype"),
        (lambda: it.asarray([300], dtype=it.uint8), DTypeError, "300 does not fit uint8"),
        (lambda: it.asarray([-1], dtype=it.uint8), DTypeError, "-1 does not fit uint8"),
        (lambda: it.asarray([1j], dtype=it.float32), DTypeError, "imaginary"),
        (lambda: it.asarray([1], copy=False), ArgumentError, "copy=False"),
        (lambda: it.from_dlpack([1]), OperandError, "no __dlpack__"),
        (lambda: it.asarray(np.ones(1), dtype=it.int8, copy=False), ArgumentError, "to be cast"),
    ],
)
def test_asarray_refuses(call: Any, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def test_array_namespace() -> None:
    x = it.ones(2)
    assert x.__array_namespace__() is it
    assert x.__array_namespace__(api_version="2025.12") is it
    with pytest.raises(ArgumentError, match="1999"):
        x.__array_namespace__(api_version="1999.12")
