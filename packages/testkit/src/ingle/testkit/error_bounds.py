"""Whether a run of a program is right, and what a wrong one comes down to.

Integers have to be equal. Floats are compared with float64, and a run may be off by as much as
plain execution is. How much that is, one plain run does not tell: its errors may cancel by luck,
above all in an output of few elements. So there are more draws of it, each compared with float64
at the inputs that it had:

- at inputs that are a few units in the last place away, which makes other rounding errors of the
  same size;
- in float64 with composites written out and errors put in: each value is off by up to half a unit
  wherever it is used, elementary functions and sums by up to one. For a program at hand, plain
  execution may be better than that by design: it is exact where equal values are subtracted, while
  a kernel may keep a half type in float32 for one use and store it rounded for another, and NumPy
  adds few numbers from the left, which is best where the last is the largest.

If the judged run's errors were another draw, each of N draws would be the largest equally often:
the largest plain one would be exceeded once in N + 1 outputs, and twice the largest hardly ever
(for a normal distribution and 64 draws once in some 10**6). So right is what stays within the
largest of a few plain errors plus two units, as nearly every run does at once, or else within
twice the largest of 65 plus two. Twice also covers elementary functions that are one unit off where
NumPy's are half a unit off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import ingle.tensor as it
from ingle.tensor.device import staged_on
from ingle.tensor.dtypes import as_dtype

from .perturbed_oracle import perturbed
from .programs import Array, Input, Program, Results, execute

DRAWS = 64
SLACK, FACTOR = 2.0, 2.0
"""Units in the last place, and multiples of the plain error, that a run may be off."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """An output that is wrong.

    Attributes:
        place: which of the results.
        error: in units of the dtype at the size of what is right.
        plain: the largest error of plain execution.
    """

    place: int
    error: float
    plain: float


def errors(got: Sequence[Array], want: Sequence[Array], dtype: str) -> Array:
    """For each output the largest error, in units of its dtype at the size of what is right.

    Small elements count as a thousandth of the largest one: sums that cancel lose that much.
    """
    found = []
    info = it.finfo(dtype)
    # Where what is right is 0, float64 has the range of float32, whose errors it is judged by.
    least = max(float(info.smallest_normal), float(it.finfo("float32").smallest_normal))
    for a, b in zip(got, want, strict=True):
        if a.shape != b.shape:
            found.append(np.inf)
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        most = np.abs(b).max(initial=0.0, where=np.isfinite(b))
        scale = np.maximum(np.abs(b), most * 1e-3 + least)
        with np.errstate(all="ignore"):
            off = np.abs(a - b) / (scale * float(info.eps))
        off = np.where(np.isnan(a) & np.isnan(b) | (a == b), 0.0, off)
        found.append(float(np.where(np.isnan(off), np.inf, off).max(initial=0.0)))
    return np.array(found)


def judge(program: Program, got: Results, *, times: int = 1) -> list[Wrong] | None:
    """What is wrong with the results of a run; None where there is nothing right to compare with.

    Args:
        program: what was run.
        got: its results; see `execute`.
        times: how often it was run in a row.
    """
    dtype = program.inputs[0].dtype
    if not as_dtype(dtype).is_floating:
        want = execute(program, "numpy", times=times)
        return [
            Wrong(i, float(np.sum(a != b)) if a.shape == b.shape else np.inf, 0.0)
            for i, (a, b) in enumerate(zip(got, want, strict=True))
            if a.dtype != b.dtype or not np.array_equal(a, b)
        ]
    with np.errstate(all="ignore"):
        want = execute(program, "numpy", times=times, exact=True)
        if not all(np.isfinite(w).all() for w in want):
            return None
        return _beyond(errors(got, want, dtype), _plain_errors(program, dtype, times))


def _plain_errors(program: Program, dtype: str, times: int) -> Iterator[Array]:
    """Errors of plain execution, at the inputs and then near to them.

    For float64 there is nothing to compare with. Counted in units in the last place its errors are
    like those of float32; and since what counts as right is off, too, they occur twice. Half types
    are summed in float32, where the order is of no account.
    """
    kind, sides = ("float32", 2.0) if dtype == "float64" else (dtype, 1.0)
    eps = float(it.finfo(kind).eps)
    for draw in range(DRAWS + 1):
        near = _near(program, draw, 8 * eps if draw else 0.0, kind)
        want = execute(near, "numpy", times=times, exact=True)
        if draw % 2:
            with staged_on(perturbed(draw, eps)) if kind == "float32" else nullcontext():
                got = execute(near, "numpy", times=times, exact=True, noise=eps / 2, seed=draw)
        else:
            got = execute(near, "numpy", times=times)
        yield sides * errors(got, want, kind)


def _near(program: Program, draw: int, scale: float, dtype: str) -> Program:
    """The program with other inputs."""

    def off(x: Input) -> Input:
        return replace(x, dtype=dtype, scale=scale, noise=draw)

    return replace(
        program,
        inputs=tuple([off(x) for x in program.inputs]),
        cells=tuple([off(x) for x in program.cells]),
    )


def _beyond(found: Array, plain: Iterator[Array]) -> list[Wrong]:
    most = np.zeros_like(found)
    for drawn in plain:
        most = np.maximum(most, drawn)
        if (found <= most + SLACK).all():
            return []
    return [
        Wrong(int(i), float(found[i]), float(most[i]))
        for i in np.flatnonzero(~(found <= FACTOR * most + SLACK))
    ]


def check(
    program: Program,
    device: str,
    way: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda f: f,
    *,
    times: int = 3,
) -> bool:
    """Runs a program, and says whether there was anything right to compare it with.

    Args:
        program: what to run.
        device: where.
        way: of executing, such as `ingle.fusion.compile`.
        times: how often in a row.

    Raises:
        AssertionError: it is wrong, or raised something; with the least that still is.
    """
    found = _outcome(program, device, way, times)
    if not found:
        return found is not None

    def fails(other: Program) -> bool:
        now = _outcome(other, device, way, times)
        return bool(now) and type(now) is type(found)

    least = shrink(program, fails)
    cause = _outcome(least, device, way, times)
    told = cause if isinstance(cause, Exception) else "\n".join(map(str, cause or ()))
    error = cause if isinstance(cause, Exception) else None
    raise AssertionError(f"on {device}:\n{told}\n\n{least}") from error


def _outcome(
    program: Program, device: str, way: Callable[[Callable[..., Any]], Callable[..., Any]],
    times: int,
) -> list[Wrong] | Exception | None:  # fmt: skip
    try:
        got = execute(program, device, way, times=times)
    except Exception as error:  # whatever a device raises is a finding
        return error
    return judge(program, got, times=times)


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """A smaller program that fails as well.

    Args:
        program: one that fails.
        fails: whether another one does, however.
    """
    for smaller in [program.only([o]) for o in program.outputs]:
        if fails(smaller):
            program = smaller
            break
    done = False
    while not done:
        done = True
        for smaller in _smaller(program):
            if fails(smaller):
                program, done = smaller, False
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with some of the calls: without those at the end, or without those before one."""
    first, count = len(program.inputs), len(program.inputs) + len(program.calls)
    shapes = _shapes(program)
    if not program.gradient:
        for value in range(first, count - 1):
            yield program.only([value])
    for value in range(count - 2, first - 1, -1):
        put = Input(shapes[value], program.inputs[0].dtype, (value, count))
        smaller = program.cut(value, put)
        if len(smaller.calls) < len(program.calls):
            yield smaller


def _shapes(program: Program) -> list[tuple[int, ...]]:
    count = len(program.inputs) + len(program.calls)
    whole = replace(program, outputs=tuple(range(count)), gradient=False)
    return [a.shape for a in execute(whole, "numpy")[:count]]
