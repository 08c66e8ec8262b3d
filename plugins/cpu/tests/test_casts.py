"""Floats cast to integers, against Python's integers, which have no width."""

import math

import ml_dtypes
import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor import Tensor

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")


def edges() -> list[float]:
    """Numbers around every end of every range, and what is no number."""
    found = [0.0, -0.0, 0.9, -0.9, -1.0, -1.5, -128.0, -129.5, 254.9, 300.0, 70000.5, 1e30, -1e30]
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):
        for sign in (1.0, -1.0):
            end = sign * 2.0**bits
            found += [end, end + 1, end - 1, end * 1.5, np.nextafter(end, 0), end + end / 1024]
    return [*found, math.inf, -math.inf, math.nan]


def expected(x: float, dtype: str) -> int:
    through = 64 if dtype in ("int64", "uint32", "uint64") else 32
    end = 1 << (through - 1)
    whole = -end
    if math.isfinite(x):
        cut = math.trunc(x)
        if -end <= cut < (2 * end if dtype == "uint64" else end):
            whole = cut
    width = int(dtype.removeprefix("u").removeprefix("int"))
    low = whole & ((1 << width) - 1)
    return low - (1 << width) if dtype[0] == "i" and low >> (width - 1) else low


@pytest.mark.sampled(3, slow=1)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("source", FLOATS)
def test_floats_that_have_no_place(device: str, source: str) -> None:
    kind = ml_dtypes.bfloat16 if source == "bfloat16" else np.dtype(source)
    with np.errstate(over="ignore"):
        values = np.array(edges(), np.float64).astype(kind)
    values = np.resize(values, 301)  # whole vectors and a rest
    x = it.asarray(values, device=device)
    for to in INTEGERS:
        wanted = [expected(float(v), to) for v in values]

        def cast(x: Tensor, to: str = to) -> Tensor:
            return it.astype(x, to)

        assert cast(x).tolist() == wanted, to
        assert compile(lambda x, cast=cast: cast(x[::-1]))(x).tolist() == wanted[::-1], to
        assert cast(x[:1]).tolist() == wanted[:1]
        singly = [compile(cast)(x[at : at + 1]).tolist()[0] for at in range(0, 60, 7)]
        assert singly == wanted[:60:7], to


def test_many_of_them_in_any_layout() -> None:
    values = np.random.default_rng(0).uniform(-1e5, 1e5, (300, 257)).astype(np.float32)
    wanted = np.trunc(values).astype(np.int64).astype(np.uint16)
    for device in ("numpy", "cpu"):
        x = it.asarray(values, device=device)
        np.testing.assert_array_equal(it.astype(x, "uint16").numpy(), wanted)
        turned = it.astype(it.permute_dims(x, (1, 0)), "uint16")
        np.testing.assert_array_equal(turned.numpy(), wanted.T)
