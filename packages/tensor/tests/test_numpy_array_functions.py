"""NumPy's functions that are no universal ones, on tensors: operations, readings, or advice."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.tensor.errors import ArgumentError, IngleError, OperandError, ShapeError
from ingle.tensor.numpy_functions import _DESCRIBE, _READ, _WRITE
from ingle.tensor.numpy_meanings import MEANINGS
from ingle.tensor.numpy_table import CALLS

_DRAW = np.random.default_rng(0)


@dataclass
class Values:
    """What the calls below compute with: arrays, or tensors of the same values."""

    A: Any
    B: Any
    C: Any
    I: Any  # noqa: E741 (indices)
    P: Any
    S: Any
    Z: Any
    n: Any
    v: Any


def _values() -> Values:
    square = _DRAW.standard_normal((4, 4))
    missing = _DRAW.standard_normal((3, 4))
    missing[0, 1] = np.nan
    return Values(
        A=_DRAW.standard_normal((3, 4)),
        B=_DRAW.standard_normal((4, 3)),
        C=_DRAW.standard_normal((3, 4, 2)),
        I=np.array([2, 0, 1]),
        P=square @ square.T + np.eye(4),
        S=square,
        Z=square + 1j * square[::-1],
        n=missing,
        v=_DRAW.standard_normal(4),
    )


ARRAYS = _values()
TENSORS = Values(**{name: it.asarray(array) for name, array in vars(ARRAYS).items()})

CALLED: list[Callable[[Any], Any]] = [
    lambda a: np.all(a.A > 0, axis=1),
    lambda a: np.any(a.A > 0),
    lambda a: np.max(a.A, 1),
    lambda a: np.amax(a.A, axis=0, keepdims=True),
    lambda a: np.amin(a.A),
    lambda a: np.argmax(a.A, 1),
    lambda a: np.argmin(a.A),
    lambda a: np.append(a.A, a.A),
    lambda a: np.append(a.A, a.A, axis=0),
    lambda a: np.argsort(a.A),
    lambda a: np.argsort(a.A, axis=0, kind="stable"),
    lambda a: np.argsort(a.A, axis=None),
    lambda a: np.argwhere(a.A > 0),
    lambda a: np.around(a.A, 1),
    lambda a: np.round(a.A),
    lambda a: np.astype(a.A, np.float32),
    lambda a: np.average(a.A),
    lambda a: np.average(a.A, axis=1, weights=a.v),
    lambda a: np.average(a.A, weights=a.A),
    lambda a: np.bincount(a.I),
    lambda a: np.bincount(a.I, minlength=5),
    lambda a: np.broadcast_arrays(a.A, a.v),
    lambda a: np.broadcast_to(a.v, (2, 4)),
    lambda a: np.clip(a.A, -0.5, 0.5),
    lambda a: np.clip(a.A, a_min=0, a_max=None),
    lambda a: np.clip(a.A, min=0),
    lambda a: np.column_stack([a.v, a.v]),
    lambda a: np.hstack([a.A, a.A]),
    lambda a: np.vstack((a.v, a.A)),
    lambda a: np.dstack([a.A, a.A]),
    lambda a: np.concatenate([a.A, a.A]),
    lambda a: np.concatenate((a.A, a.A), axis=1),
    lambda a: np.concatenate([a.A, a.A], axis=None),
    lambda a: np.concat([a.A, a.A], 0),
    lambda a: np.compress(a.v > 0, a.A, axis=1),
    lambda a: np.compress(a.v > 0, a.v),
    lambda a: np.copy(a.A),
    lambda a: np.corrcoef(a.A),
    lambda a: np.count_nonzero(a.A > 0),
    lambda a: np.cov(a.A),
    lambda a: np.cov(a.A, ddof=0),
    lambda a: np.cross(a.A[:, :3], a.B[:3]),
    lambda a: np.cumsum(a.A),
    lambda a: np.cumsum(a.A, 1),
    lambda a: np.cumprod(a.A, axis=0),
    lambda a: np.cumulative_sum(a.v),
    lambda a: np.diag(a.v, 1),
    lambda a: np.diag(a.S),
    lambda a: np.diagflat(a.A[:2, :2]),
    lambda a: np.diagonal(a.C),
    lambda a: np.diagonal(a.C, 1, 1, 2),
    lambda a: np.diff(a.A),
    lambda a: np.diff(a.A, 2, 0),
    lambda a: np.digitize(a.v, np.sort(a.v)),
    lambda a: np.dot(a.A, a.B),
    lambda a: np.dot(a.v, a.v),
    lambda a: np.dot(a.A, a.v),
    lambda a: np.dot(2.0, a.A),
    lambda a: np.dot(a.C, a.S[:2]),
    lambda a: np.dot(a.v, a.B),
    lambda a: np.einsum("ij,jk->ik", a.A, a.B),
    lambda a: np.einsum("ii", a.S, optimize=True),
    lambda a: np.expand_dims(a.A, 0),
    lambda a: np.extract(a.A > 0, a.A),
    lambda a: np.fix(a.A),
    lambda a: np.flatnonzero(a.A > 0),
    lambda a: np.flip(a.A),
    lambda a: np.flip(a.A, 1),
    lambda a: np.fliplr(a.A),
    lambda a: np.flipud(a.A),
    lambda a: np.full_like(a.A, 3.0),
    lambda a: np.zeros_like(a.A),
    lambda a: np.ones_like(a.A, dtype=np.float32),
    lambda a: np.gradient(a.v),
    lambda a: np.gradient(a.A),
    lambda a: np.gradient(a.v, 0.5),
    lambda a: np.gradient(a.A, axis=1),
    lambda a: np.histogram(a.v, 3),
    lambda a: np.i0(a.v),
    lambda a: np.imag(a.Z),
    lambda a: np.real(a.Z),
    lambda a: np.angle(a.Z),
    lambda a: np.angle(a.Z, deg=True),
    lambda a: np.inner(a.A, a.A),
    lambda a: np.inner(a.v, a.v),
    lambda a: np.isclose(a.A, a.A + 1e-9),
    lambda a: np.isin(a.I, a.I[:1]),
    lambda a: np.iscomplex(a.Z),
    lambda a: np.isreal(a.Z),
    lambda a: np.isneginf(a.A),
    lambda a: np.isposinf(a.A),
    lambda a: np.kron(a.A, a.B),
    lambda a: np.matrix_transpose(a.C),
    lambda a: np.mean(a.A),
    lambda a: np.mean(a.A, 0),
    lambda a: np.median(a.A),
    lambda a: np.median(a.A, axis=1, keepdims=True),
    lambda a: np.meshgrid(a.v, a.v * 2),
    lambda a: np.meshgrid(a.v, a.v * 2, indexing="ij"),
    lambda a: np.moveaxis(a.C, 0, -1),
    lambda a: np.nan_to_num(a.n),
    lambda a: np.nan_to_num(a.n, nan=2.0),
    lambda a: np.nanmean(a.n, 1),
    lambda a: np.nanmedian(a.n),
    lambda a: np.nansum(a.n),
    lambda a: np.nanquantile(a.n, 0.3),
    lambda a: np.nonzero(a.A > 0),
    lambda a: np.outer(a.A, a.v),
    lambda a: np.pad(a.A, 1),
    lambda a: np.pad(a.A, ((1, 1), (0, 2)), constant_values=3),
    lambda a: np.pad(a.A, 1, mode="wrap"),
    lambda a: np.pad(a.v, (1, 2), "edge"),
    lambda a: np.percentile(a.A, 30),
    lambda a: np.percentile(a.A, [25, 75], axis=0),
    lambda a: np.quantile(a.A, 0.3),
    lambda a: np.quantile(a.A, [0.2, 0.3], 1, method="nearest"),
    lambda a: np.nanpercentile(a.n, 30),
    lambda a: np.permute_dims(a.C, (2, 0, 1)),
    lambda a: np.polyval(a.v, a.A),
    lambda a: np.polyval([1.0, 2.0, 3.0], a.A),
    lambda a: np.prod(a.A, 1),
    lambda a: np.ptp(a.A),
    lambda a: np.ptp(a.A, axis=0),
    lambda a: np.ravel(a.A),
    lambda a: np.repeat(a.A, 2),
    lambda a: np.repeat(a.A, 2, axis=1),
    lambda a: np.repeat(a.A, [1, 0, 2], 0),
    lambda a: np.reshape(a.A, (2, 6)),
    lambda a: np.reshape(a.A, -1),
    lambda a: np.reshape(a.A, shape=(12,)),
    lambda a: np.roll(a.A, 1),
    lambda a: np.roll(a.A, 1, axis=0),
    lambda a: np.rot90(a.A),
    lambda a: np.searchsorted(np.sort(a.v), a.A),
    lambda a: np.searchsorted(np.sort(a.v), a.A, "right"),
    lambda a: np.select([a.A > 0, a.A < -1], [a.A, 2 * a.A]),
    lambda a: np.select([a.A > 0, a.A < -1], [a.A, 2 * a.A], default=7.0),
    lambda a: np.sinc(a.A),
    lambda a: np.sort(a.A),
    lambda a: np.sort(a.A, 0),
    lambda a: np.sort(a.A, axis=None),
    lambda a: np.split(a.A, 3),
    lambda a: np.split(a.A, [1, 3], axis=1),
    lambda a: np.array_split(a.v, 3),
    lambda a: np.hsplit(a.A, 2),
    lambda a: np.vsplit(a.A, 3),
    lambda a: np.dsplit(a.C, 2),
    lambda a: np.squeeze(a.A[None]),
    lambda a: np.stack([a.A, a.A], axis=-1),
    lambda a: np.stack((a.A, a.A)),
    lambda a: np.std(a.A),
    lambda a: np.var(a.A, 1, ddof=1),
    lambda a: np.std(a.A, axis=0, correction=1, keepdims=True),
    lambda a: np.sum(a.A),
    lambda a: np.sum(a.A, axis=(0, 1)),
    lambda a: np.sum(a.A, 0, np.float32),
    lambda a: np.swapaxes(a.C, 0, 2),
    lambda a: np.take(a.A, a.I),
    lambda a: np.take(a.A, a.I, axis=1),
    lambda a: np.take_along_axis(a.A, np.argsort(a.A, axis=1), axis=1),
    lambda a: np.take_along_axis(a.A, np.argsort(a.A, axis=0), 0),
    lambda a: np.tensordot(a.A, a.B, 1),
    lambda a: np.tensordot(a.A, a.A, axes=([0, 1], [0, 1])),
    lambda a: np.tile(a.A, (2, 1)),
    lambda a: np.tile(a.v, 2),
    lambda a: np.trace(a.S),
    lambda a: np.trace(a.C, axis1=1, axis2=2),
    lambda a: np.transpose(a.C),
    lambda a: np.transpose(a.C, (1, 0, 2)),
    lambda a: np.trapezoid(a.A),
    lambda a: np.trapezoid(a.v, dx=0.5),
    lambda a: np.tril(a.S),
    lambda a: np.triu(a.S, 1),
    lambda a: np.unravel_index(a.I, (2, 2)),
    lambda a: np.unstack(a.A),
    lambda a: np.vdot(a.A, a.A),
    lambda a: np.min(a.A, axis=(0, 1)),
    lambda a: np.cumulative_prod(a.v),
    lambda a: np.fft.ifftn(a.Z),
    lambda a: np.fft.irfftn(a.S),
    lambda a: np.vdot(a.Z, a.Z),
    lambda a: np.where(a.A > 0, a.A, 0.0),
    lambda a: np.where(a.A > 0),
    lambda a: np.where(a.A > 0, a.A, 2 * a.A),
    lambda a: np.ravel_multi_index((a.I, a.I), (3, 3)),
    lambda a: np.linalg.cholesky(a.P),
    lambda a: np.linalg.cond(a.P),
    lambda a: np.linalg.cond(a.P, 1),
    lambda a: np.linalg.cross(a.A[:, :3], a.B[:3]),
    lambda a: np.linalg.det(a.S),
    lambda a: np.linalg.eigvalsh(a.P),
    lambda a: np.linalg.inv(a.S),
    lambda a: np.linalg.lstsq(a.B, a.v)[0],
    lambda a: np.linalg.matmul(a.A, a.B),
    lambda a: np.linalg.matrix_norm(a.A),
    lambda a: np.linalg.matrix_power(a.S, 3),
    lambda a: np.linalg.matrix_rank(a.A),
    lambda a: np.linalg.multi_dot([a.A, a.B, a.A]),
    lambda a: np.linalg.norm(a.A),
    lambda a: np.linalg.norm(a.A, axis=1),
    lambda a: np.linalg.norm(a.v, 1),
    lambda a: np.linalg.norm(a.A, ord=2),
    lambda a: np.linalg.norm(a.A, "nuc"),
    lambda a: np.linalg.norm(a.C, axis=(0, 2)),
    lambda a: np.linalg.norm(a.C, axis=(0, 2), keepdims=True),
    lambda a: np.linalg.norm(a.C),
    lambda a: np.linalg.norm(a.A, np.inf),
    lambda a: np.linalg.norm(a.v, 0),
    lambda a: np.linalg.outer(a.v, a.v),
    lambda a: np.linalg.pinv(a.A),
    lambda a: np.linalg.slogdet(a.S),
    lambda a: np.linalg.solve(a.S, a.v),
    lambda a: np.linalg.solve(a.S, a.B),
    lambda a: np.linalg.svd(a.A)[1],
    lambda a: np.linalg.svd(a.A, compute_uv=False),
    lambda a: np.linalg.svd(a.A, full_matrices=False)[1],
    lambda a: np.linalg.svdvals(a.A),
    lambda a: np.linalg.tensordot(a.A, a.B, axes=1),
    lambda a: np.linalg.trace(a.S),
    lambda a: np.linalg.vecdot(a.A, a.A),
    lambda a: np.linalg.vector_norm(a.A, axis=1),
    lambda a: np.linalg.matrix_transpose(a.A),
    lambda a: np.linalg.eigh(a.P)[0],
    lambda a: np.linalg.qr(a.A)[1],
    lambda a: np.linalg.qr(a.A, "r"),
    lambda a: np.linalg.diagonal(a.C),
    lambda a: np.abs(np.linalg.eigvals(a.P)),
    lambda a: np.abs(np.linalg.eig(a.P)[0]),
    lambda a: np.fft.fft(a.v),
    lambda a: np.fft.rfft(a.A, n=6, axis=0),
    lambda a: np.fft.fft2(a.C, axes=(0, 1)),
    lambda a: np.fft.ifft2(a.S),
    lambda a: np.fft.rfft2(a.S),
    lambda a: np.fft.irfft2(a.Z),
    lambda a: np.fft.fftn(a.C),
    lambda a: np.fft.fftshift(a.v),
    lambda a: np.fft.ifftshift(a.v),
    lambda a: np.fft.ifft(a.v, norm="ortho"),
    lambda a: np.fft.irfft(a.v),
    lambda a: np.fft.hfft(a.v),
    lambda a: np.fft.ihfft(a.v),
    lambda a: np.fft.rfftn(a.S, norm=None),
    lambda a: np.sort(a.A, order=None),
    lambda a: np.sum(a.A, out=None),
    lambda a: np.squeeze(a.A, axis=None),
    lambda a: np.sum(a.A, axis=None, dtype=None, out=None, keepdims=False),
    lambda a: np.lib.stride_tricks.sliding_window_view(a.v, 2),
]


def _agree(got: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert isinstance(got, (tuple, list))
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            _agree(g, e)
        return
    assert isinstance(got, it.Tensor)
    assert got.shape == np.shape(expected)
    assert got.numpy().dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*fix:DeprecationWarning")  # from NumPy 2.5 on
@pytest.mark.parametrize("call", CALLED)
def test_a_function_is_the_operation_with_numpys_arguments(call: Callable[[Any], Any]) -> None:
    _agree(call(TENSORS), call(ARRAYS))


def _dispatched() -> dict[str, Callable[..., Any]]:
    """NumPy's functions that ask their arguments what to do, by name."""
    found = {}
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft)):
        for name, value in vars(module).items():
            if hasattr(value, "_implementation"):
                found[prefix + name] = value
    return found


