"""Operations by CuPy, which NumPy plays: sorts, transforms, decompositions, complex numbers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from host_gpu import HostBackend, HostGpu, opened

import ingle.tensor as it
from ingle.tensor.device import device
from ingle.tensor.errors import LinearAlgebraError
from ingle.tensor.operation import OPERATIONS
from ingle.testkit.bits import same_bits
from ingle_cuda.arrays import complex_numbers

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
NUMBERS = ("float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "uint64")


@pytest.fixture
def played(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    return opened(HostGpu(folder), "played", monkeypatch)


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = np.dtype(dtype if dtype != "bfloat16" else ml_dtypes.bfloat16)
    if kind.kind in "iu":
        ends = np.iinfo(kind)
        few = rng.integers(0, 5, shape).astype(kind)
        return np.where(rng.random(shape) < 0.5, few, rng.integers(ends.min, ends.max, shape, kind))
    x = rng.choice([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 3.0e4], shape)
    return np.where(rng.random(shape) < 0.5, x, rng.standard_normal(shape)).astype(kind)


def _places(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """By a stable sort of Python's, where NaN is larger than all numbers."""

    def key(value: Any) -> tuple[bool, Any]:
        missing = bool(value != value)
        return missing, 0 if missing else value

    def row(values: np.ndarray) -> np.ndarray:
        items = [key(v) for v in values.tolist()]
        return np.asarray(sorted(range(len(items)), key=items.__getitem__, reverse=False))

    if not descending:
        return np.apply_along_axis(row, axis, x)
    turned = np.apply_along_axis(row, axis, np.flip(x, axis))
    return x.shape[axis] - 1 - np.flip(turned, axis)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", NUMBERS)
def test_places_are_those_of_a_stable_sort(played: HostBackend, dtype: str) -> None:
    rng = np.random.default_rng(NUMBERS.index(dtype))
    for shape, axis in (((40,), 0), ((3, 17), 1), ((33, 2, 3), 0), ((1, 129), -1)):
        x = _numbers(rng, shape, dtype)
        for descending in (False, True):
            found = it.argsort(it.asarray(x, device="played"), axis=axis, descending=descending)
            places = _places(x, axis, descending)
            np.testing.assert_array_equal(np.asarray(found), places)
            ordered = it.sort(it.asarray(x, device="played"), axis=axis, descending=descending)
            expected = np.take_along_axis(x, places, axis)
            assert same_bits(np.asarray(ordered), expected)
    assert not played.host_fallbacks


def test_rows_beyond_the_bits_of_a_word_are_sorted_twice(played: HostBackend) -> None:
    x = np.random.default_rng(0).integers(-3, 3, (5, 70))
    view = it.asarray(x, device="played")[::-1, ::2]
    np.testing.assert_array_equal(np.asarray(it.argsort(view)), _places(x[::-1, ::2], 1, False))


@pytest.mark.slow
def test_what_rests_on_places_stays_on_the_device(played: HostBackend) -> None:
    x = np.random.default_rng(1).standard_normal(300).astype(np.float32)
    here = it.asarray(x, device="played")
    np.testing.assert_array_equal(np.asarray(it.sort(here)), np.sort(x))
    values, places = it.topk(here, 7)
    np.testing.assert_array_equal(np.asarray(values), np.sort(x)[::-1][:7])
    np.testing.assert_array_equal(x[np.asarray(places)], np.asarray(values))
    np.testing.assert_array_equal(np.asarray(here[here > 0]), x[x > 0])
    np.testing.assert_array_equal(np.asarray(it.unique_values(here)), np.unique(x))
    with device("played"):
        assert sorted(it.random.permutation(100).tolist()) == list(range(100))
    assert not played.host_fallbacks


def test_transforms_and_complex_numbers_stay_on_the_device(played: HostBackend) -> None:
    rng = np.random.default_rng(2)
    x, filter_ = rng.standard_normal((2, 3, 32))
    a, b = it.asarray(x, device="played"), it.asarray(filter_, device="played")
    product = it.fft.rfft(a) * it.fft.rfft(b)
    expected = np.fft.rfft(x) * np.fft.rfft(filter_)
    np.testing.assert_allclose(np.asarray(product), expected, rtol=1e-12)
    back = it.fft.irfft(product, n=32)
    np.testing.assert_allclose(np.asarray(back), np.fft.irfft(expected, n=32), atol=1e-12)
    turned = it.fft.fftn(a, axes=(-2, -1))[:, ::-1]
    np.testing.assert_allclose(
        np.asarray(it.sum(it.abs(turned) * it.real(turned), axis=1)),
        np.sum(np.abs(np.fft.fft2(x)) * np.fft.fft2(x).real, axis=1), rtol=1e-9,
    )  # fmt: skip
    assert not played.host_fallbacks


