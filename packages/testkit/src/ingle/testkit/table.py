"""How a backend runs each operation, and how fast against the reference: a table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from ingle.tensor.contract import Aval, Backend, Handle, Scalar
from ingle.tensor.device import backend_of
from ingle.tensor.dtypes import ALL_DTYPES
from ingle.tensor.eager import REFERENCE
from ingle.tensor.operation import Op, Operation

from .cases import Case, cases, operations
from .running import host_allowed, run_case

FIRST = ("float32", "complex64", "int32", "bool")
"""The dtypes in which an operation is looked at first; the others where it has none of these."""

Ran = list[tuple[Op, tuple[Aval, ...]]]


@dataclass(frozen=True, slots=True)
class Row:
    """One operation on one backend.

    Attributes:
        operation: its name.
        road: `native`, `composed`, `host` or `missing`.
        seconds: for one call with the largest sample; None if it fails.
        factor: how many times faster than the reference; None where there is nothing to compare.
    """

    operation: str
    road: str
    seconds: float | None
    factor: float | None


def road_of(backend: Backend, op: Op, avals: tuple[Aval, ...]) -> str:
    """How a backend computes an operation; asks `road` where it or what it decorates has it."""
    door: Any = backend
    while door is not None:
        ask = getattr(door, "road", None)
        if ask is not None:
            return str(ask(op, avals))
        door = getattr(door, "inner", None)
    if backend.supports(op, avals):
        return "native"
    return "missing" if op.operation.body is None else "composed"


def rows(where: str) -> Iterator[Row]:
    """A row for each operation that has samples."""
    for operation in operations():
        case = _largest(operation)
        if case is not None:
            yield _row(operation, case, where)


def _largest(operation: Operation) -> Case | None:
    """The largest sample in which the operation itself runs on the reference."""
    others = [d.name for d in ALL_DTYPES if d.name not in FIRST]
    passed: Case | None = None
    for dtype in (*FIRST, *others):
        for case in sorted(
            cases(operation, dtype), key=lambda c: -sum(a.size for a in c.arrays)
        ):  # fmt: skip
            try:
                ran = _ran(case, REFERENCE)
            except Exception:  # not for this dtype, or broken: other tests say so
                continue
            if any(op.operation is operation for op, _ in ran):
                return case
            passed = passed or case  # such as a cast to the dtype that it has
    return passed


def _ran(case: Case, where: str) -> Ran:
    """What the backend was asked for in a call, creation included, which has no inputs."""
    with _watched(backend_of(where)) as ran:
        run_case(case, where)
    return ran


@contextmanager
def _watched(backend: Backend) -> Iterator[Ran]:
    ran: Ran = []
    execute = type(backend).execute

    def watched(self: Any, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        ran.append((op, tuple(Aval(x.shape, x.dtype) for x in inputs)))
        return execute(self, op, inputs)

    with patch.object(type(backend), "execute", watched):
        yield ran


def _row(operation: Operation, case: Case, where: str) -> Row:
    backend = backend_of(where)
    with host_allowed():
        try:
            ran = _ran(case, where)
        except Exception:  # the contract's tests say what is wrong with it
            return Row(operation.name, "missing", None, None)
        own = [(op, avals) for op, avals in ran if op.operation is operation]
        road = road_of(backend, *own[0]) if own else "composed"
        seconds = _time(case, where)
        reference = None if where == REFERENCE else _time(case, REFERENCE)
    return Row(operation.name, road, seconds, None if reference is None else reference / seconds)


def _time(case: Case, where: str) -> float:
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        run_case(case, where)
        backend_of(where).synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def report(where: str) -> Iterator[str]:
    """The table as lines, and a last one that counts."""
    found = list(rows(where))
    width = max((len(r.operation) for r in found), default=9)
    yield f"{'operation':<{width}}  {'how':<9} {'time':>10}  against {REFERENCE}"
    for r in found:
        took = "fails" if r.seconds is None else f"{r.seconds * 1e6:.0f} µs"
        factor = "" if r.factor is None else f"{r.factor:.2f} x"
        yield f"{r.operation:<{width}}  {r.road:<9} {took:>10}  {factor}".rstrip()
    counts = {
        road: sum(r.road == road for r in found) for road in dict.fromkeys(r.road for r in found)
    }
    yield f"{len(found)} operations: " + ", ".join(f"{n} {road}" for road, n in counts.items())
