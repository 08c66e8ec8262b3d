"""Algebra: operations that change nothing go, and every bit stays, those of special values too."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, graph_of
from ingle.fusion.passes.simplify import simplify

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38, 65504.0, 1e-7]


def names(function, *given):
    graph = simplify(graph_of(function, *given))
    return [node.op.operation.name for node in graph.nodes]


def values(dtype):
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        floats = np.concatenate(
            [SPECIAL, rng.standard_normal(500) * 10.0 ** rng.integers(-40, 38, 500)]
        )
        if it.asarray(0).astype(dtype).dtype.is_integer:
            floats = rng.integers(0, 100, 500)
        return it.asarray(floats, device="cpu").astype(dtype)


GONE = {
    "one": lambda x: (x * 1.0) / 1.0,
    "zero": lambda x: (x + -0.0) - 0.0,
    "negative": lambda x: it.negative(it.negative(x)),
    "widened": lambda x: x.astype("float64").astype("float32"),
    "chosen": lambda x: it.where(x > 0, x, x),
}


@pytest.mark.parametrize("name", GONE)
def test_what_changes_nothing_is_not_computed(name):
    x = values("float32")
    assert names(GONE[name], x) == []
    np.testing.assert_array_equal(
        compile(GONE[name])(x).numpy().view(np.int32), x.numpy().view(np.int32)
    )


def test_unsigned_numbers_wrap():
    x = values("uint8")
    assert names(lambda x: it.abs(it.negative(x)), x) == ["negative", "abs"]
    got = compile(lambda x: it.abs(it.negative(x)))(x).numpy()
    np.testing.assert_array_equal(got, np.abs(-x.numpy()))


def test_integers_too():
    x = values("int32")
    assert names(lambda x: (x + 0) * 1 - 0, x) == []
    assert names(lambda x: x.astype("int64").astype("int32") | 0, x) == ["bitwise_or"]


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        (lambda x: x + 0.0, ["add"]),
        (lambda x: x * 0.0, ["multiply"]),
        (lambda x: it.subtract(x, -0.0), ["subtract"]),
        (lambda x: x / 3.0, ["divide"]),
        (lambda x: x.astype("float16").astype("float32"), ["astype", "astype"]),
        (lambda x: x * it.ones((2, 1), device="cpu"), ["full", "multiply"]),
    ],
)
def test_what_might_change_something_stays(function, kept):
    assert names(function, values("float32")) == kept


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("number", [2.0, -4.0, 0.25, 1024.0, 2.0**-14, 1.0])
def test_division_by_a_power_of_two_is_a_product(dtype, number):
    x = values(dtype)
    assert names(lambda x: x / number, x) == ([] if number == 1 else ["multiply"])
    with it.device("numpy"), np.errstate(all="ignore"):
        want = (x.to_device("numpy") / number).numpy()
    got = compile(lambda x: x / number)(x).numpy()
    got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(got, want)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


def test_powers_whose_inverse_is_not_normal_stay_divisors():
    x = values("float32")
    assert names(lambda x: x / 2.0**127, x) == ["divide"]
    assert names(lambda x: x / 2.0**126, x) == ["multiply"]
    assert names(lambda x: x / np.inf, x) == ["divide"]
    assert names(lambda x: x / 0.0, x) == ["divide"]


def test_equal_quotients_are_one_and_dead_ends_go():
    x = values("float32")
    assert names(lambda x: it.exp(x / 4.0) + it.exp(x / 4.0), x) == ["multiply", "exp", "add"]
    assert names(lambda x: it.abs(-x), x) == ["abs"]
    assert names(lambda x: x.astype("float64").astype("float16"), x) == ["astype"]


def test_what_is_repeated_along_an_axis_stays():
    row = it.ones((1, 4), device="cpu")
    assert names(lambda x: it.where(it.ones((3, 4), device="cpu") > 0, x, x), row)[-1] == "where"


def test_a_reshape_of_a_reshape_is_one_where_it_was_computed():
    """Else the first may be a copy that both have."""
    x = it.ones((4, 6), device="cpu")
    twice = lambda x: it.reshape(it.reshape(x, (2, 12)), (3, 8))  # noqa: E731
    assert names(lambda x: twice(it.exp(x)), x) == ["exp", "reshape"]
    assert names(lambda x: twice(x.mT), x)[-2:] == ["reshape", "reshape"]
