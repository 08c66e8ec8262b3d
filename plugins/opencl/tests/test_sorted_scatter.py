"""Scatters of GPUs sort their updates, and combine those of an element in the order they had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.fusion import compile, explain
from ingle.tensor.errors import OutOfRangeError
from ingle_opencl import backend

pytestmark = pytest.mark.sampled(6)

FLOATS = ("float32", "float64", "float16", "bfloat16")
Drawn = tuple[np.ndarray, np.ndarray, np.ndarray]


def drawn(rows: int, updates: int, columns: int, seed: int = 0) -> Drawn:
    """A table, places of which some meet and some are negative, and updates."""
    rng = np.random.default_rng(seed)
    at = rng.integers(-rows, rows, updates)
    at[: updates // 3] = rows // 2  # one of them takes a third of all
    return (
        rng.normal(size=(rows, columns)),
        rng.permutation(at),
        rng.normal(size=(updates, columns)),
    )


def agree(run: Callable[..., Any], *arrays: np.ndarray, dtype: str = "float32") -> list[str]:
    """Compares bits with the processor's, and returns the sources of the kernels."""
    found = []
    for device in ("opencl_wide", "cpu"):
        given = [
            it.asarray(x, dtype=dtype if x.dtype.kind == "f" else x.dtype, device=device)
            for x in arrays
        ]
        compiled = compile(run)
        found.append([it.astype(compiled(*given), it.float64).numpy() for _ in range(2)])
        if device == "opencl_wide":
            sources = explain(compiled, *given, source=True, runs=0).sources
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    return [*sources]


def is_sorted(sources: list[str]) -> bool:
    return any("rank" in source for source in sources)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", [(7, 500, 5), (4000, 129, 4)])
def test_sums_have_the_bits_of_the_processor(
    wide_backend: Any, dtype: str, sizes: tuple[int, int, int]
) -> None:
    assert is_sorted(agree(it.scatter_add, *drawn(*sizes), dtype=dtype))


@pytest.mark.parametrize("updates", [0, 1, 511, 512, 1024, 1025, 8193])
def test_any_number_of_updates(wide_backend: Any, updates: int) -> None:
    x, at, u = drawn(40, updates, 1)
    assert is_sorted(agree(it.scatter_add, x[:, 0], at, u[:, 0])) == (updates >= 512)


@pytest.mark.slow
def test_a_million_updates(wide_backend: Any) -> None:
    x, at, u = drawn(1000, 1 << 20, 1)
    assert is_sorted(agree(it.scatter_add, x[:, 0], at, u[:, 0]))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int8", "int64", "bool", "bfloat16"])
def test_the_last_update_stays(wide_backend: Any, dtype: str) -> None:
    x, at, u = drawn(30, 700, 3)
    x, u = (np.round(v * 20).astype("int64" if dtype == "bfloat16" else dtype) for v in (x, u))
    given = [it.asarray(v, device="opencl_wide") for v in (x, at, u)]
    if dtype == "bfloat16":
        given[0], given[2] = given[0].astype(dtype), given[2].astype(dtype)
    want = x.copy()
    for n, row in zip(at, u, strict=True):
        want[n] = row
    made = compile(it.scatter_set)(*given)
    np.testing.assert_array_equal(made.astype(it.int64).numpy(), want.astype(np.int64))


@pytest.mark.slow
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["prod", "amax"])
def test_reductions(wide_backend: Any, reduce: str, include_self: bool) -> None:
    x, at, u = drawn(300, 900, 2)
    agree(
        lambda x, at, u: it.scatter_reduce(x, at, u, reduce, include_self=include_self),
        x, at, u * 0.1 + 1,
    )  # fmt: skip


@pytest.mark.slow
def test_views_other_axes_and_numbers(wide_backend: Any) -> None:
    x, at, u = drawn(60, 480, 4)
    table = np.stack([x, x + 1])
    assert is_sorted(agree(lambda x, at, u: it.scatter_add(x.T, at, u.T, axis=1), x, at, u))

    def numbers(x: Any, at: Any, u: Any) -> Any:
        some = it.reshape(at, (40, 12))[::2, 1:]
        return it.scatter_add(x, some, it.ones((2, 20, 11, 4), device=x.device), axis=1)

    def turned(x: Any, at: Any, u: Any) -> Any:
        some = it.reshape(at, (4, 120))
        return it.scatter_add(x, some, it.reshape(u, (4, 120, 4))[:, ::-1, ::-1])

    assert is_sorted(agree(numbers, table, at, u))
    assert is_sorted(agree(turned, x, at, u))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_gradient_of_an_embedding(wide_backend: Any, dtype: str) -> None:
    table, at, u = drawn(97, 640, 6)

    def gradient(table: Any, at: Any, u: Any) -> Any:
        return grad(lambda t: it.sum(it.take(t, at, axis=0) * u))(table)

    assert is_sorted(agree(gradient, table, at, u, dtype=dtype))


@pytest.mark.slow
def test_an_index_out_of_range_is_an_error_afterwards(wide_backend: Any) -> None:
    x, at, u = (it.asarray(v, device="opencl_wide") for v in drawn(50, 600, 2))
    run = compile(it.scatter_add)
    for wrong in (50, -51):
        bad = it.asarray(np.r_[at.numpy()[:-1], wrong], device="opencl_wide")
        with pytest.raises(OutOfRangeError, match="scatter_add"):
            run(x, bad, u).numpy()
    agree(it.scatter_add, *drawn(50, 600, 2))


def test_sizes_that_change(wide_backend: Any) -> None:
    run = compile(it.scatter_add)
    for updates in (600, 601, 5000, 100):
        given = [np.asarray(v, dtype=v.dtype) for v in drawn(50, updates, 2)]
        there, here = (
            run(*[it.asarray(v, device=device) for v in given]).numpy()
            for device in ("opencl_wide", "cpu")
        )
        np.testing.assert_array_equal(there, here)


def test_plain_code_sorts_too(wide_backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operation by operation, with fusion and without."""
    found: list[str] = []
    scatter = backend.for_scatter

    def noting(*args: Any) -> Any:
        launches = scatter(*args)
        found.extend(launch.source for launch in launches)
        return launches

    monkeypatch.setattr(backend, "for_scatter", noting)
    x, at, u = drawn(37, 607, 3)
    want = it.scatter_add(*[it.asarray(v, device="cpu") for v in (x, at, u)]).numpy()
    given = [it.asarray(v, device="opencl_wide") for v in (x, at, u)]
    np.testing.assert_array_equal(it.scatter_add(*given).numpy(), want)
    assert is_sorted(found)