WITHOUT_COMPARISON = {"empty_like"}
"""Functions whose values are any."""


def test_every_operation_of_the_table_is_called_above() -> None:
    called = [set(call.__code__.co_names) for call in CALLED]
    wanted = {f"{f.__module__}.{f.__name__}".partition(".")[2] for f in _dispatched().values()}
    # NumPy before 2.4 lacks a few of them.
    missing = {
        name
        for name in ({*CALLS, *MEANINGS} & wanted) - WITHOUT_COMPARISON
        if not any(set(name.split(".")) <= names for names in called)
    }
    assert not missing


@pytest.mark.parametrize("name", _dispatched())
def test_every_other_function_reads_or_says_what_to_write(name: str) -> None:
    function = _dispatched()[name]
    whole = f"{function.__module__}.{function.__name__}".partition(".")[2]
    if whole in {*CALLS, *MEANINGS, *_READ, *_WRITE, *_DESCRIBE}:
        return
    with pytest.raises(OperandError, match=rf"np\.{whole}: .*np\.{whole}\(x\.numpy\(\)"):
        TENSORS.v.__array_function__(function, (), (TENSORS.v,), {})


def test_gradients_go_through_them() -> None:
    x = TENSORS.A

    def loss(x: it.Tensor) -> Any:
        both = np.concatenate([np.sort(x, axis=1), np.transpose(np.dot(x, TENSORS.B))], axis=1)
        return np.linalg.norm(np.where(both > 0, both, 0.1 * both)) + np.var(x) + np.median(x)

    def ours(x: it.Tensor) -> it.Tensor:
        both = it.concat([it.sort(x, axis=1), (x @ TENSORS.B).T], axis=1)
        norm = it.sqrt(it.sum(it.where(both > 0, both, 0.1 * both) ** 2))
        return norm + it.var(x) + it.quantile(x, 0.5)

    gradient = grad(loss)(x)
    np.testing.assert_allclose(gradient.numpy(), grad(ours)(x).numpy(), rtol=1e-12)
    assert float(it.max(it.abs(gradient))) > 0.1


