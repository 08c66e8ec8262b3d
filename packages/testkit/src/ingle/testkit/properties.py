"""Property tests of every operation: random variations of its samples against its reference.

Each variation is computed right or refused with an error of Ingle that names the operation. A
failing one is shrunk towards the room's own sample, and printed as a call that one can paste.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st

from ingle.tensor import Tensor
from ingle.tensor.errors import IngleError

from .bits import same_bits
from .cases import Case, Subject, cases, differentiable, names_of
from .checks import check_first_order, with_values
from .layouts import LAYOUTS
from .oracle import Oracle, check_values, takes
from .repro_source import call_text
from .running import FAULTS, NothingToCheckError, run_case
from .variation import Shape, Variation, varied

LEAD: tuple[Shape, ...] = ((), (), (), (), (2,), (1, 3), (0,))
"""Axes that a variation may put in front of all arrays."""

LARGEST = 40
"""The largest size that a variation gives an axis."""


class Tally(Counter[str]):
    """How often variations were `checked`, `refused`, or could not be made or answered."""


def check(
    subject: Subject, where: str, dtypes: Sequence[str], examples: int, *, seeded: bool = True
) -> Tally:
    """Tries variations of a subject's samples; raises an `AssertionError` for a wrong one.

    Args:
        subject: the operation or function.
        where: the device.
        dtypes: the dtypes to try.
        examples: how many variations.
        seeded: whether they are the same each time.
    """
    tally = Tally()
    counts = {d: n for d in dtypes if (n := sum(1 for _ in cases(subject, d)))}
    if not counts:
        return tally

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=seeded,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
        print_blob=False,
    )
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        dtype = data.draw(st.sampled_from(list(counts)))
        how = _variation(data, subject, counts[dtype])
        case = varied(subject, dtype, how)
        if case is None:
            tally["unmade"] += 1
            return
        layouts = [data.draw(st.sampled_from(list(LAYOUTS))) for _ in case.arrays]
        case = _with_layouts(case, layouts)
        tally[_attempt(case, where, layouts)] += 1

    holds()
    return tally


def _variation(data: st.DataObject, subject: Subject, count: int) -> Variation:
    kind = subject.traits.kind
    free = kind == "elementwise" and data.draw(st.booleans())
    special = kind in ("elementwise", "movement", "reduction")
    return Variation(
        number=data.draw(st.integers(0, count - 1)),
        seed=data.draw(st.integers(0, 999)),
        resized=lambda n: data.draw(st.sampled_from(_sizes(n))),
        reshaped=_broadcasting(data) if free else _leading(data),
        statics=data.draw(st.booleans()),
        special=data.draw(st.sampled_from((0, 0, 1, 5))) if special else 0,
    )


def _sizes(size: int) -> list[int]:
    return [size, *(n for n in (size + 1, 2 * size, 1, 2, 3, 5, 0) if n <= max(size, LARGEST))]


def _leading(data: st.DataObject) -> Callable[[Shape], Shape]:
    lead = data.draw(st.sampled_from(LEAD))
    return lambda shape: lead + shape


def _broadcasting(data: st.DataObject) -> Callable[[Shape], Shape]:
    """Any shapes that broadcast with one another."""
    common = tuple(data.draw(st.lists(st.integers(0, 4), max_size=4)))

    def part(shape: Shape) -> Shape:
        kept = data.draw(st.integers(0, len(common)))
        ones = data.draw(st.sets(st.integers(0, 3)))
        return tuple(1 if i in ones else n for i, n in enumerate(common[kept:]))

    return part


def _with_layouts(case: Case, layouts: Sequence[str]) -> Case:
    """The case with such values as its layouts can hold."""
    rest = iter(layouts)

    def fitting(array: np.ndarray) -> np.ndarray:
        equal = LAYOUTS[next(rest)].equal
        return array if equal is None else equal(array)

    return with_values(case, fitting)


def _attempt(case: Case, where: str, layouts: Sequence[str]) -> str:
    """What became of a variation: `checked`, `refused` or `unanswered`."""
    try:
        outcome = _outcome(case, where, layouts)
        if outcome == "checked" and _has_gradient(case):
            check_first_order(case, where)
    except NothingToCheckError:
        return "refused"
    except Exception as error:
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        said = f"{kind}{error}".partition("\nassert ")[0]
        raise AssertionError(f"{said}\nin this call:\n{call_text(case, where, layouts)}") from error
    return outcome


def _outcome(case: Case, where: str, layouts: Sequence[str]) -> str:
    rest = iter(layouts)

    def laid_out(array: np.ndarray) -> Tensor:
        return LAYOUTS[next(rest)](array, where)

    try:
        run = run_case(case, where, layout=laid_out)
        for result in run.results:
            result.numpy()  # a device that runs ahead says here what it refuses
    except FAULTS:
        raise
    except IngleError as error:
        names = names_of(case.operation)
        if not case.has_functions and not any(n in str(error) for n in names):
            raise AssertionError(f"{error!r} does not name the operation") from error
        return "refused"
    for x, array in zip(run.inputs, case.arrays, strict=True):
        assert same_bits(x, array), "an input was modified"
    if not takes(case, run.results):
        return "unanswered"
    check_values(case, run.results, run.capture.operations)
    return "checked"


def _has_gradient(case: Case) -> bool:
    wide = case.dtype.name in ("float64", "complex128")
    if not (wide and case.sample.gradient and differentiable(case.operation)):
        return False
    oracle = Oracle(case)  # an infinite value has no differences
    return all(np.isfinite(x).all() for x in oracle(oracle.arrays))
