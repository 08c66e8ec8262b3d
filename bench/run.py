"""Measures Ingle beside its peers: `python bench/run.py --workloads gelu,mlp --rounds 7`.

Each system lives in a process of its own with the same number of threads, since thread pools that
share a process spin against each other. Blocks of calls are timed in turn, so that a disturbance
meets all systems; one call before each block is not timed. Results of a workload are compared
between systems. Columns: the median of the rounds' means; the quickest call; how many times faster
than the fastest peer the median is, and the quickest call than the quickest one of a peer; the
median's share of the machine's own limit (the least time that the arithmetic or the memory traffic
can take at the measured peak and copy bandwidth; above 100 % where data stay in a cache); and the
memory that a run needs beyond what was there before it.

Where all systems have `-cuda` in their names there are rows for GPUs too, which begin with `gpu/`;
the limits are the GPU's (of arithmetic, that of products in half precision), memory is the
device's, and a block waits for the device after each tenth of its calls, not each.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import chart
import numpy as np
from gpu_limits import measured as measured_on_the_gpu
from gpu_workloads import gpu_rows
from limits import POOLS, Limits, measured
from systems import MODULES
from workload import SELF_TIMED, Workload, chosen
from workloads import registry

SLOW = 0.5
"""Seconds above which a workload is measured three times and no more."""

CPU = Path("/proc/cpuinfo")
LIBRARIES = {
    "numpy": "numpy", "torch": "torch", "compile": "torch", "jax": "jax", "tinygrad": "tinygrad",
    "onnxruntime": "onnxruntime", "torch-cuda": "torch", "compile-cuda": "torch",
    "captured-cuda": "torch", "jax-cuda": "jax",
}  # fmt: skip
"""The distribution whose version says what a system is."""

DISTURBED = 0.1
"""The share of a core that other processes may take during a block."""


class Row(NamedTuple):
    """One measurement.

    `ratio` is the fastest peer's median over this one, `ratio_min` the same of the quickest calls,
    `limit` the machine's least time over the median.
    """

    workload: str
    system: str
    median_s: float
    min_s: float
    first_s: float
    ratio: float | None
    ratio_min: float | None
    limit: float | None
    peak_mib: float | None


class Worker:
    """The process of one system, asked line by line."""

    def __init__(self, system: str, threads: int) -> None:
        pools = (*POOLS, "INGLE_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(pools, str(threads))}
        environment["BENCH_THREADS"] = str(threads)
        # tinygrad and torch.compile ask for different compilers where nothing is said.
        found = next(filter(None, map(shutil.which, ("clang", "gcc", "cc"))), None)
        if found:
            environment.setdefault("CC", found)
        # JAX would take most of a GPU at once, and leave the others none.
        environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        self.system = system
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("worker.py")), system],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def ask(self, **request: Any) -> dict[str, Any]:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        print(json.dumps(request), file=stdin, flush=True)
        line = stdout.readline()
        if not line:
            raise SystemExit(f"{self.system}: the process ended with {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self.process.communicate()


def start(systems: list[str], threads: int) -> list[Worker]:
    """The systems that are installed, each in its process."""
    workers = []
    for name in systems:
        worker = Worker(name, threads)
        absent = worker.ask(do="load").get("skip")
        if absent:
            print(f"skipped {name}: {absent}")
            worker.close()
        else:
            workers.append(worker)
    return workers


def measure(
    w: Workload, workers: list[Worker], rounds: int, block: float, limits: Limits
) -> list[Row]:
    """Builds a workload on every system, compares the results, and times them in turn."""
    built: dict[Worker, dict[str, Any]] = {}
    # On a processor they would share its cores; compilers for GPUs have enough of them.
    together = len(workers) if all("-cuda" in worker.system for worker in workers) else 1
    with ThreadPoolExecutor(max(together, 1)) as pool:
        for worker, answer in zip(workers, pool.map(partial(build, w), workers), strict=True):
            if "skip" in answer:
                print(f"{w.name:34s} {worker.system:15s} skipped: {answer['skip']}")
            else:
                built[worker] = {**answer, "times": [], "least": []}
    compare_results(w, built)
    for turn in range(rounds):
        for worker, found in built.items():
            if turn < 3 or found["once_s"] < SLOW:
                count = max(1, min(1000, int(block / max(found["once_s"], 1e-9))))
                mean, least = quiet_block(worker, count)
                found["times"].append(mean / w.repeat)
                found["least"].append(least / w.repeat)
    medians = {worker: statistics.median(found["times"]) for worker, found in built.items()}
    quickest = {worker: min(found["least"]) for worker, found in built.items()}
    peers = [worker for worker in built if not worker.system.startswith("ingle")]
    least = limits.seconds(w.flops, w.nbytes)
    return [
        Row(
            w.name, worker.system, medians[worker], quickest[worker], found["first_s"],
            min(medians[p] for p in peers) / medians[worker] if peers else None,
            min(quickest[p] for p in peers) / quickest[worker] if peers else None,
            least / medians[worker] if least else None, worker.ask(do="drop")["peak_mib"],
        )
        for worker, found in built.items()
    ]  # fmt: skip


def build(w: Workload, worker: Worker) -> dict[str, Any]:
    """What a system says of a workload's first run, and its result; or why it cannot do it."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "result.npy")
        answer = worker.ask(do="build", workload=w.name, file=file)
        return answer if "skip" in answer else {**answer, "result": np.load(file)}