def test_cells_are_what_they_hold() -> None:
    cell = it.Cell(TENSORS.v)
    assert np.stack([cell, TENSORS.v]).shape == (2, 4)
    assert np.shape(cell) == (4,)
    assert np.sum(it.Cell(2.5)) == 2.5
    assert isinstance(np.sum(it.Cell(2.5)), np.floating)


def test_tensors_are_read_where_no_tensor_is_asked_for(tmp_path: Path) -> None:
    x, a = TENSORS.A, ARRAYS.A
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x, y=x)
    assert np.array_equal(np.load(tmp_path / "x.npy"), a)
    assert np.array_equal(np.load(tmp_path / "x.npz")["y"], a)
    text = io.StringIO()
    np.savetxt(text, x)
    assert len(text.getvalue().splitlines()) == 3
    np.testing.assert_allclose(x, a)
    np.testing.assert_array_equal(a, x)
    assert np.allclose(x, a)
    assert np.array_equal(x, a)
    assert not np.allclose(x, a + 1)
    assert np.array2string(x) == np.array2string(a)
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((3, 4), 2, 12, 4)
    assert np.result_type(x, np.float32) == np.float64
    for read in (np.asarray(x), np.atleast_1d(x[0, 0]), np.atleast_2d(x)):
        assert type(read) is np.ndarray
    into = np.zeros((3, 4))
    np.copyto(into, x)
    assert np.array_equal(into, a)
    assert [type(y) for y in np.broadcast_arrays(a, x[0])] == [np.ndarray] * 2
    assert np.unique(TENSORS.n, equal_nan=True).size == 12
    assert [v.tolist() for v in np.unique(TENSORS.I, return_counts=True)] == [[0, 1, 2], [1] * 3]
    assert type(np.unique_values(TENSORS.I)) is np.ndarray
    counts, *_ = np.histogram2d(x[0], x[1])
    assert counts.sum() == 4


