"""Numbers of compiled functions: arguments, contents of cells, numbers of NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from small_values import values

import ingle.tensor as it
from ingle.fusion import compile


@pytest.fixture(autouse=True)
def device(on_each_device):
    return on_each_device


ODD_NUMBERS = (0.0, -0.0, float("nan"), 1.0, float("inf"), 0.0, -0.0, float("nan"))


@pytest.mark.parametrize("where", ["argument", "cell"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x * n, lambda x, n: x * (2.0 if n != n else 3.0),
        lambda x, n: x * float(str(n)), lambda x, n: x * (1.0 if repr(n)[0] == "-" else 2.0),
        lambda x, n: it.copysign(x, n), lambda x, n: x + {0.0: 1.0}.get(n, 2.0),
    ],
)  # fmt: skip
def test_numbers_that_python_takes_for_equal(function, where):
    x, cell = values(1, 2), it.Cell(0.0)
    f = compile(function) if where == "argument" else compile(lambda x: function(x, cell.value))
    for n in ODD_NUMBERS:
        cell.value = n
        got = f(x, n) if where == "argument" else f(x)
        np.testing.assert_array_equal(got.numpy(), function(x, n).numpy())
        np.testing.assert_array_equal(np.signbit(got.numpy()), np.signbit(function(x, n).numpy()))


def test_types_of_numbers_that_depend_on_values():
    f = compile(lambda x, n: x * 2**n)
    for n in (2, 3, -1, 2, 0, -2):
        np.testing.assert_array_equal(f(it.asarray([1, 2]), n).numpy(), np.array([1, 2]) * 2.0**n)
    g = compile(lambda x, a: x * abs(a**0.5))
    for a in (4.0, 9.0, -4.0, -9.0, 4.0, -4.0):
        assert g(values(1), a).item() == pytest.approx(abs(a**0.5))


def test_cells_whose_contents_change_their_type():
    cell = it.Cell(1)
    f = compile(lambda x: x * cell.value)
    kinds = (1, 2, 2.5, 3, True, values(4).sum(), 7, np.float64(2.5), np.float64(3), 1)
    for content in (*kinds, *kinds):
        cell.rebind(content)
        assert f(values(2)).item() == 2 * float(content)


def test_numbers_for_which_arithmetic_fails():
    def inverse(x, n):
        try:
            return x / (1 / n)
        except ZeroDivisionError:
            return x * 0.0

    f = compile(inverse)
    assert [f(values(2), n).item() for n in (1.0, 2.0, 0.0, 4.0, 0.0)] == [2, 4, 0, 8, 0]
    g = compile(lambda x, n: x * (1 / n))
    assert [g(values(2), n).item() for n in (1.0, 2.0)] == [2, 1]
    with pytest.raises(ZeroDivisionError):
        g(values(2), 0.0)
    assert g(values(2), 4.0).item() == 0.5


def test_numbers_of_numpy():
    f = compile(lambda x, s: x * s + 1.0)
    for v in (0.1, 0.2, 0.3, 1e-9):
        assert f(values(1), np.float64(v)).item() == (values(1) * v + 1.0).item()
    assert f.recordings == 2
    kinds = (np.float32, np.float16, np.int64, np.uint8)
    for kind in kinds:
        g = compile(lambda x, s: (x * it.asarray(s), it.full((2,), s), x * float(s), s + s))
        for v in (1.5, 2, 3.7):
            s = kind(v)
            product, filled, third, twice = g(values(1, 2), s)
            assert product.dtype == (values(1, 2) * it.asarray(s)).dtype
            np.testing.assert_array_equal(product.numpy(), np.array([1, 2], np.float32) * s)
            np.testing.assert_array_equal(filled.numpy(), np.full(2, s))
            np.testing.assert_array_equal(third.numpy(), np.array([1, 2], np.float32) * float(s))
            assert type(twice) is kind
            assert twice == s + s
        computed = compile(lambda x, s: (x * (s + s), (s - 1) * x, x**-s, it.clip(x, max=s * s)))
        for v in (1.5, 2, 3.7) if kind is not np.uint8 else ():
            s = kind(v)
            x = values(1, 2)
            a, b, c, d = float(s + s), float(s - 1), float(-s), float(s * s)
            wanted = (x * a, b * x, x**c, it.clip(x, max=d))
            for got, want in zip(computed(x, s), wanted, strict=True):
                np.testing.assert_array_equal(got.numpy(), want.numpy())
        assert computed.recordings <= 2
    h = compile(lambda x, i: (x[i], x[: i + 1].sum()))
    for i in (0, 1, 2, 1):
        assert h(values(5, 6, 7), np.int64(i))[0].item() == 5 + i
    constant = compile(lambda x: x * np.float64(0.5) + np.float64(2))
    assert [constant(values(i)).item() for i in (2, 4, 6)] == [3, 4, 5]


def test_tensors_of_numbers():
    def f(n, s):
        return [
            it.asarray(s), it.asarray(n), it.asarray([n, n + 1]),
            it.asarray([[s, 1], [n, 2.0 * s]]), it.asarray(s, dtype="float64"),
            it.asarray(s, dtype="int32"),
            it.asarray(n, dtype=bool), it.full((2,), n), it.asarray((s, s), dtype="complex64"),
        ]  # fmt: skip

    compiled = compile(f)
    for n, s in ((1, 0.1), (2, 0.7), (0, 2.9), (70000, -1.5)):
        for got, want in zip(compiled(n, s), f(n, s), strict=True):
            assert got.dtype is want.dtype
            np.testing.assert_array_equal(got.numpy(), want.numpy())
    few = compile(lambda s: it.asarray(s) * 2)
    assert [few(s).item() for s in (1.0, 2.0, 3.0)] == [2, 4, 6]
    assert few.recordings == 2


@pytest.mark.parametrize(
    ("dtype", "number"),
    [*[(d, n) for d in ("float32", "float16", "complex64") for n in (1, 2.5)], ("int32", 1),
     ("bool", 1)],
)  # fmt: skip
def test_a_number_beside_a_tensor_is_no_decision(dtype, number):
    """Its type decides about dtypes, and its value stays what it is in each call."""
    cell = it.Cell(number)
    f = compile(lambda x, n: x + n + cell.value)
    x = values(1, 0).astype(dtype)
    for n in range(40):
        cell.value = number * n
        got = f(x, number * (n + 2))
        np.testing.assert_allclose(got.numpy(), x.numpy() * 1 + number * (2 * n + 2), rtol=1e-3)
    assert f.recordings <= 3