def quiet_block(worker: Worker, count: int) -> tuple[float, float]:
    """Seconds of the mean and of the quickest call of a block.

    It is measured anew (three times at most) if others took the cores meanwhile.
    """
    for _ in range(4):
        answer = worker.ask(do="time", count=count)
        if answer["disturbed"] < DISTURBED:
            break
    return answer["seconds"], answer["least_s"]


def compare_results(w: Workload, built: dict[Worker, dict[str, Any]]) -> None:
    """Says which systems compute something else than the first."""
    if w.kind in SELF_TIMED or not built:
        return
    (first, found), *others = built.items()
    wanted = found["result"].astype(np.float64)
    for worker, other in others:
        got = other["result"]
        if got.shape != wanted.shape:
            print(
                f"{w.name}: {worker.system} gives shape {got.shape}, {first.system} {wanted.shape}"
            )
            continue
        error = float(np.max(np.abs(got - wanted), initial=0.0))
        if not error <= w.tolerance * max(1.0, float(np.max(np.abs(wanted), initial=0.0))):
            print(f"{w.name}: {worker.system} differs from {first.system} by {error:.3g}")


def show(row: Row) -> str:
    ratio = "" if row.ratio is None else f"{row.ratio:6.2f}x"
    least = "" if row.ratio_min is None else f"{row.ratio_min:6.2f}x"
    limit = "" if row.limit is None else f"{row.limit:.0%}"
    peak = "" if row.peak_mib is None else f"{row.peak_mib:9.1f}"
    return (
        f"{row.workload:34s} {row.system:15s} {row.median_s * 1e6:13.2f} {row.min_s * 1e6:13.2f} "
        f"{ratio:>8s} {least:>8s} {limit:>8s} {peak:>9s}"
    )


def where(threads: int, workers: list[Worker]) -> str:
    """On what machine and with which versions a run was made, and when."""
    name = platform.machine()
    with contextlib.suppress(OSError):  # other systems than Linux have no such file
        told = re.search(r"^model name\s*: (.*)$", CPU.read_text("utf-8"), re.MULTILINE)
        name = told[1] if told else name
    libraries = dict.fromkeys(LIBRARIES[w.system] for w in workers if w.system in LIBRARIES)
    versions = [f"{library} {version(library)}" for library in libraries]
    name = re.sub(r"\((R|TM)\)", "", name)
    parts = [name, f"{threads} threads", *versions, time.strftime("%Y-%m-%d")]
    return " \u00b7 ".join(parts)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Ingle beside its peers.")
    parser.add_argument("--systems", default=",".join(MODULES), help="comma-separated")
    parser.add_argument("--workloads", default="", help="comma-separated parts of names")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--block", type=float, default=0.1, help="seconds of a timed block")
    parser.add_argument("--small", action="store_true", help="sizes that only show what works")
    parser.add_argument("--json", help="write the rows to this file, for bench/compare.py")
    parser.add_argument("--plot", help="draw a chart of the ratios, an SVG file")
    asked = parser.parse_args()
    if unknown := set(asked.systems.split(",")) - set(MODULES):
        parser.error(f"no system {', '.join(sorted(unknown))}; there are {', '.join(MODULES)}")
    if asked.plot and not asked.plot.endswith(".svg"):
        parser.error(f"--plot draws SVG: give a name that ends in .svg, not {asked.plot}")
    if not chosen(workloads_of(asked), asked.workloads):
        parser.error(f"no workload contains {asked.workloads!r}")
    return asked


def for_gpus(asked: argparse.Namespace) -> bool:
    """Whether all systems compute on a GPU, whose sizes and limits are other ones."""
    return all("-cuda" in name for name in asked.systems.split(","))


def workloads_of(asked: argparse.Namespace) -> list[Workload]:
    """The rows that the systems may be asked for."""
    wanted = for_gpus(asked) or "gpu/" in asked.workloads
    return [*registry(asked.small), *(gpu_rows(asked.small) if wanted else ())]


def main() -> None:
    asked = arguments()
    if asked.small:
        os.environ["BENCH_SMALL"] = "1"
    print(f"{platform.machine()}, Python {platform.python_version()}, {asked.threads} threads")
    workers = start(asked.systems.split(","), asked.threads)
    if not workers:
        raise SystemExit("none of these systems can run here")
    limits = measured_on_the_gpu() if for_gpus(asked) else measured(asked.threads)
    print(limits)
    print(
        f"{'':34s} {'':15s} {'median µs':>13s} {'minimum µs':>13s} {'ratio':>8s} {'by min':>8s} "
        f"{'limit':>8s} "
        f"{'peak MiB':>9s}"
    )
    rows = []
    for workload in chosen(workloads_of(asked), asked.workloads):
        for row in measure(workload, workers, asked.rounds, asked.block, limits):
            print(show(row), flush=True)
            rows.append(row)
    made = where(asked.threads, workers)
    for worker in workers:
        worker.close()
    if asked.json:
        Path(asked.json).write_text(json.dumps([r._asdict() for r in rows], indent=1), "utf-8")
    if asked.plot:
        chart.write(rows, asked.plot, where=made)


if __name__ == "__main__":
    main()
