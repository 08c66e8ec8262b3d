"""New state over the old in plans in which the backend runs operations by itself."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.tensor.errors import OutOfRangeError


@pytest.fixture(autouse=True)
def on_cpu():
    with it.device("cpu"):
        yield


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def addresses(cells, run, times):
    """Where the cells lie after each of some runs; nothing is held afterwards."""
    found = []
    for _ in range(times):
        run()
        found.append(tuple([c._value._handle.computed().address for c in cells]))
    return found


def state(*shapes):
    return [it.Cell(it.asarray(numbers(*s, seed=k) + 1.5)) for k, s in enumerate(shapes)]


def settled(places):
    """Where each cell lies after each of some runs, of which the first ones plan."""
    return [set(of_one) for of_one in zip(*places[2:], strict=True)]


def on_host(x):
    """The eigenvalues of a symmetric matrix: no kernel is generated for these."""
    return it.linalg.eigvalsh(x + x.mT)


def test_what_is_behind_the_host_is_written_over():
    (a, b), x = state((30, 30), (200,)), it.asarray(numbers(30, 30, seed=7))

    @compile
    def step(x):
        found = on_host(x * 2.0)
        with it.transaction():
            a.value = a.value * 0.5 + found
            b.value = b.value * 0.5 + it.sum(found)
        return found

    assert "host" in [s.kind for s in explain(lambda x: it.sum(on_host(x * 2.0)), x).steps]
    wanted = [c.value.numpy() for c in (a, b)]
    wide = x.numpy().astype(np.float64) * 2
    values = np.linalg.eigvalsh(wide + wide.T)
    runs = addresses((a, b), lambda: step(x), times=6)
    assert [len(found) for found in settled(runs)] == [1, 1]
    for cell, want, more in zip((a, b), wanted, (values, values.sum()), strict=True):
        for _ in range(6):
            want = want * 0.5 + more
        np.testing.assert_allclose(cell.value.numpy(), want, rtol=2e-4, atol=1e-4)


def test_what_the_host_reads_keeps_its_value():
    (a,) = state((20, 20))

    @compile
    def step():
        before = a.value
        found = on_host(before)
        a.value = before * 0.5
        return found

    want = a.value.numpy()
    for _ in range(6):
        np.testing.assert_allclose(
            step().numpy(), np.linalg.eigvalsh(want + want.T), rtol=1e-3, atol=1e-4
        )
        want = want * np.float32(0.5)
    np.testing.assert_array_equal(a.value.numpy(), want)


def test_what_the_host_hands_on_is_not_written_over():
    """A loop without turns gives what it began with: the memory of an input."""
    (a,) = state((50,))

    @compile
    def step(turns):
        before = it.while_loop(
            lambda s: s[1] < turns, lambda s: (it.sort(s[0]) + 1.0, s[1] + 1),
            (a.value, it.asarray(0)),
        )[0]  # fmt: skip
        a.value = a.value * 2.0
        return before

    want = a.value.numpy()
    for _ in range(6):
        np.testing.assert_array_equal(step(it.asarray(0)).numpy(), want)
        want = want * 2
        np.testing.assert_array_equal(a.value.numpy(), want)


def test_an_index_out_of_range_is_found_before_anything_is_written_over():
    (a,) = state((40,))

    @compile
    def step(x, index):
        found = on_host(x)
        a.value = a.value * 0.5 + it.sum(it.take(found, index))
        return found

    x = it.asarray(numbers(8, 8))
    good, bad = it.asarray(np.array([0, 7])), it.asarray(np.array([0, 8]))
    runs = addresses((a,), lambda: step(x, good), times=5)
    assert [len(found) for found in settled(runs)] == [1]
    before = a.value.numpy().copy()
    for _ in range(2):
        with pytest.raises(OutOfRangeError, match="take"):
            step(x, bad)
        np.testing.assert_array_equal(a.value.numpy(), before)
    step(x, good)
    assert not np.array_equal(a.value.numpy(), before)


def test_what_somebody_holds_is_kept():
    (a,) = state((40,))

    @compile
    def step(x):
        a.value = a.value + it.sum(on_host(x))

    x = it.asarray(numbers(8, 8))
    for _ in range(4):
        step(x)
    kept = a.value
    before = kept.numpy().copy()
    step(x)
    np.testing.assert_array_equal(kept.numpy(), before)
    assert not np.array_equal(a.value.numpy(), before)
