"""Maps over very short rows, whose vectors go along another axis."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.lowering.turned_axes import turned
from ingle.tensor import Tensor
from ingle.testkit.bits import same_bits

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "bool", "int64", "complex64"]


def numbers(dtype: str, shape: tuple[int, ...]) -> Any:
    x = np.random.default_rng(len(dtype)).integers(-9, 9, shape).astype(np.float32)
    return it.asarray(x, device="cpu").astype(dtype)


def shuffled(x: Any, r: int) -> Any:
    n, c, h, w = x.shape
    return (
        x.reshape(n, c // r**2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, -1, h * r, w * r)
    )


def check(found: Callable[[Tensor], Tensor], expected: Callable[[Any], Any], x: Tensor) -> None:
    plain, compiled = found(x), compile(found)(x)
    assert same_bits(compiled, plain)
    assert same_bits(compiled, np.ascontiguousarray(expected(x.numpy())))


@pytest.mark.parametrize("dtype", DTYPES)
def test_channels_become_pixels(dtype: str) -> None:
    x = numbers(dtype, (2, 18, 11, 13))
    check(lambda x: it.pixel_shuffle(x, 3), lambda x: shuffled(x, 3), x)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [7, 8, 33, 1024, 1025, 2048])
def test_channels_become_pixels_of_any_width(dtype: str, width: int) -> None:
    for r in (2, 4, 5):
        x = numbers(dtype, (1, 2 * r * r, 3, width))
        check(partial(it.pixel_shuffle, upscale_factor=r), partial(shuffled, r=r), x)


@pytest.mark.parametrize("dtype", ["float32", "bool"])
@pytest.mark.parametrize("shape", [(5, 13), (32, 128)])
def test_elements_that_are_repeated(dtype: str, shape: tuple[int, ...]) -> None:
    x = numbers(dtype, shape)
    check(lambda x: it.repeat(x, 3, axis=1), lambda x: x.repeat(3, axis=1), x)


def test_more_than_a_copy() -> None:
    x = numbers("float32", (2, 8, 9, 10))
    made = compile(lambda x: it.exp(it.pixel_shuffle(x * 2, 2)) + it.arange(20, dtype=it.float32))(
        x
    )
    expected = np.exp(shuffled(x.numpy() * 2, 2)) + np.arange(20)
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-6)


def test_no_element_is_gathered() -> None:
    x = numbers("float32", (2, 16, 12, 20))
    # No other test computes this, so that it has a plan for its own sizes.
    text = str(explain(lambda x: it.pixel_shuffle(x * 7 - 5, 4), x, runs=0, source=True))
    assert "masked.gather" not in text


@pytest.mark.parametrize(
    ("sizes", "strides", "operands", "expected"),
    [
        ((20, 4), [(1, 20), (4, 1)], 2, ((4, 20), [(20, 1), (1, 4)])),
        ((20, 4), [(1, 20), (4, 1), (4, 1)], 2, ((4, 20), [(20, 1), (1, 4), (1, 4)])),
        ((64, 3), [(1, 0), (3, 1)], 2, ((3, 64), [(0, 1), (1, 3)])),
        ((2048, 3), [(1, 0), (3, 1)], 2, ((2, 3, 1024), [(1024, 0, 1), (3072, 1, 3)])),
        # What stays: long rows, rows that lie well, no other axis that does, one too long to cut,
        # operands that go far back, and loops of which there may not be one more.
        ((20, 8), [(1, 20), (8, 1)], 2, None),
        ((20, 4), [(4, 1), (4, 1)], 2, None),
        ((20, 4), [(8, 1), (4, 1), (1, 0)], 3, None),
        ((20, 4), [(2, 40), (4, 1)], 2, None),
        ((20, 5), [(1, 20), (5, 1)], 2, None),
        ((1025, 3), [(1, 0), (3, 1)], 2, None),
        ((20,), [(7,), (1,)], 2, None),
        ((20, 4), [(1, 20), (-30, 0), (4, 1)], 3, None),
        ((*[2] * 5, 2048, 3), [(*[2048] * 5, 1, 0), (*[6144] * 5, 3, 1)], 2, None),
    ],
)
def test_loops(sizes: Any, strides: Any, operands: int, expected: Any) -> None:
    assert turned(sizes, strides, operands) == (expected or (sizes, strides))
