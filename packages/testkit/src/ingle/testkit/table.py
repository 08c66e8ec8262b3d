"""How a backend runs each operation, and how fast against the reference: a table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from ingle.tensor.contract import Aval, Backend
from ingle.tensor.device import backend_of
from ingle.tensor.eager import REFERENCE
from ingle.tensor.operation import Op, Operation

from .cases import Case, cases, operations
from .running import host_allowed, run_case


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
    """How a backend computes an operation; asks `road` where the backend has it."""
    ask = getattr(backend, "road", None)
    if ask is not None:
        return str(ask(op, avals))
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
    for dtype in ("float32", "complex64", "int32", "bool"):
        for case in sorted(
            cases(operation, dtype), key=lambda c: -sum(a.size for a in c.arrays)
        ):  # fmt: skip
            try:
                run_case(case, REFERENCE)
            except Exception:  # not for this dtype, or broken: other tests say so
                continue
            return case
    return None


def _row(operation: Operation, case: Case, where: str) -> Row:
    backend = backend_of(where)
    with host_allowed():
        try:
            ran = run_case(case, where).capture.ops
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
