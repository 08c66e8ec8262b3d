"""What the pool and writing in place are worth: `python bench/memory.py`.

Each setting runs in a process of its own, in turns. Columns: the least and the median milliseconds
of a call, page faults in it, and the memory that the process needed at most beyond what it began
with. Settings: `off` leaves all memory to NumPy; `copying` has the pool, and never writes in place.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SETTINGS = {
    "off": {"INGLE_MEMORY": "off"},
    "copying": {"INGLE_MEMORY": "bins", "BENCH_COPYING": "1"},
    "bins": {"INGLE_MEMORY": "bins"},
    "slices": {"INGLE_MEMORY": "slices"},
}
Case = Callable[[], object]


def chain(elements: int) -> Case:
    import ingle.tensor as it

    x, y = it.ones(elements), it.full(elements, 0.5)

    def run() -> object:
        z = x * y + 1.0
        z = z * z - y
        return it.sqrt(it.abs(z)) * 0.5

    return run


def elements_one_by_one() -> Case:
    import ingle.tensor as it

    x = it.zeros(1 << 22)

    def run() -> None:
        for i in range(10):
            x[i] = i

    return run


def running_mean() -> Case:
    import ingle.tensor as it

    mean, x = it.zeros(1 << 22), it.ones(1 << 22)

    def run() -> None:
        nonlocal mean
        mean *= 0.9
        mean += x

    return run


def shared_weight() -> Case:
    import ingle.tensor as it

    w, x = it.Cell(it.eye(1024) * 0.5, differentiable=True), it.ones((8, 1024))

    def run() -> object:
        h = x
        for _ in range(16):
            h = h @ w
        return h.sum().backward()

    return run


def trained(name: str) -> Case:
    from systems.ingle_system import Builders
    from workloads import ALL

    return Builders("numpy").train(next(w for w in ALL if w.name == name))


def adam() -> Case:
    import ingle.tensor as it
    from ingle import nn, optim

    shapes = [(1024, 1024), (1024,), (1024, 2048), (2048,), (64, 32, 5, 5)]
    weights = [nn.Parameter(it.ones(shape)) for shape in shapes]
    grads = it.Gradients({w: it.ones(w.shape) for w in weights})
    optimizer = optim.Adam(weights)
    return lambda: optimizer.step(grads)


CASES: dict[str, Callable[[], Case]] = {
    "7 elementwise, 4M": lambda: chain(1 << 22),
    "7 elementwise, 64K": lambda: chain(1 << 16),
    "x[i] = v, 10 of 4M": elements_one_by_one,
    "x *= a; x += y, 4M": running_mean,
    "weight used 16 times": shared_weight,
    "Adam, 3.2M": adam,
    "MLP step, 1024": lambda: trained("mlp/1024"),
    "LeNet step, 64": lambda: trained("lenet/64"),
}


def measure(make: Callable[[], Case], seconds: float) -> dict[str, Any]:
    """Times of calls, page faults in each, and the growth of the largest resident size."""
    run = make()
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(3):
        run()
    times: list[float] = []
    settled = resource.getrusage(resource.RUSAGE_SELF)
    while sum(times) < seconds or len(times) < 5:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "times": times,
        "faults": (after.ru_minflt - settled.ru_minflt) / len(times),
        "grown_mib": (after.ru_maxrss - before.ru_maxrss) / 1024,
    }


def child(case: str, seconds: float) -> None:
    if os.environ.get("BENCH_COPYING"):
        import ingle.tensor.in_place as in_place

        in_place.WORTH = sys.maxsize
    print(json.dumps(measure(CASES[case], seconds)))


def asked(setting: str, case: str, seconds: float) -> dict[str, Any]:
    environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ, **SETTINGS[setting]}
    command = [sys.executable, __file__, "--child", case, "--seconds", str(seconds)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what the pool and in-place writes do.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--cases", default="", help="parts of names, comma-separated")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.seconds)
        return
    parts = [p for p in args.cases.split(",") if p]
    print(f"{'case':22s} {'setting':8s} {'least ms':>9s} {'median':>9s} {'faults':>8s} {'MiB':>7s}")
    for case in CASES:
        if parts and not any(p in case for p in parts):
            continue
        found: dict[str, list[dict[str, Any]]] = {setting: [] for setting in SETTINGS}
        for _ in range(args.rounds):
            for setting, rows in found.items():
                rows.append(asked(setting, case, args.seconds))
        for setting, rows in found.items():
            times = np.concatenate([row["times"] for row in rows]) * 1e3
            faults = statistics.median(row["faults"] for row in rows)
            grown = statistics.median(row["grown_mib"] for row in rows)
            print(
                f"{case:22s} {setting:8s} {times.min():9.3f} {np.median(times):9.3f} "
                f"{faults:8.0f} {grown:7.0f}"
            )


if __name__ == "__main__":
    main()
