"""Sizes, numbers and constants in terms of dynamic sizes, each found by other examples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from ingle.importer.errors import UnsupportedError
from ingle.importer.export.dynamic_sizes import Variant, constant_of, number_of, size_of
from ingle.importer.export.writer import Dim
from ingle.tensor import float32
from ingle.tensor.contract import Scalar
from ingle.tensor.programs import Program

EMPTY = Program.of([], [], [])


def examples(**base: int) -> list[Variant]:
    """What exports compare with: one size larger by two each, and all larger by one, two, …"""
    sizes: list[Mapping[str, int]] = [{**base, name: n + 2} for name, n in base.items()]
    sizes.append({name: n + i for i, (name, n) in enumerate(base.items(), 1)})
    return [Variant(EMPTY, s, base) for s in sizes]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda n, m: 7, 7),
        (lambda n, m: n, Dim(0, (("n", 1),))),
        (lambda n, m: 3 * m - 2 * n + 1, Dim(1, (("n", -2), ("m", 3)))),
        (lambda n, m: n * m, Dim(1, (("n", 1), ("m", 1)), product=True)),
        (lambda n, m: 5 * n * m, Dim(5, (("n", 1), ("m", 1)), product=True)),
    ],
)
def test_a_size_is_a_sum_or_a_product(function, expected) -> None:
    others = examples(n=3, m=4)
    assert size_of(function(3, 4), [function(**v.sizes) for v in others], others) == expected


@pytest.mark.parametrize(
    ("function", "base"),
    [
        (lambda n, m: n * m + 1, {"n": 3, "m": 4}),
        (lambda n, m: n // 2, {"n": 4, "m": 4}),
        (lambda n, m: n * n, {"n": 3, "m": 4}),
        # A size of the example that is 0 divides nothing.
        (lambda n, m: n * m * m + m, {"n": 0, "m": 4}),
    ],
)
def test_another_function_of_sizes_is_refused(function, base) -> None:
    others = examples(**base)
    with pytest.raises(UnsupportedError, match="neither a sum of multiples nor a product; leave"):
        size_of(function(**base), [function(**v.sizes) for v in others], others)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda n, m: 0.5, None),
        (lambda n, m: float("nan"), None),
        (lambda n, m: float(n * m), (Dim(1, (("n", 1), ("m", 1)), product=True), False)),
        (lambda n, m: m - 1, (Dim(-1, (("m", 1),)), False)),
        (lambda n, m: 1 / m, (Dim(0, (("m", 1),)), True)),
        (lambda n, m: 1 / (n * m), (Dim(1, (("n", 1), ("m", 1)), product=True), True)),
    ],
)
def test_a_number_is_a_size_or_one_divided_by_it(function, expected) -> None:
    others = examples(n=3, m=4)
    given = [Scalar(function(**v.sizes), float32) for v in others]
    assert number_of(Scalar(function(3, 4), float32), given, others) == expected


@pytest.mark.parametrize(
    "function", [lambda n: n**0.5, lambda n: 1j * n, lambda n: 2.0**-n, lambda n: n**3]
)
def test_another_number_is_refused(function) -> None:
    others = examples(n=3)
    given = [Scalar(function(**v.sizes), float32) for v in others]
    with pytest.raises(UnsupportedError, match="nor 1 divided by it; leave them out"):
        number_of(Scalar(function(3), float32), given, others)


def test_constants_are_the_same_or_repeated() -> None:
    others = examples(n=3)
    same = np.arange(6.0).reshape(2, 3)
    assert constant_of(same, [same.copy() for _ in others], others) is None
    row = np.asarray([[1.0, 2.0]])
    found = constant_of(
        np.repeat(row, 3, axis=0), [np.repeat(row, v.sizes["n"], axis=0) for v in others], others
    )
    assert found is not None
    assert (found[0].tolist(), found[1]) == (row.tolist(), (Dim(0, (("n", 1),)), 2))
    # Of the shape that it has for all, and of other numbers.
    with pytest.raises(UnsupportedError, match=r"constant of shape \(2, 3\) depends on n"):
        constant_of(same, [same + v.sizes["n"] for v in others], others)
    with pytest.raises(UnsupportedError, match=r"constant of shape \(3,\) depends on n"):
        constant_of(np.arange(3.0), [np.arange(float(v.sizes["n"])) for v in others], others)