def test_a_result_that_is_a_view_has_memory_of_its_own(played: HostBackend) -> None:
    z = it.asarray(np.asarray([1 + 2j, 3 - 4j]), device="played")
    part = it.real(z)
    part[0] = 9.0
    assert z.tolist() == [1 + 2j, 3 - 4j]
    assert part.tolist() == [9.0, 3.0]


@pytest.mark.slow
def test_systems_are_solved_on_the_device(played: HostBackend) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 6, 6))
    good = x @ x.swapaxes(-1, -2) + 6 * np.eye(6)
    right = rng.standard_normal((6, 2))
    a, b = it.asarray(good, device="played"), it.asarray(right, device="played")
    lower = it.linalg.cholesky(a)
    np.testing.assert_allclose(np.asarray(lower @ lower.mT), good, rtol=1e-10)
    np.testing.assert_allclose(
        np.asarray(it.linalg.solve(a[0], b)), np.linalg.solve(good[0], right)
    )
    values, vectors = it.linalg.eigh(a)
    np.testing.assert_allclose(np.asarray(vectors * values[:, None] @ vectors.mT), good, rtol=1e-9)
    np.testing.assert_allclose(np.asarray(it.linalg.inv(a)), np.linalg.inv(good), rtol=1e-9)
    assert not played.host_fallbacks


def test_what_has_no_solution_is_told_by_the_host(played: HostBackend) -> None:
    bad = it.asarray(np.ones((3, 3)), device="played")
    for function in (it.linalg.cholesky, it.linalg.inv):
        with pytest.raises(LinearAlgebraError, match=r"of shape \(3, 3\)"):
            function(bad).tolist()
    with pytest.raises(LinearAlgebraError, match="eigh"):
        it.linalg.eigh(it.asarray(np.full((3, 3), np.nan), device="played"))[0].tolist()
    assert not played.host_fallbacks


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_quotients_are_those_of_numpy(played: HostBackend, dtype: str) -> None:
    rng = np.random.default_rng(0)
    parts = rng.choice([0.0, -0.0, 1.0, -2.5, 1e-30, 1e30, np.inf, np.nan], (4, 200))
    x, y = (parts[:2] + 1j * parts[2:]).astype(dtype)
    found = np.asarray(it.asarray(x, device="played") / it.asarray(y, device="played"))
    expected = x / y
    np.testing.assert_allclose(found.real, expected.real, rtol=1e-6)
    np.testing.assert_allclose(found.imag, expected.imag, rtol=1e-6)
    assert not played.host_fallbacks


def test_sums_of_complex_numbers_do_not_depend_on_strides() -> None:
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((300, 7)) + 1j * rng.standard_normal((300, 7))).astype(np.complex64)
    turned = np.asfortranarray(x)
    total = OPERATIONS["sum"].op(axis=(0,), keepdims=False)
    product = OPERATIONS["matmul"].op()
    for op, others in ((total, ()), (product, (np.asfortranarray(x[:7].T),))):
        call = complex_numbers.CALLS[op.operation.name]
        found = [call(np, op, one, *others) for one in (x, turned)]
        assert same_bits(found[0], found[1]), op


@pytest.mark.filterwarnings("ignore::ingle.tensor.eager.HostFallbackWarning")
def test_many_small_decompositions_are_the_hosts(played: HostBackend) -> None:
    x = it.asarray(np.random.default_rng(4).standard_normal((2, 5, 3)), device="played")
    q, r = it.linalg.qr(x)
    np.testing.assert_allclose(np.asarray(q @ r), np.asarray(x), rtol=1e-12, atol=1e-12)
    assert set(played.host_fallbacks) == {"qr"}


def test_memory_goes_back_to_the_pool(played: HostBackend) -> None:
    x = it.asarray(np.random.default_rng(5).standard_normal(1000), device="played")
    it.argsort(x).tolist()
    before = played.memory().statistics().in_use
    for _ in range(3):
        it.argsort(x).tolist()
    assert played.memory().statistics().in_use == before
