"""Measuring how a contraction runs best on this machine, once for all problems of about its size.

A winner is kept on disk, beside the compiled kernels (`ingle.fusion.device.tuning`). What is tried
gives the same bits as the first guess; a candidate that does not is reported and never chosen. A
process spends at most `winners.SECONDS` on it, on its first large contractions.
`INGLE_AUTOTUNE=0` takes the first guess always.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingle.fusion.device import is_measured
from ingle.fusion.device.kernels import SIZES
from ingle.fusion.device.tuning import Entry, TuningWarning, quickest, rounded_size
from ingle.tensor.callers import warn
from ingle.tensor.dtypes import as_dtype

from ..jit.engine import engine
from .blocking import choose, first_guess, variations
from .entries_table import entries_table
from .launches import contraction, identity
from .plan import A, B, Contraction, Pointer
from .problem import Choice, Problem, Variation
from .winners import Asked, Winners, variation_in, winners

SHARE = 0.03
"""What one problem may take of it."""
SMALLEST = 20_000_000
"""Multiplications from which on a measurement is worth its time."""
LARGEST_BYTES = 1 << 28
"""Bytes of operands and result up to which there is memory to measure with."""
WORTHWHILE = 0.97
"""A candidate must take less than this part of the guess's time: smaller gains are noise."""


def choice_for(
    problem: Problem, workers: int, asked: dict[str, Asked] | None = None
) -> Choice:  # fmt: skip
    """How to compute a problem: by measurement if there is one or time for one.

    Args:
        problem: what is computed.
        workers: on how many threads.
        asked: is told, by the problem's name, what the choice goes by.
    """
    if not is_measured() or problem.windows is not None:
        return choose(problem, workers)
    key, answer = tuner().answer(problem, workers)
    if asked is not None:
        asked[key] = answer
    return choose(problem, workers, answer.variation)


def rounded(problem: Problem) -> Problem:
    """The problem that stands for all of about its size and its kind of strides.

    >>> p = Problem("float32", "float32", (), 1000, 700, 130, (130, 1), (700, 1))
    >>> rounded(p)[3:8]
    (1024, 768, 128, (128, 1), (768, 1))
    """
    batch, m, n, k = problem.batch, *map(rounded_size, (problem.m, problem.n, problem.k))
    count = math.prod(batch)
    shape = (rounded_size(count),) if count > 1 else ()
    return Problem(
        problem.a_dtype, problem.b_dtype, shape, m, n, k,
        _strides(problem.a_strides, shape, m, k), _strides(problem.b_strides, shape, k, n),
    )  # fmt: skip


def _strides(
    strides: tuple[int, ...], batch: tuple[int, ...], rows: int, columns: int
) -> tuple[int, ...]:
    """Those of a dense matrix with the same axis innermost."""
    along_rows = abs(strides[-2]) < abs(strides[-1])
    own = (1, rows) if along_rows else (columns, 1)
    repeats = not any(strides[: len(strides) - 2])
    return (*((0 if repeats else rows * columns) for _ in batch), *own)


class Tuner:
    """Measures products that nobody has measured yet.

    Args:
        winners: what is known, and where what is found is kept.
    """

    def __init__(self, winners: Winners) -> None:
        self._winners = winners

    @property
    def left(self) -> float:
        """How many seconds may still be spent."""
        return self._winners.left

    def variation(self, problem: Problem, workers: int) -> Variation | None:
        """The winner for a problem, measured if it is not known and there is time; else None."""
        return self.answer(problem, workers)[1].variation

    def answer(self, problem: Problem, workers: int) -> tuple[str, Asked]:
        """The name of a problem and the winner, measured if need be and there is time."""
        alike = rounded(problem)
        key = _key(alike, workers)
        found = self._winners.known(key)
        if found is None or not _was_tried(found["variation"], alike, workers):
            due = _worth_it(alike) and bool(variations(alike, workers))
            if self.left <= 0 or not due:
                return key, Asked(None, due)
            measure = functools.partial(self._measure, alike, workers)
            try:
                found = self._winners.measured(key, found, measure)
            except MemoryError:  # what is computed may still fit, and the guess has the same bits
                return key, Asked(None, False)
            if found is None:
                return key, Asked(None, True)
        return key, Asked(variation_in(found), False)

    def _measure(self, problem: Problem, workers: int) -> Entry | None:
        found = tune(problem, workers, min(SHARE, self.left))
        if found is None:
            return None
        winner, guess, best = found
        return {"variation": list(winner), "seconds": best, "guess_seconds": guess}


