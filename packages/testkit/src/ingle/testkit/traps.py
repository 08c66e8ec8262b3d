"""Mistakes that samples of a few small numbers do not show: one check for each.

Results that share a buffer, with one another or with an operand, kernels that are right up to a
thousand elements or add up in another order each time, zeros that lose their sign, indices that are
clamped in silence.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor, asarray, device
from ingle.tensor.eager import REFERENCE
from ingle.tensor.errors import IngleError, OutOfRangeError
from ingle.tensor.operation import OPERATIONS, Operation

from .bits import same_bits
from .cases import Case, cases
from .checks import Findings
from .oracle import Judge
from .running import FAULTS, NothingToCheckError, run_case
from .variation import Variation, varied

LARGE = 4099
"""A prime above the sizes at which kernels change their way: 256, 1,024, 4,096."""
MOST = 1 << 17
"""Elements of a large sample at most."""
SIDE = 512
"""Rows and columns of what is assigned to: backends write in place where memory is worth it."""
REPEATED = 5
"""How often a long sum is made."""
SAMPLES, ENOUGH = 6, 40
"""How many samples of an operation are tried; how many operations must have a large one."""


def kernels(
    unsupported: Iterable[str] = (), only: Collection[str] | None = None
) -> Iterator[Operation]:
    """The operations that a backend has kernels for: those that are not made of others."""
    out = set(unsupported)
    for operation in list(OPERATIONS.values()):
        known = operation.public and operation.samples and operation.reference
        wanted = operation.name not in out and (only is None or operation.name in only)
        if known and operation.body is None and wanted:
            yield operation


def _first(operation: Operation, seed: int) -> Case | None:
    """The first call that the function takes, of something."""
    for dtype in ("float32", "int32"):
        for case in cases(operation, dtype, seed):
            if any(a.size for a in case.arrays):
                with suppress(NothingToCheckError):
                    run_case(case, REFERENCE)
                    return case
    return None


def check_results_are_apart(
    where: str, unsupported: Iterable[str] = (), only: Collection[str] | None = None
) -> None:
    """A result keeps its values when the operation runs again on others.

    Args:
        where: the device.
        unsupported: names of operations to leave out.
        only: names of operations to check alone.
    """
    findings = Findings(f"results on {where}")
    for operation in kernels(unsupported, only):
        case, other = _first(operation, 0), _first(operation, 1)
        if case is None or other is None:
            continue
        with findings.at(f"{operation.name}, called twice"):
            held = run_case(case, where).results
            before = [r.numpy().copy() for r in held]
            later = run_case(other, where).results
            for r in later:
                r.numpy()
            for r, values in zip(held, before, strict=True):
                assert same_bits(r, values), (
                    "a result changed when the operation ran on other values: its results share "
                    "a buffer"
                )
    findings.close()


def check_writes_in_place(where: str) -> None:
    """A result keeps its values when somebody assigns to its operand, and the other way round.

    All of these change nothing or are views, so that a device may give back the operand's memory.

    Args:
        where: the device.
    """
    values = np.ones((SIDE, SIDE), np.float32)
    calls: dict[str, Callable[[Tensor], Tensor]] = {
        "slice": lambda x: x[:, :],
        "part": lambda x: x[1:, 2:],
        "reshape": lambda x: it.reshape(x, (-1,)),
        "permute_dims": lambda x: x.mT,
        "broadcast_to": lambda x: it.broadcast_to(x, (2, SIDE, SIDE)),
        "concat": lambda x: it.concat([x]),
        "take": lambda x: it.take(x, it.arange(SIDE, device=where), axis=0),
        "astype": lambda x: x.astype("float64").astype("float32"),
        "where": lambda x: it.where(x > 0.0, x, 0.0),
        "maximum": lambda x: it.maximum(x, 0.0),
        "abs": it.abs,
        "floor": it.floor,
        "multiply": lambda x: x * 1.0,
        "sum": lambda x: it.sum(x, axis=()),
        "sort": lambda x: it.sort(x, axis=0),
    }
    findings = Findings(f"assignments on {where}")
    for name, call in calls.items():
        with findings.at(name):
            for of_operand in (True, False):
                # An assignment has memory of its own behind it, which the next one writes to.
                x = asarray(values, device=where)
                x[0, 0] = 1.0
                y = call(x)
                changed, kept = (x, y) if of_operand else (y, x)
                changed[1:] = 7.0
                changed += 1.0
                assert np.all(changed[1:].numpy() == 8.0)
                assert np.all(kept.numpy() == 1.0), (
                    f"an assignment to the {'operand' if of_operand else 'result'} changed the "
                    "other one: they share a buffer"
                )
    findings.close()


def check_repeats(where: str) -> None:
    """Long sums have the same bits each time: terms are added up in one order.

    Args:
        where: the device.
    """
    rng = np.random.default_rng(8)
    shape = 33, LARGE
    values, more = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    x, y = (asarray(a, device=where) for a in (values, more))
    rows = asarray(rng.integers(0, 7, LARGE), device=where)
    into = asarray(np.zeros((33, 7), np.float32), device=where)
    images, weights = it.reshape(x[:32], (4, 8, LARGE)), it.reshape(y[:3, :1080], (9, 8, 45))
    calls: dict[str, Callable[[], Tensor]] = {
        "sum": lambda: it.sum(x),
        "sum of rows": lambda: it.sum(x, axis=1),
        "sum of columns": lambda: it.sum(x.mT, axis=0),
        "mean": lambda: it.mean(x * y, axis=1),
        "matmul": lambda: x @ y.mT,
        "conv": lambda: it.conv1d(images, weights),
        "scatter_add": lambda: it.scatter_add(into, rows, x, axis=1),
        "cumulative_sum": lambda: it.cumulative_sum(x, axis=1),
        "softmax": lambda: it.softmax(x, axis=1),
    }
    findings = Findings(f"sums of {LARGE} on {where}, {REPEATED} times")
    for name, compute in calls.items():
        with findings.at(name):
            first = compute().numpy()
            for _ in range(REPEATED - 1):
                assert same_bits(compute(), first), "a later run gave other bits"
    findings.close()


def _enlarged(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-1], LARGE) if shape and shape[-1] > 1 else shape


def check_large(
    where: str, unsupported: Iterable[str] = (), only: Collection[str] | None = None
) -> None:
    """Each kernel on a sample with an axis of 4,099, where its own samples can have one.

    Args:
        where: the device.
        unsupported: names of operations to leave out.
        only: names of operations to check alone, besides one call of each family.
    """
    findings = Findings(f"{LARGE} elements on {where}")
    for operation in kernels(unsupported, only):
        case = _large(operation)
        if case is None:
            continue
        with findings.at(operation.name):
            try:
                run, expected = run_case(case, where), Judge(case)
            except FAULTS:
                raise
            except IngleError:
                raise NothingToCheckError from None  # the sizes make no sense together
            if max((r.size for r in run.results), default=0) <= MOST:
                expected.check(run.results, run.capture.operations)
    for name, (compute, values) in _large_calls(where).items():
        with findings.at(name):
            got = compute().numpy()
            assert got.shape == values.shape, f"shape {got.shape}, expected {values.shape}"
            wrong = np.flatnonzero(got.reshape(-1) != values.reshape(-1))
            assert not wrong.size, f"{wrong.size} of {got.size} differ, the first at {wrong[0]}"
    findings.close()
    enough = only is not None or findings.checked >= ENOUGH
    assert enough, f"only {findings.checked} operations had a large sample"


def _large_calls(where: str) -> dict[str, tuple[Callable[[], Tensor], np.ndarray]]:
    """Calls of families whose own samples cannot be large, on small integers, which are exact."""
    rng = np.random.default_rng(4)
    row = rng.integers(-4, 5, LARGE).astype(np.float32)
    wide = rng.integers(-4, 5, (3, LARGE)).astype(np.float32)
    places = rng.integers(0, LARGE, LARGE)
    x, w, at = (asarray(a, device=where) for a in (row, wide, places))
    added = row.copy()
    np.add.at(added, places, row)
    updated = wide.copy()
    updated[:, 1:] = row[:-1]

    def update() -> Tensor:
        y = w + 0.0
        y[:, 1:] = x[:-1]
        return y

    taps = np.array([1.0, -2.0, 3.0], np.float32)
    kernel = asarray(taps.reshape(1, 1, 3), device=where)
    return {
        "reshape": (lambda: (w * 1.0).reshape(LARGE, 3), wide.reshape(LARGE, 3)),
        "broadcast_to": (lambda: it.broadcast_to(x, (5, LARGE)), np.broadcast_to(row, (5, LARGE))),
        "slice": (lambda: w[::-1, 1::2] + 0.0, wide[::-1, 1::2]),
        "slice_update": (update, updated),
        "astype": (lambda: x.astype("int32"), row.astype(np.int32)),
        "take": (lambda: it.take(x, at), row[places]),
        "scatter_add": (lambda: it.scatter_add(x, at, x, axis=0), added),
        "arange": (lambda: it.arange(LARGE, device=where), np.arange(LARGE)),
        "full": (lambda: it.full((LARGE,), 3.0, device=where), np.full(LARGE, 3.0, np.float32)),
        "matmul": (lambda: w @ w.mT, wide @ wide.T),
        "outer product": (lambda: w.mT[:1200] @ w[:, :70], wide.T[:1200] @ wide[:, :70]),
        "conv": (
            lambda: it.conv1d(x.reshape(1, 1, LARGE), kernel),
            np.correlate(row, taps, "valid").reshape(1, 1, -1),
        ),
        "bitwise_xor": (lambda: at ^ (at + 1), places ^ (places + 1)),
    }


def _large(operation: Operation) -> Case | None:
    """The first of the operation's samples that can have an axis of that many elements."""
    for dtype, number in itertools.product(("float32", "int32"), range(SAMPLES)):
        how = Variation(number, 1, lambda n: n, _enlarged, statics=False, special=0)
        case = varied(operation, dtype, how)
        sizes = [1] if case is None else [1, *[a.size for a in case.arrays]]
        # Where a result has an axis for each axis of two operands, one of them is large.
        pairs = 1 if operation.traits.kind == "elementwise" else math.prod(sizes)
        if LARGE <= max(sizes) <= MOST and pairs <= MOST * 64:
            return case
    return None


