"""Pieces that are read and replaced: what a key comes to is known when one like it comes again."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import no_grad
from ingle.tensor.device import backend_of
from ingle.tensor.errors import IngleError

pytestmark = pytest.mark.usefixtures("at_once")

TIMES = 4
"""Calls until one is known, and one more."""


def random_key(rng, shape):
    """Numbers, slices, None and `...`, as many as there are axes or fewer."""
    items = []
    for n in shape[: rng.integers(0, len(shape) + 1)]:
        kind = rng.integers(4)
        if kind == 0 and n:
            items.append(int(rng.integers(-n, n)))
        elif kind == 1:
            items.append(slice(None))
        else:
            ends = rng.integers(-n - 2, n + 3, 2)
            first, last = (None if rng.random() < 0.3 else int(i) for i in ends)
            items.append(slice(first, last, int(rng.choice([1, 1, 2, -1, -2]))))
    if rng.random() < 0.5:
        at = rng.integers(0, len(items) + 1)
        behind = len(items) - at
        items = [*items[:at], ..., *items[at:]] if behind <= len(shape) - at else items
    for _ in range(rng.integers(0, 2)):
        items.insert(rng.integers(0, len(items) + 1), None)
    return items[0] if len(items) == 1 and rng.random() < 0.5 else tuple(items)


def of_numpy(array, key):
    try:
        return array[key]
    except IndexError:
        return None


def key_for(rng, array):
    while True:
        key = random_key(rng, array.shape)
        if of_numpy(array, key) is not None:
            return key


@pytest.mark.sampled(25, slow=1)
@pytest.mark.parametrize("seed", range(200))
@pytest.mark.parametrize("tracked", [False, True])
def test_random_pieces_are_read_and_replaced_as_numpy_does(seed, tracked):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(0 if seed % 7 == 0 else 1, 5, rng.integers(0, 4)))
    dtype = rng.choice(["float32", "float64"] if tracked else ["float32", "int64", "bool"])
    array = (rng.normal(size=shape) * 8).astype(dtype)
    key = key_for(rng, array)
    piece = array[key]
    row = (1, *piece.shape)[-2:] if piece.ndim else ()
    values = [
        {"f": 2.5, "i": -3, "b": True}[array.dtype.kind], 1,
        np.asarray((rng.normal(size=piece.shape) * 8).astype(dtype)),
        np.asarray((rng.normal(size=row) * 8).astype(dtype)),
    ]  # fmt: skip
    for n in range(TIMES):
        x = it.asarray(array + np.asarray(n, dtype))
        wanted = np.asarray(array + np.asarray(n, dtype))
        x = x.require_grad() if tracked else x
        y = x[key]
        np.testing.assert_array_equal(y.numpy(), wanted[key])
        if tracked:
            weight = rng.normal(size=piece.shape).astype(dtype)
            grad = (y * it.asarray(weight)).sum().backward()[x].numpy()
            expected = np.zeros_like(array)
            expected[key] = weight
            np.testing.assert_allclose(grad, expected, rtol=1e-6)
        for value in values:
            ours = it.asarray(value) if isinstance(value, np.ndarray) else value
            after = wanted.copy()
            after[key] = value
            z = x.at[key].set(ours)
            np.testing.assert_array_equal(z.numpy(), after)
            if tracked:
                expected = np.ones_like(array)
                expected[key] = 0
                if not z.backend.level:  # all is replaced
                    assert not expected.any()
                    continue
                np.testing.assert_array_equal(z.sum().backward()[x].numpy(), expected)
                continue
            copy = x + 0 if dtype != "bool" else x | False
            copy[key] = ours
            np.testing.assert_array_equal(copy.numpy(), after)
            np.testing.assert_array_equal(x.numpy(), wanted)


BACK = slice(None, None, -1)


@pytest.mark.parametrize(
    "key", [(None, BACK), (BACK, None, BACK), (..., BACK, None), (None, ...), (..., None)]
)
def test_all_elements_in_another_order_or_shape(key):
    for n in range(TIMES):
        array = np.arange(12, dtype="f").reshape(3, 4) + n
        x = it.asarray(array)
        np.testing.assert_array_equal(x[key].numpy(), array[key])
        np.testing.assert_array_equal(x.at[key].set(x[key] + 1.0).numpy(), array + 1.0)


KEYS = {
    "two": lambda i, j: (i, j),
    "with all between": lambda i, j: (i, slice(None), j),
    "with a slice before": lambda i, j: (slice(0, 3), j),
    "with a new axis": lambda i, j: (None, i, ..., j),
    "of two axes": lambda i, j: (i[:, None], j),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_tensors_are_known_by_shapes_alone(name):
    rng = np.random.default_rng(0)
    calls = backend_of(None).prepared
    for _ in range(TIMES):
        array = rng.normal(size=(4, 5, 6)).astype("f")
        i, j = rng.integers(-4, 4, 3), rng.integers(-5, 5, 3)
        key = KEYS[name](i, j)
        ours = tuple(it.asarray(k) if isinstance(k, np.ndarray) else k for k in key)
        x = it.asarray(array)
        np.testing.assert_array_equal(x[ours].numpy(), array[key])
        y = x.require_grad()
        grad = y[ours].sum().backward()[y].numpy()
        expected = np.zeros_like(array)
        np.add.at(expected, key, 1.0)
        np.testing.assert_array_equal(grad, expected)
        with no_grad():
            np.testing.assert_array_equal(y[ours].numpy(), array[key])
        added, number = array.copy(), float(rng.normal())
        np.add.at(added, key, np.float32(number))
        np.testing.assert_allclose(x.at[ours].add(number).numpy(), added, rtol=1e-6)
        row = rng.normal(size=array[key].shape[-1:]).astype("f")
        np.add.at(added, key, row)
        found = x.at[ours].add(number).at[ours].add(it.asarray(row))
        np.testing.assert_allclose(found.numpy(), added, rtol=1e-5, atol=1e-6)
    assert any(type(k) is tuple and k[0].__name__ == "_by_any" for k, v in calls.known.items() if v)
    with pytest.raises(IndexError):
        x[KEYS[name](it.asarray([0, 9, 0]), it.asarray([0, 9, 0]))].numpy()


@pytest.mark.parametrize("held", [lambda n: it.asarray(n), lambda n: it.Cell(it.asarray(n))])
def test_slices_from_and_to_tensors_are_read_each_time(held):
    array, i = np.arange(24, dtype="f").reshape(6, 4), np.asarray([0, 2, 3])
    x, ours = it.asarray(array), it.asarray(i)
    for _ in range(TIMES):
        for n in range(3):
            first, last = held(n), held(n + 2)
            np.testing.assert_array_equal(x[first:last, ours].numpy(), array[n : n + 2, i])
            np.testing.assert_array_equal(x[ours, first:last].numpy(), array[i, n : n + 2])
            np.testing.assert_array_equal(x[ours, :: held(n + 1)].numpy(), array[i, :: n + 1])


def test_values_that_do_not_fit_are_refused_each_time():
    x = it.asarray(np.zeros((3, 4), "f"))
    whole = it.asarray([1, 2, 3])
    for _ in range(TIMES):
        x[0] = 1.0
        x[1] = it.ones(4)
        for set_it in (
            lambda: x.at[0].set(it.ones(3)), lambda: x.at[0].set(it.ones((2, 4))),
            lambda: whole.at[0].set(1.5), lambda: whole.at[0].set(1 << 70), lambda: x.at[0].set(1j),
            lambda: x.at[5].set(1.0), lambda: x.at[0, 0, 0].set(1.0),
            lambda: x.at[0].set(it.ones(4, device="numpy")),
        ):  # fmt: skip
            with pytest.raises((IngleError, IndexError)):
                set_it()


@pytest.mark.parametrize("sizes", [((5,), (5,)), ((3,), (3, 4)), ((4, 3), (3,)), ((2, 4, 3), (3,))])
def test_products_of_vectors_are_known(sizes):
    rng = np.random.default_rng(0)
    for _ in range(TIMES):
        a, b = (rng.normal(size=s) for s in sizes)
        x, y = it.asarray(a).require_grad(), it.asarray(b)
        np.testing.assert_allclose((x @ y).numpy(), a @ b, rtol=1e-12)
        np.testing.assert_allclose((x.detach() @ y).numpy(), a @ b, rtol=1e-12)
        grad = (x @ y).sum().backward()[x].numpy()
        ones = np.ones_like(a @ b)
        expected = ones * b if b.ndim == 1 and a.ndim == 1 else None
        expected = ones[..., None] * b if b.ndim == 1 and a.ndim > 1 else expected
        expected = b @ ones if expected is None else expected
        np.testing.assert_allclose(grad, expected, rtol=1e-12)
    with pytest.raises(IngleError):
        it.asarray(rng.normal(size=(7,))) @ y