def test_describing_waits_for_no_values() -> None:
    seen = []

    @grad
    def loss(x: it.Tensor) -> it.Tensor:
        seen.append((np.shape(x), np.ndim(x), np.size(x)))
        return it.sum(x)

    loss(TENSORS.v)
    assert seen == [((4,), 1, 4)]


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda x: np.interp(x, x, x), OperandError, r"np\.interp\(x\.numpy\(\)"),
        (lambda x: np.mean(x, where=x > 0), ArgumentError, r"no where=.*it\.mean"),
        (lambda x: np.sum(x, initial=3), ArgumentError, r"no initial="),
        (lambda x: np.sum(x, out=np.zeros(4)), ArgumentError, r"no out="),
        (lambda x: np.reshape(x, (2, 2), order="F"), ArgumentError, r"no order="),
        (lambda x: np.sort(x, order="name"), ArgumentError, r"np\.sort: .*'order'"),
        (lambda x: np.amax(x, 0, None, True, 3), ArgumentError, r"no initial=.*it\.max\("),
        (lambda x: np.stack([x, np.ones(4)]), OperandError, r"asarray\(arrays\[1\]\)"),
        (lambda x: np.where(np.ones(4) > 0, x, 0), OperandError, r"asarray\(condition\)"),
        (lambda x: np.put(x, [0], 1), OperandError, r"never change.*\.at\[index\]"),
        (lambda x: np.copyto(x, x), OperandError, "never change"),
        (lambda x: np.split(x, 3), ShapeError, "array_split"),
        (lambda x: np.ravel(x, order="F"), ArgumentError, "order"),
        (lambda x: np.pad(x, 1, mode="median"), ArgumentError, "mode is one of"),
        (lambda x: np.average(x, weights=x[:2]), ShapeError, "weights of shape"),
        (lambda x: np.select([x > 0], []), ArgumentError, "one choice for each"),
        (lambda x: np.cross(x, x, axisa=0), ArgumentError, "'axisa'; it takes a, b, axis"),
        (lambda x: np.outer([1.0], x), OperandError, r"asarray\(x\)"),
        (lambda x: np.linalg.norm(x.reshape(1, 2, 2), 2), ArgumentError, "vector or a matrix"),
    ],
)  # fmt: skip
def test_what_cannot_be_says_what_to_write(
    call: Callable[[Any], Any], error: type[IngleError], told: str
) -> None:
    with pytest.raises(error, match=told):
        call(TENSORS.v)