def check_signed_zeros(where: str) -> None:
    """What is exact keeps the sign of a zero."""
    values = np.array([-0.0, 0.0, -0.0, 1.0], np.float32)
    x, order = asarray(values, device=where), np.array([2, 3, 1, 0])
    places = asarray(order, device=where)
    tiny = np.array([-0.25, 0.25], np.float32)
    small, minus = asarray(tiny, device=where), np.float32(-0.0)
    pairs: dict[str, tuple[Callable[[], Tensor], Any]] = {
        "transfer": (lambda: x, values),
        "negative": (lambda: it.negative(x), -values),
        "abs": (lambda: it.abs(x), np.abs(values)),
        "sqrt": (lambda: it.sqrt(x), np.sqrt(values)),
        "add": (lambda: x + x, values + values),
        "multiply": (lambda: x * 1.0, values),
        "multiply by -1": (lambda: x * -1.0, -values),
        "divide": (lambda: x / 2.0, values / 2),
        "floor": (lambda: it.floor(x), values),
        "ceil": (lambda: it.ceil(small), np.ceil(tiny)),
        "trunc": (lambda: it.trunc(small), np.trunc(tiny)),
        "round": (lambda: it.round(small), np.round(tiny)),
        "maximum": (lambda: it.maximum(x, x), values),
        "where": (lambda: it.where(x == 0, x, 5.0), np.where(values == 0, values, 5)),
        "reshape": (lambda: x.reshape(2, 2), values.reshape(2, 2)),
        "flip": (lambda: x[::-1], values[::-1]),
        "broadcast_to": (lambda: it.broadcast_to(x, (2, 4)), np.broadcast_to(values, (2, 4))),
        "concat": (lambda: it.concat([x, small]), np.concatenate([values, tiny])),
        "take": (lambda: it.take(x, places), values[order]),
        "astype": (lambda: x.astype("float16").astype("float32"), values),
        "full": (lambda: it.full((3,), -0.0, dtype="float32", device=where), np.full(3, minus)),
    }  # fmt: skip
    findings = Findings(f"-0.0 on {where}")
    for name, (compute, expected) in pairs.items():
        with findings.at(name):
            got = compute().numpy()
            assert np.array_equal(got, expected), f"got {got}, expected {expected}"
            signs = np.signbit(got), np.signbit(expected)
            assert np.array_equal(*signs), f"signs of zeros: got {got}, expected {expected}"
    findings.close()


