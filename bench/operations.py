"""Times every operation on Ingle beside PyTorch: `python bench/operations.py --only norm,conv`.

One process, one thread each. A case is timed in turn on both, in rounds, so that a disturbance
meets both; what counts is the round that took the processor the least time. Plain code of many
operations is planned little by little while it runs: `--warm` runs each for so long first.
Columns: milliseconds of the call and of the call with the gradients of all float inputs, and how
many times longer Ingle takes, worst first. With `--growth` the size is doubled too, and the ratio
of times printed: about 2 where work is proportional to size, 4 where it is quadratic.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from cases import ALL, Case

import ingle.tensor as it
from ingle.tensor.errors import GradientError

Run = Callable[[], Any]
POOLS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    "INGLE_NUM_THREADS",
)

MOST_WARM = 100
"""Runs of a call before it is measured."""


class Row(NamedTuple):
    """Seconds of a case, forward or with gradients; `growth` is Ingle's when the size doubles."""

    case: str
    kind: str
    ingle: float
    torch: float
    growth: float | None = None

    @property
    def ratio(self) -> float:
        return self.ingle / self.torch


def first(result: Any) -> Any:
    """The output whose gradients are asked for."""
    return result[0] if isinstance(result, (tuple, list)) else result


def ingle_runs(case: Case, n: int) -> tuple[Run, Run | None]:
    """The call, and the call with gradients where it has them.

    Both end when all is computed: a device that writes operations down would do nothing else.
    """
    plain = [it.asarray(a) for a in case.arrays(n)]
    finish = it.zeros(1).backend.synchronize
    wanted = [
        x.dtype.is_inexact and not i.constant for x, i in zip(plain, case.inputs, strict=True)
    ]

    def with_gradients() -> Any:
        leaves = [x.require_grad() if w else x for x, w in zip(plain, wanted, strict=True)]
        grads = first(case.call_ingle(it, leaves)).backward(cotangent)
        found = [grads.get(x) for x, w in zip(leaves, wanted, strict=True) if w]
        finish()
        return found

    def forward() -> Any:
        found = case.call_ingle(it, plain)
        finish()
        return found

    out = first(forward())
    if not any(wanted) or not isinstance(out, it.Tensor) or not out.dtype.is_inexact:
        return forward, None
    cotangent = it.asarray(direction(out.shape, str(out.dtype)))
    try:
        with_gradients()
    except GradientError:
        return forward, None
    return forward, with_gradients


def torch_runs(case: Case, n: int) -> tuple[Run, Run | None]:
    """The same of PyTorch."""
    plain = [torch.from_numpy(a) for a in case.arrays(n)]
    leaves = [
        x.clone().requires_grad_(x.is_floating_point() and not i.constant)
        for x, i in zip(plain, case.inputs, strict=True)
    ]
    wanted = [x for x in leaves if x.requires_grad]

    def with_gradients() -> Any:
        out = first(case.call_torch(torch, leaves))
        return torch.autograd.grad(out, wanted, cotangent, allow_unused=True)

    def forward() -> Any:
        with torch.no_grad():
            return case.call_torch(torch, plain)

    out = first(forward())
    if not wanted or not getattr(first(case.call_torch(torch, leaves)), "requires_grad", False):
        return forward, None
    cotangent = torch.from_numpy(direction(tuple(out.shape), str(out.dtype).split(".")[1]))
    return forward, with_gradients


def direction(shape: tuple[int, ...], dtype: str) -> Any:
    """A cotangent, the same for both."""
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)


def fastest(runs: list[Run], seconds: float) -> list[float]:
    """The shortest time of each, called in turn for about so long."""
    best = [float("inf")] * len(runs)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 3 or time.perf_counter() < end:
        for place, run in enumerate(runs):
            begun = time.process_time()
            run()
            best[place] = min(best[place], time.process_time() - begun)
        rounds += 1
    return best


def warm_up(run: Run, seconds: float) -> None:
    """Runs a call for so long, or as often as plans need that are made beside the runs."""
    end = time.perf_counter() + seconds
    for _ in range(MOST_WARM):
        if time.perf_counter() > end:
            return
        run()


def measure(case: Case, seconds: float, growth: bool, warm: float = 0.0) -> list[Row]:
    """The rows of a case: forward, and with gradients where both libraries have them."""
    rows = []
    pairs = zip(ingle_runs(case, case.n), torch_runs(case, case.n), strict=True)
    doubled = ingle_runs(case, 2 * case.n) if growth else (None, None)
    for kind, (mine, peer), larger in zip(("forward", "gradient"), pairs, doubled, strict=True):
        if mine is None or peer is None:
            continue
        warm_up(mine, warm)
        found = fastest([mine, peer], seconds)
        more = fastest([larger], seconds)[0] / found[0] if larger else None
        rows.append(Row(case.name, kind, found[0], found[1], more))
    return rows


def show(row: Row) -> str:
    growth = "" if row.growth is None else f"{row.growth:8.2f}"
    return (
        f"{row.case:42s} {row.kind:9s} {row.ingle * 1e3:10.3f} {row.torch * 1e3:10.3f} "
        f"{row.ratio:8.2f}{growth}"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time every operation beside PyTorch.")
    parser.add_argument("--only", default="", help="comma-separated parts of names")
    parser.add_argument("--seconds", type=float, default=0.2, help="spent on each row")
    parser.add_argument("--warm", type=float, default=0.0, help="seconds of runs before")
    parser.add_argument("--device", default="numpy", help="the backend to measure")
    parser.add_argument("--growth", action="store_true", help="double the size too")
    parser.add_argument("--json", help="write the rows to this file")
    return parser.parse_args()


def alone() -> None:
    """Starts anew with one thread in each pool, which libraries read when they are loaded."""
    if any(os.environ.get(name) != "1" for name in POOLS):
        os.environ.update(dict.fromkeys(POOLS, "1"))
        os.execv(sys.executable, [sys.executable, *sys.argv])


def main() -> None:
    asked = arguments()
    alone()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # PyTorch's advice on how else to call it
    wanted = asked.only.split(",")
    rows: list[Row] = []
    with it.device(asked.device):
        for case in ALL:
            if any(part in case.name for part in wanted):
                try:
                    rows += measure(case, asked.seconds, asked.growth, asked.warm)
                except Exception as error:  # one case's failure must not end the others
                    print(f"{case.name}: {type(error).__name__}: {error}".splitlines()[0])
                gc.collect()
    print(f"{'':42s} {'':9s} {'ingle ms':>10s} {'torch ms':>10s} {'ratio':>8s}")
    for row in sorted(rows, key=lambda row: -row.ratio):
        print(show(row))
    if asked.json:
        found = [{**row._asdict(), "ratio": row.ratio} for row in rows]
        Path(asked.json).write_text(json.dumps(found, indent=1), "utf-8")


if __name__ == "__main__":
    main()
