"""Random programs: recorded and compiled, they are as right as NumPy is operation by operation."""

from __future__ import annotations

import numpy as np
import pytest

from ingle.fusion import compile
from ingle.testkit.error_bounds import check
from ingle.testkit.program_generator import random_program
from ingle.testkit.programs import execute

WAYS = {"recorded": lambda f: f, "compiled": compile}
DTYPES = {
    "float32": range(40), "float64": range(200, 210), "bfloat16": range(300, 320),
    "float16": range(400, 410), "int32": range(500, 510), "int64": range(600, 610),
    "uint8": range(700, 710), "int8": range(800, 810),
}  # fmt: skip
GRADIENTS = {
    "float32": range(20), "float64": range(200, 210), "bfloat16": range(300, 310),
    "float16": range(400, 410),
}  # fmt: skip
PIECES = {
    "float32": range(2000, 2020), "float64": range(2100, 2110), "bfloat16": range(2200, 2210),
    "float16": range(2300, 2310), "int64": range(2400, 2410), "uint8": range(2500, 2510),
}  # fmt: skip
FOUND = [
    (1055, "float32", False), (1221, "float32", True), (1375, "float16", False),
    (1434, "float32", False), (1489, "float64", True), (1565, "float32", False),
    (2789, "float16", True), (2846, "float16", True), (3349, "bfloat16", True),
    (5, "float32", False), (9, "float32", False), (2, "bfloat16", False), (200110, "uint8", False),
]  # fmt: skip
"""Seeds that were wrong once, or taken for wrong."""


def program(seed, dtype, gradient, pieces=False):
    calls = (3, 30) if gradient else (5, 60)
    return random_program(seed, dtype=dtype, gradient=gradient, calls=calls, pieces=pieces)


def chunks(table):
    return [
        pytest.param(dtype, seeds[i : i + 10], id=f"{dtype}-{seeds[i]}")
        for dtype, seeds in table.items()
        for i in range(0, len(seeds), 10)
    ]


def check_all(seeds, dtype, gradient, pieces=False):
    """Compiled, and every third one recorded."""
    judged = 0
    for seed in seeds:
        way = "recorded" if seed % 3 == 0 else "compiled"
        judged += check(program(seed, dtype, gradient, pieces), "cpu", WAYS[way])
    assert judged > len(seeds) // 2


@pytest.mark.slow
@pytest.mark.sampled(2, slow=0)
@pytest.mark.parametrize(("dtype", "seeds"), chunks(DTYPES))
def test_programs(dtype, seeds):
    check_all(seeds, dtype, False)


@pytest.mark.slow
@pytest.mark.sampled(2, slow=0)
@pytest.mark.parametrize(("dtype", "seeds"), chunks(GRADIENTS))
def test_gradients_of_programs(dtype, seeds):
    check_all(seeds, dtype, True)


@pytest.mark.slow
@pytest.mark.sampled(2, slow=0)
@pytest.mark.parametrize(("dtype", "seeds"), chunks(PIECES))
def test_programs_of_pieces(dtype, seeds):
    check_all(seeds, dtype, False, pieces=True)
    if "float" in dtype:
        check_all(seeds[:5], dtype, True, pieces=True)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("seed", "dtype", "gradient"), FOUND)
@pytest.mark.parametrize("way", WAYS)
def test_programs_that_were_wrong_once(seed, dtype, gradient, way):
    check(program(seed, dtype, gradient), "cpu", WAYS[way])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("gradient", [False, True])
def test_fused_programs_have_the_bits_of_their_operations_one_by_one(dtype, gradient):
    for seed in range(1000, 1010):
        one = execute(program(seed, dtype, gradient), "cpu")  # the first time nothing is fused
        fused = execute(program(seed, dtype, gradient), "cpu", compile)
        for a, b in zip(one, fused, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(10_000, 20_000, 100))
def test_many_programs(start):
    for seed in range(start, start + 100):
        dtype = list(DTYPES)[seed % len(DTYPES)]
        gradient = "float" in dtype and seed % 4 == 0
        drawn = program(seed, dtype, gradient, pieces=seed % 5 == 0)
        check(drawn, "cpu", WAYS["recorded" if seed % 3 else "compiled"])