_EDGES = {
    "float32": [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1.5],
    "int8": [-128, -127, -1, 0, 1, 127],
    "uint8": [0, 1, 127, 128, 200, 255],
    "uint32": [0, 1, 2**31 - 1, 2**31, 2**32 - 1],
    "int64": [-(2**63), -(2**31) - 1, -1, 0, 2**31, 2**63 - 1],
}
_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_BETWEEN = [1 + n * 2.0**-k for k in (8, 9, 11, 12) for n in (1, 3, 5, -1)]
_ROUNDED = [*_BETWEEN, 65519.0, 65520.0, 1e5]
"""Numbers in float32 in the middle of two of a half type, or beside it, and beyond float16."""


def check_edges(where: str, unsupported: Collection[str] = ()) -> None:
    """Comparisons and casts of what is NaN, at the end of a dtype, or between two numbers of it.

    Both are exact: unsigned numbers are compared as such, nothing but zero is false, and a number
    between two of a half type becomes the nearer one, the even one of two that are as near.

    Args:
        where: the device.
        unsupported: names of dtypes and operations to leave out.
    """
    findings = Findings(f"comparisons and casts on {where}")
    for dtype in _EDGES.keys() - set(unsupported):
        values = np.array(_EDGES[dtype], dtype)
        x = asarray(values, device=where)
        rows, columns = it.reshape(x, (-1, 1)), it.reshape(x, (1, -1))
        for name in _COMPARISONS:
            if name not in unsupported:
                with findings.at(f"{name} of {dtype}"):
                    expected = getattr(np, name)(values[:, None], values[None])
                    _equal(getattr(it, name)(rows, columns), expected)
        with findings.at(f"{dtype} to bool"):
            _equal(x.astype("bool"), values.astype(bool))
    numbers = np.array([*_ROUNDED, *[-n for n in _ROUNDED], np.nan, np.inf], np.float32)
    small = np.array([0.5, -0.25, 1e-30, 0.0, -0.0, np.nan], np.float32)
    x, y = (asarray(values, device=where) for values in (numbers, small))
    with findings.at("small float32 to bool"):
        _equal(y.astype("bool"), small.astype(bool))
    for half in {"float16", "bfloat16"} - set(unsupported):
        with findings.at(f"float32 to {half}"), np.errstate(over="ignore"):
            expected = numbers.astype(getattr(it, half).dtype).astype(np.float32)
            _equal(x.astype(half).astype("float32"), expected)
    findings.close()