def test_a_number_of_numpys_before_a_sign_is_a_tensor() -> None:
    for number in (np.float32(2), np.int64(2), np.float64(2)):
        for x in (it.asarray([1.0, 4.0]), it.Cell(it.asarray([1.0, 4.0]))):
            got: list[Any] = [number * x, number + x, number - x, number / x, number**x,
                              number // x, number % x]  # fmt: skip
            plain: list[Any] = [2 * x, 2 + x, 2 - x, 2 / x, 2**x, 2 // x, 2 % x]
            assert [(y.dtype, y.tolist()) for y in got] == [(y.dtype, y.tolist()) for y in plain]


def test_lists_of_numbers_beside_a_tensor() -> None:
    x = TENSORS.A
    _agree(np.average(x, axis=1, weights=[1, 2, 3, 4]), np.average(ARRAYS.A, 1, [1, 2, 3, 4]))
    _agree(np.compress([True, False, True], x, axis=0), ARRAYS.A[::2])
    _agree(np.digitize(x, [0.0, 0.5]), np.digitize(ARRAYS.A, [0.0, 0.5]))
    assert np.dot([1.0, 2.0, 3.0, 4.0], TENSORS.v).item() == pytest.approx(
        np.dot([1.0, 2.0, 3.0, 4.0], ARRAYS.v), rel=1e-6
    )


@pytest.mark.parametrize("name", [n for n in dir(np.ndarray) if not n.startswith("_")])
def test_attributes_of_arrays_are_there_or_say_what_to_write(name: str) -> None:
    try:
        getattr(TENSORS.S, name)
    except AttributeError as error:
        assert "; " in str(error)  # noqa: PT017


def test_numbers_of_a_list_of_tensors_are_numpys() -> None:
    """NumPy asks nobody about what is in a list: a number without a gradient, which cannot pass
    for a loss."""
    losses = [it.asarray(1.0).require_grad(), it.asarray(2.0)]
    assert np.sum(losses) == np.mean(losses) * 2 == 3.0
    assert isinstance(np.sum(losses), np.float32)
    assert it.sum(it.stack(losses)).backward()[losses[0]].item() == 1.0