def tune(problem: Problem, workers: int, seconds: float) -> tuple[Variation, float, float] | None:
    """The best variation found in some time, the seconds of the first guess, and its own.

    None where LLVM took the time, as it compiled the kernels of the guess: one that nothing was
    tried beside has not won, and next time its kernels are there.
    """
    trial, before = _Trial(problem, workers), _compiled()
    end = time.perf_counter() + seconds
    winner = first_guess(problem, workers)
    groups = variations(problem, workers)
    slices = 1 + sum(len(g) for g in groups)
    guess = best = trial.measure(winner, seconds / slices)
    if time.perf_counter() >= end and _compiled() > before:
        return None
    for group in groups:
        base = winner
        for candidate in group:
            left = end - time.perf_counter()
            if left <= 0:
                return winner, guess, best
            tried = _changed(base, first_guess(problem, workers), candidate)
            taken = trial.measure(tried, min(left, seconds / slices))
            if taken < best * WORTHWHILE:
                winner, best = tried, taken
    return winner, guess, best


def _compiled() -> int:
    """How many modules LLVM has compiled in this process."""
    return engine().counts.compiled


def _was_tried(known: Sequence[Any], problem: Problem, workers: int) -> bool:
    """Whether a winner from the disk is one that this version's measurement can find."""
    candidates = [c for group in variations(problem, workers) for c in group]
    tried = zip(*[first_guess(problem, workers), *candidates], strict=True)
    return all(value in values for value, values in zip(known, tried, strict=True))


def _changed(base: Variation, guess: Variation, candidate: Variation) -> Variation:
    """What the candidate changes about the guess, changed about the base."""
    old = guess._asdict()
    changed = {name: x for name, x in candidate._asdict().items() if x != old[name]}
    return base._replace(**changed)


class _Trial:
    """Operands of a problem, and runs of its variations on them."""

    def __init__(self, problem: Problem, workers: int) -> None:
        self.problem = problem
        self.workers = workers
        count = math.prod(problem.batch)
        numbers = np.random.default_rng(0)
        self.a = _operand(numbers, problem.a_dtype, count * problem.m * problem.k)
        self.b = _operand(numbers, problem.b_dtype, count * problem.k * problem.n)
        self.expected: np.ndarray | None = None

    def measure(self, variation: Variation, seconds: float) -> float:
        """The shortest of some runs; infinity if the result is another one."""
        problem = self.problem
        chosen = choose(problem, self.workers, variation)
        row = (problem.n, 1)
        strides = (*(problem.m * problem.n for _ in problem.batch), *row)
        size = math.prod(problem.batch) * problem.m * problem.n
        result = np.empty(size, as_dtype(problem.a_dtype).dtype)
        made = contraction(
            problem, identity(problem.a_dtype), [strides], workers=self.workers, choice=chosen
        )
        buffers = {A: self.a, B: self.b, Pointer("operand"): result}
        run = table_of(made, buffers, alone=self.workers == 1)
        run()
        if self.expected is None:
            self.expected = result
        elif result.tobytes() != self.expected.tobytes():
            warn(
                f"{variation} gives another result than the guess for {problem}; it is not used",
                TuningWarning,
            )
            return math.inf
        return quickest(run, seconds)


def _operand(numbers: np.random.Generator, dtype: str, count: int) -> np.ndarray:
    return numbers.random(count, np.float32).astype(as_dtype(dtype).dtype)


def table_of(
    made: Contraction, buffers: dict[Pointer, np.ndarray], *, alone: bool
) -> Callable[[], None]:
    """A contraction on arrays, ready to run; it holds the arrays and the scratch memory.

    Args:
        alone: on one thread: the scratch memory is that of one.
    """
    held = dict(buffers)
    for number, size in enumerate(made.scratch):
        memory = np.empty(size + 64, np.uint8)
        held[Pointer("scratch", number)] = memory[-memory.ctypes.data % 64 :]
    places = {pointer: (number, 0) for number, pointer in enumerate(held)}
    table = entries_table(made.entries, places, alone=alone)
    table.bases[:] = [array.ctypes.data for array in held.values()]

    def run(_held: object = held) -> None:
        table.run()

    return run


def _worth_it(problem: Problem) -> bool:
    count = math.prod(problem.batch)
    a, b = SIZES[problem.a_dtype] * problem.m, SIZES[problem.b_dtype] * problem.n
    size = count * (problem.k * (a + b) + a * problem.n)
    return size <= LARGEST_BYTES and count * problem.m * problem.n * problem.k >= SMALLEST


def _key(problem: Problem, workers: int) -> str:
    """The rounded problem as text."""
    sizes = "x".join(map(str, (*problem.batch, problem.m, problem.n, problem.k)))
    layout = "".join(
        "k" if along == 1 else "o" for along in (problem.a_strides[-1], problem.b_strides[-2])
    )
    shared = "".join(
        "s" if not any(s[:-2]) else "-" for s in (problem.a_strides, problem.b_strides)
    )
    dtypes = f"{problem.a_dtype} {problem.b_dtype} {problem.packed_kind}"
    return f"{dtypes} {sizes} {layout}{shared} {workers} threads"


@functools.cache
def tuner() -> Tuner:
    """The tuner of this process."""
    return Tuner(winners())
