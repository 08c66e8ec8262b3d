"""The checks of one case: what a backend must do for every call of every operation."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ingle.tensor import asarray
from ingle.tensor.operation import Operation

from .bits import same_bits
from .cases import Case
from .derivatives import backward_all, check_gradient, direction, gradient_arrays, inner
from .layouts import LAYOUTS
from .oracle import Judge, check_values
from .running import Lay, NothingToCheckError, pull_back, run_case
from .trees import fill_arrays

SHOWN = 12
"""How many problems one failure lists."""


class Findings:
    """Collects what went wrong over many cases, to fail once with all of it."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.problems: list[str] = []
        self.first: Exception | None = None
        self.checked = 0

    @contextmanager
    def at(self, name: str) -> Iterator[None]:
        """Notes whatever the block raises under a name, unless there is nothing to check."""
        try:
            yield
        except NothingToCheckError:
            return
        except AssertionError as error:
            self._note(error, f"{name}: {error}")
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
            self._note(error, f"{name}: {type(error).__name__}: {error} [{where}]")
        self.checked += 1

    def _note(self, error: Exception, text: str) -> None:
        self.first = self.first or error
        self.problems.append(text.partition("\nassert ")[0])

    def close(self) -> None:
        """Raises an `AssertionError` if anything was noted."""
        if self.problems:
            shown = "\n  ".join(self.problems[:SHOWN])
            left = len(self.problems) - SHOWN
            more = f"\n  and {left} more" if left > 0 else ""
            raise AssertionError(f"{self.subject}:\n  {shown}{more}") from self.first


def check_forward(case: Case, where: str, **options: Any) -> None:
    """Values, shapes and dtypes; the inputs keep their values; a second run gives the same.

    A backend that fuses what it has seen before may keep half types wider inside a kernel. It has
    seen them at the third run at the latest: the first one may be mixed with what an earlier case
    has left undone.
    """
    run = run_case(case, where, **options)
    for x, array in zip(run.inputs, case.arrays, strict=True):
        assert same_bits(x, array), "an input was modified"
    judge = Judge(case)
    judge.check(run.results, run.capture.operations)
    again = run_case(case, where, **options)
    if case.dtype.is_floating and case.dtype.itemsize == 2:
        judge.check(again.results, again.capture.operations)
        run, again = run_case(case, where, **options), run_case(case, where, **options)
    for first, second in zip(run.results, again.results, strict=True):
        assert same_bits(first, second), "a second run gave other bits"


def check_first_order(case: Case, where: str, expand: Operation | None = None) -> None:
    """Gradients by every inexact input, and the values of the recorded run."""
    rng = np.random.default_rng(7)
    back = pull_back(case, where, rng, expand=expand)
    results = back.run.results
    check_values(case, [r.detach() for r in results], back.run.capture.operations)
    found = gradient_arrays(back.gradients, back.run.tracked)
    check_gradient(case, found, back.cotangents, [r.dtype for r in results], rng)


def check_second_order(case: Case, where: str) -> None:
    """The gradient of a directional derivative against differences of first gradients."""
    rng = np.random.default_rng(11)
    back = pull_back(case, where, rng, create_graph=True)
    tracked = back.run.tracked
    weights = [
        None if x is None else direction(rng, np.empty(x.shape, x.dtype.dtype)) for x in tracked
    ]
    first = [None if x is None else back.gradients.get(x) for x in tracked]
    pairs = [(g, w) for g, w in zip(first, weights, strict=True) if g is not None]
    second = gradient_arrays(backward_all([g for g, _ in pairs], [w for _, w in pairs]), tracked)
    along = [None if g is None else direction(rng, g) for g in second]

    def projected(step: float) -> float:
        moved = [a if d is None else a + step * d for a, d in zip(case.arrays, along, strict=True)]
        run = run_case(case, where, track=True, layout=_feed(moved, where))
        values = gradient_arrays(backward_all(run.results, back.cotangents), run.tracked)
        return _sum_of_products(values, weights)

    step = 6e-6
    expected = (projected(step) - projected(-step)) / (2 * step)
    got = _sum_of_products(second, along)
    terms = [(g, d) for g, d in zip(second, along, strict=True) if g is not None and d is not None]
    scale = abs(expected) + sum(float(np.sum(np.abs(g * d))) for g, d in terms) + 1.0
    assert abs(got - expected) <= 1e-5 * case.sample.condition * scale, (
        f"the second derivative along random directions is {got:.8g}, differences of the first "
        f"say {expected:.8g}"
    )


def _sum_of_products(a: Sequence[np.ndarray | None], b: Sequence[np.ndarray | None]) -> float:
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    return sum(inner(x, y) for x, y in pairs)


def _feed(arrays: Sequence[np.ndarray], where: str) -> Lay:
    rest = iter(arrays)
    return lambda _: asarray(next(rest), device=where)


def check_layouts(case: Case, where: str) -> None:
    """The same result for inputs that are views with unusual strides."""
    own = Judge(case)
    for name, layout in LAYOUTS.items():
        chosen = case if layout.equal is None else with_values(case, layout.equal)
        if name != "plain" and not any(layout.fits(a) for a in chosen.arrays):
            continue
        judge = own if chosen is case else Judge(chosen)
        run = run_case(chosen, where, layout=lambda a, made=layout: made(a, where))  # type: ignore[misc]
        try:
            judge.check(run.results, run.capture.operations)
        except AssertionError as error:
            raise AssertionError(f"with {name} inputs: {error}") from None


def with_values(case: Case, change: Callable[[np.ndarray], np.ndarray]) -> Case:
    """The case with other values in its arrays, where any values make sense."""
    if case.operation.traits.kind not in ("elementwise", "reduction", "movement", "contraction"):
        return case
    args, kwargs = fill_arrays(case.tree(), [change(a) for a in case.arrays])
    return replace(case, sample=replace(case.sample, args=args, kwargs=kwargs))
