"""Long reductions in pieces give what they give in one go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.grouping import split_reductions, split_sums

pytest.importorskip("ingle_cpu")

RULE = "split_reduction"
CASES = [
    ((1 << 14,), None), ((20_011,), 0), ((3, 16_385), 1), ((2, 3, 1 << 13), (1, 2)), ((256, 5), 0),
    ((4, 100, 3), (0, 1)), ((16_449, 2), 0), ((40, 50, 11), None),
]  # fmt: skip
NAMES = ("max", "min", "any", "all", "sum", "prod", "argmax", "argmin")


def drawn(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) > 1e-4
    if dtype == "int32":
        return rng.integers(-3, 4, shape).astype(np.int32)
    x = rng.choice([0.0, -0.0, 1.0, -1.0, 0.5, 2.0], shape)
    if seed % 2:
        x.flat[[x.size // 3, -1]] = np.nan
    return x.astype(dtype)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool", "float16"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_values(
    request: pytest.FixtureRequest, shape: Any, axis: Any, name: str, dtype: str, keepdims: bool
) -> None:
    if name.startswith("arg") and isinstance(axis, tuple):
        pytest.skip("places along one axis, or of all elements")
    if dtype == "bool" and name in ("max", "min", "sum", "prod", "argmax", "argmin"):
        pytest.skip("of truth there is any and all")

    def found(x: Any) -> Any:
        return getattr(it, name)(x, axis=axis, keepdims=keepdims)

    drawn_ones = [drawn(shape, dtype, seed) for seed in range(2)]
    given = [it.asarray(x, device="cpu") for x in drawn_ones]
    alone = [found(x).numpy() for x in given]
    asked = request.getfixturevalue("splitting")
    for x, here, whole in zip(drawn_ones, given, alone, strict=True):
        split = compile(found)(here).numpy()
        assert (split.shape, split.dtype) == (whole.shape, whole.dtype)
        np.testing.assert_array_equal(split, whole)
        if name.startswith("arg"):
            expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
            np.testing.assert_array_equal(split, expected)
    is_sum = name == "sum" and dtype.startswith("float")
    assert any(asked) != is_sum


def test_what_comes_before_is_computed_in_each_piece(splitting: list[Any]) -> None:
    x = np.random.default_rng(0).standard_normal((3, 20_001)).astype(np.float32)
    found = compile(lambda x: it.logsumexp(it.exp(x) - 1.0, axis=1))(it.asarray(x, device="cpu"))
    wide = np.expm1(x.astype(np.float64))
    top = wide.max(axis=1)
    expected = top + np.log(np.exp(wide - top[:, None]).sum(axis=1))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    assert any(splitting)


@pytest.mark.parametrize(
    ("name", "rows", "splits"),
    [("argmax", 5, True), ("argmin", 63, True), ("argmax", 64, False), ("max", 5, False)],
)
def test_places_in_up_to_63_rows_are_found_in_pieces(
    splitting: list[Any], name: str, rows: int, splits: bool
) -> None:
    """As tokens of a batch are; a softmax goes over rows again with their maxima."""
    x = np.random.default_rng(rows).integers(0, 1000, (rows, 16_385)).astype(np.float32)
    found = compile(lambda x: getattr(it, name)(x, axis=1))(it.asarray(x, device="cpu"))
    np.testing.assert_array_equal(found.numpy(), getattr(np, name)(x, axis=1))
    assert any(splitting) == splits


@pytest.mark.parametrize("name", ["max", "argmax"])
def test_nothing_is_left_behind_pieces_where_these_can_be_chosen_so(
    splitting: list[Any], name: str
) -> None:
    """32,000 elements are no multiple of the longest piece, but of 2,000."""

    def kernels(length: int) -> int:
        x = it.zeros((2, length), device="cpu")
        found = compile(lambda x: getattr(it, name)(x, axis=1))
        return len(explain(found, x, source=True, runs=0).sources)

    assert kernels(32_000) == kernels(1 << 15) < kernels(32_003)


@pytest.mark.parametrize("name", ["argmax", "argmin", "any", "all"])
def test_what_jumps_is_of_half_types_as_they_are_in_memory(splitting: list[Any], name: str) -> None:
    """Of equal elements the first one counts, and what rounds to zero is none."""
    rng = np.random.default_rng(0)
    large = 1.0 if name.startswith("arg") else 0.0
    x = np.full(20_011, large or 1e-4, np.float16)
    y = (rng.random(x.size) * 1e-4).astype(np.float16)

    def made(x: Any, y: Any) -> Any:
        return getattr(it, name)(x + y if large else x * y * y)

    found = compile(made)(it.asarray(x, device="cpu"), it.asarray(y, device="cpu"))
    assert int(found) == 0
    assert any(splitting)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("shape", [(1 << 15,), (33_003,), (3, 1 << 14), (2, 2, 16_500)])
def test_sums_of_the_longest_rows_are_those_of_their_pieces(
    splitting: list[Any], monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], dtype: str
) -> None:
    monkeypatch.setattr(split_sums, "LONGEST_ROW", 1 << 14)
    axis = tuple(range(1, len(shape))) or None
    x = it.asarray(np.random.default_rng(0).standard_normal(shape), device="cpu").astype(dtype)
    found = compile(lambda x: it.sum(x, axis=axis, keepdims=True))(x)
    wide = x.astype("float64").numpy()
    expected = wide.sum(axis=axis, keepdims=True)
    assert any(splitting)
    assert (found.shape, found.dtype.name) == (expected.shape, dtype)
    # Halves are rounded once, in the end.
    rounding = {"float32": 1e-7, "float64": 1e-15, "bfloat16": 2.0**-8}[dtype]
    error = np.abs(found.astype("float64").numpy() - expected)
    assert (error <= rounding * np.abs(expected) + 3e-7 * np.sqrt(wide.size)).all()


def test_sums_of_the_longest_rows_keep_signs_and_what_is_no_number(
    splitting: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_sums, "LONGEST_ROW", 1 << 14)
    x = np.full((3, 16_391), -0.0, np.float32)
    x[1, -1], x[2, 5000] = np.nan, -np.inf
    found = compile(lambda x: it.sum(x, axis=1))(it.asarray(x, device="cpu")).numpy()
    np.testing.assert_array_equal(found, np.float32([-0.0, np.nan, -np.inf]))
    assert np.signbit(found[0])
    assert any(splitting)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("length", [1 << 15, 33_003])
def test_places_of_many_pieces_are_reduced_by_and_by(
    splitting: list[Any], monkeypatch: pytest.MonkeyPatch, name: str, length: int
) -> None:
    monkeypatch.setattr(split_reductions, "MANY_PLACES", 3)
    monkeypatch.setattr(split_reductions, "PLACES", 2)
    function = compile(lambda x: getattr(it, name)(x, axis=1))
    x = np.random.default_rng(0).integers(-9, 9, (3, length)).astype(np.float32)
    x[1, [length // 2, length - 1]] = np.nan
    found = function(it.asarray(x, device="cpu")).numpy()
    np.testing.assert_array_equal(found, getattr(np, name)(x, axis=1))
    assert any(splitting)


def test_extremes_and_their_places_are_found_in_one_pass(splitting: list[Any]) -> None:
    x = it.zeros(1 << 15, device="cpu")
    first, *rest = explain(compile(it.argmax), x, runs=0).steps
    assert {"max", "argmax"} <= set(first.operations)
    assert all(0 not in step.reads for step in rest)
    assert any(splitting)
