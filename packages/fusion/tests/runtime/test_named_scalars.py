"""What kernels of a plan for all sizes take as numbers: computed, known, or of one size alone."""

from __future__ import annotations

from ingle.fusion.ir.scalar_program import ScalarProgram
from ingle.fusion.runtime.any_size_plan import _NamedScalars

GUARDED = ScalarProgram(
    2,
    ("if x0 < 0.0: return None", "y0 = x0 * 2.0", "y1 = x1 + y0"),
    ("y1", (3.0,), "x0"),
)


def test_numbers_come_from_results_and_from_what_a_size_brings() -> None:
    scalars = _NamedScalars(GUARDED, [3, 0, 1, 4, 2])
    assert scalars.at(GUARDED.results, (7.0, 8.0))([1.5, 10.0]) == [7.0, 13.0, 3.0, 8.0, 1.5]
    # Of another size known results and constants are others, and what is computed is the same.
    other = GUARDED._replace(results=("y1", (4.0,), "x0"))
    assert scalars.at(other.results, (70.0, 80.0))([1.5, 10.0]) == [70.0, 13.0, 4.0, 80.0, 1.5]


def test_a_guard_that_fails_gives_no_numbers() -> None:
    scalars = _NamedScalars(GUARDED, [0, 3]).at(GUARDED.results, (7.0,))
    assert scalars([-1.0, 10.0]) is None
    assert scalars([1.0, 10.0]) == [12.0, 7.0]
    # Nor where none of the numbers is computed.
    alone = GUARDED._replace(results=((3.0,),))
    guarded = _NamedScalars(alone, [0, 1]).at(alone.results, (7.0,))
    assert guarded([-1.0, 10.0]) is None
    assert guarded([1.0, 10.0]) == [3.0, 7.0]


def test_numbers_that_are_all_known_are_computed_of_nothing() -> None:
    known = ScalarProgram(1, (), ((3.0,), (4.0,)))
    scalars = _NamedScalars(known, [1, 2, 0]).at(known.results, (7.0,))
    assert tuple(scalars([0.0]) or ()) == (4.0, 7.0, 3.0)
