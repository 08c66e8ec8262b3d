"""What of an epilogue's operands is brought near, and that it changes no bit."""

from __future__ import annotations

import numpy as np
import pytest
from array_products import multiply, problem_of, random

from ingle.fusion.device.kernels import Instruction, Operand
from ingle_cpu.matmul.blocking import choose, widths
from ingle_cpu.matmul.fetching import Fetched, fetched_of
from ingle_cpu.matmul.launches import Choice, Epilogue, Problem, identity

ADDED = Epilogue(
    (
        Instruction("result", "float32", (), (0, 0)),
        Instruction("load", "float32", (), 1),
        Instruction("add", "float32", (0, 1)),
    ),
    (Operand("float32", True), Operand("float32", False)),
    ((0, 2),),
)
"""The sums and what an operand holds."""


def _problem(m: int, n: int, k: int) -> Problem:
    return Problem("float32", "float32", (), m, n, k, (k, 1), (n, 1))


def _choice(problem: Problem, near: int) -> Choice:
    """Panels that are packed before, of which so many stay near; all if 0."""
    usual = choose(problem, 1)._replace(pack_b="before", row_blocks=1, panel_blocks=1)
    return usual._replace(near=near or widths(problem, usual)[2])


def _fetched(m: int, n: int, k: int, near: int, epilogue: Epilogue = ADDED) -> Fetched:
    problem = _problem(m, n, k)
    strides = [(n, 1) for _ in epilogue.operands]
    return fetched_of(problem, _choice(problem, near), epilogue, strides)


def test_tiles_fetch_what_is_read_where_all_panels_are_near() -> None:
    # What is written is asked for.
    assert _fetched(32, 512, 128, near=0) == Fetched([1, 0], 4 * 512, ahead=1, asked=1)


def test_what_is_read_and_written_is_asked_for_where_tiles_fetch_panels() -> None:
    assert _fetched(32, 512, 128, near=1) == Fetched([0, 1], 4 * 512, asked=2)


@pytest.mark.parametrize(("k", "count"), [(32, 0), (64, 1), (127, 1), (128, 2), (1024, 2)])
def test_no_more_is_asked_for_than_sums_have_time_for(k: int, count: int) -> None:
    assert _fetched(32, 512, k, near=1).asked == count
    assert _fetched(32, 512, k, near=0).asked == min(count, 1)


def test_what_is_stored_as_it_is_goes_to_the_result_at_once() -> None:
    for near in (0, 1):
        assert _fetched(32, 512, 128, near, identity("float32")) == Fetched()


def test_operands_of_other_strides_are_left_out() -> None:
    problem = _problem(32, 512, 128)
    found = fetched_of(problem, _choice(problem, 1), ADDED, [(512, 1), (0, 1)])
    assert found == Fetched([0], 4 * 512, asked=1)


@pytest.mark.parametrize("shape", [(32, 512, 128), (33, 500, 130), (7, 70, 1500)])
def test_bits_stay(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = random((m, k), np.float32), random((k, n), np.float32, 1)
    added, results = random((m, n), np.float32, 2), []
    problem = problem_of(a, b)
    for near in (1, 0):
        c = np.full((m, n), np.nan, np.float32)
        multiply(a, b, [c, added], ADDED, choice=_choice(problem, near))
        results.append(c)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], a @ b + added, rtol=1e-3, atol=1e-3)
