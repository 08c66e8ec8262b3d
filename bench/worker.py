"""The process of one system: `run.py` asks it to build, time and drop workloads, line by line.

With a workload's name behind the system's it says how long the workload's first calls take.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpu_workloads
import numpy as np
from systems import SkipError, System, load
from workload import SELF_TIMED
from workloads import ALL

STATUS = Path("/proc/self/status")
STAT = Path("/proc/stat")
WORKLOADS = {w.name: w for w in (*ALL, *gpu_workloads.ALL)}
GROUPS = 10
"""Of calls in a block of a system that runs ahead: each is timed to its end."""
SHOWN = 1 << 22
"""Elements of a result that are compared; of a larger one, as many at equal distances."""


class Session:
    """The system and the workload that is built now."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.system: System
        self.run: Callable[[], Any] = lambda: None
        self.base_mib: float | None = None
        self.self_timed = False

    def load(self) -> dict[str, Any]:
        self.system = load(self.name)
        return {}

    def build(self, workload: str, file: str) -> dict[str, Any]:
        w = WORKLOADS[workload]
        self.self_timed = w.kind in SELF_TIMED
        gc.collect()
        self.base_mib = memory_mib("VmRSS")
        begun = time.perf_counter()
        self.run = self.system.prepare(self.name, w)
        result = self.run()
        self.wait()
        first = time.perf_counter() - begun
        if self.self_timed:
            np.save(file, result)
            return {"first_s": result, "once_s": result}
        np.save(file, some_of(self.system.to_numpy(result)))
        del result
        forget_peak()
        if self.system.peak is not None:
            self.system.peak()
        self.run()
        answer = {"first_s": first, "once_s": self.time(1)["seconds"]}
        gc.disable()
        return answer

    def time(self, count: int) -> dict[str, Any]:
        run, wait = self.run, self.wait
        if self.self_timed:
            seconds = run()
            return {"seconds": seconds, "least_s": seconds, "disturbed": 0.0}
        together = 1 if self.system.wait is None else -(-count // GROUPS)
        run()
        wait()
        clock, least = time.perf_counter, float("inf")
        others, begun = others_seconds(), clock()
        last = begun
        groups = -(-count // together)
        for _ in range(groups):
            for _ in range(together):
                run()
            wait()
            now = clock()
            least, last = min(least, now - last), now
        took = last - begun
        disturbed = (others_seconds() - others) / took
        seconds, least_s = took / (groups * together), least / together
        return {"seconds": seconds, "least_s": least_s, "disturbed": disturbed}

    def wait(self) -> None:
        """Until a system that runs ahead is done."""
        if self.system.wait is not None:
            self.system.wait()

    def drop(self) -> dict[str, Any]:
        peak = memory_mib("VmHWM")
        of_device = self.system.peak() if self.system.peak is not None else None
        self.run = lambda: None
        gc.enable()
        gc.collect()
        if of_device is not None:
            return {"peak_mib": of_device}
        if peak is None or self.base_mib is None or self.self_timed:
            return {"peak_mib": None}
        return {"peak_mib": max(0.0, peak - self.base_mib)}


def some_of(result: Any) -> Any:
    """A result, or elements of it at equal distances if it is large."""
    result = np.asarray(result)
    return result if result.size <= SHOWN else result.reshape(-1)[:: -(-result.size // SHOWN)]


def memory_mib(what: str) -> float | None:
    """A line of the process's status, on systems that have one."""
    if not STATUS.exists():
        return None
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) / 1024


def others_seconds() -> float:
    """How long the processor was busy with other processes since it started, where it is known."""
    if not STAT.exists():
        return 0.0
    user, nice, system, _, _, *interrupts = map(int, STAT.read_text().splitlines()[0].split()[1:9])
    busy = (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")
    return busy - time.process_time()


def forget_peak() -> None:
    """Starts the peak of resident memory afresh, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def first_calls(system: str, workload: str) -> None:
    """Prints how long the first steps of a model take, once everything is ready for them.

    Of a stall it is how much longer the slowest of them takes than a step later on.
    """
    w = WORKLOADS[workload]
    options = {k: v for k, v in w.options.items() if k not in ("cache", "steps", "shorter")}
    found = load(system)
    prepared = found.prepare(system, replace(w, kind="train", options=options))

    def run(*batch: Any) -> None:
        prepared(*batch)
        if found.wait is not None:
            found.wait()

    rows, shorter = w.inputs(), w.options.get("shorter", 0)
    times = []
    for step in range(w.options["steps"]):
        begun = time.perf_counter()
        run(*[a[: len(a) - step] for a in rows] if shorter else [])
        times.append(time.perf_counter() - begun)
    if w.kind == "first-call":
        print(sum(times))
        return
    for _ in range(w.options["steps"]):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    count = w.options["steps"]
    print(max(times[:count]) - min(times[count:]))


def main() -> None:
    threads = int(os.environ["BENCH_THREADS"])
    if hasattr(os, "sched_setaffinity"):
        # Some libraries size their pools by the cores they see and know no other setting.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    if len(sys.argv) > 2:
        first_calls(*sys.argv[1:])
        return
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    session = Session(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        action = getattr(session, request.pop("do"))
        try:
            answer = action(**request)
        except (SkipError, ImportError) as reason:
            answer = {"skip": str(reason)}
        except Exception as error:  # one workload's failure must not end the others
            answer = {"skip": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