def _equal(found: Tensor, expected: np.ndarray) -> None:
    got = found.numpy()
    assert np.array_equal(got, expected, equal_nan=expected.dtype.kind == "f"), (
        f"got {got}, expected {expected}"
    )


def check_indices(where: str) -> None:
    """An index out of range is an error when the value is read, at the latest; never clamped."""
    x = asarray(np.arange(12, dtype=np.float32).reshape(3, 4), device=where)
    findings = Findings(f"indices out of range on {where}")
    with device(where):
        for wrong in (3, -4, 2**31):
            calls: dict[str, Callable[[], Tensor]] = {
                "take": lambda wrong=wrong: it.take(x, asarray([0, wrong]), axis=0),  # type: ignore[misc]
                "take_along_axis": lambda wrong=wrong: it.take_along_axis(  # type: ignore[misc]
                    x, asarray([[0, wrong, 0, 0]]), axis=0
                ),
                "indexing": lambda wrong=wrong: x[asarray([wrong, 1])],  # type: ignore[misc]
                "assignment": lambda wrong=wrong: _assigned(x, wrong),  # type: ignore[misc]
            }
            for name, call in calls.items():
                with findings.at(f"{name} of {wrong} in 3"):
                    assert _refuses(call), "no OutOfRangeError: the index was clamped, or wrapped"
        with findings.at("what comes after it"):
            assert it.sum(x).item() == 66.0
    findings.close()


def _refuses(call: Callable[[], Tensor]) -> bool:
    try:
        call().numpy()
    except OutOfRangeError:
        return True
    return False


def _assigned(x: Tensor, place: int) -> Tensor:
    y = x + 0.0
    y[asarray([place])] = 1.0
    return y
