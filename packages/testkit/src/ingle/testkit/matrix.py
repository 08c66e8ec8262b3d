"""All backends of this machine in one table: `python -m ingle.testkit.matrix`.

What is measured: how a backend runs each operation (`native`, `composed`, `host`, `missing`), the
testkit, other tests with the backend as the default device, and a program that trains. Each of
these runs in processes of its own that have so much time each, and all together: one that crashes
or hangs is a cell of the table, which says so. A plugin joins by being installed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ingle.tensor import plugins
from ingle.tensor.eager import REFERENCE

from .limited import Ended, run
from .tally import Outcome

ROADS = ("native", "composed", "host", "missing")
SUITE = "testkit"
"""The column of the testkit."""
_ALLOWED = ("-W", "ignore::RuntimeWarning")
"""What a device's library says of infinities and NaN: where warnings are errors, as in a checkout
of Ingle, a backend that is right would fail."""
_HOST = ("-W", "ignore::ingle.tensor.eager.HostFallbackWarning")
"""The table has what runs on the host: tests that take warnings as errors need not fail for it."""
_ACCURACY = re.compile(r"accuracy:? *(\d*\.?\d+)(?!.*accuracy)", re.DOTALL)
_ROADS = (
    "import collections, json, sys\n"
    "from ingle.testkit.table import rows\n"
    "print(json.dumps(collections.Counter(r.road for r in rows(sys.argv[1]))))\n"
)
_FINE = (0, 1, 5)
"""What pytest ends with where it has run the tests: all passed, some failed, there are none."""


class Job(NamedTuple):
    """What came of the program: its last accuracy, if it says one, its seconds, and if it did not
    come to its end, why."""

    accuracy: float | None
    seconds: float
    reason: str = ""

    def __str__(self) -> str:
        return self.reason or f"{self.seconds:.1f} s"


class Line(NamedTuple):
    """A backend.

    Attributes:
        device: its name.
        roads: how many operations it runs in which way; empty if that could not be found out.
        tests: of each suite by its name, the testkit first.
        job: of the program; None without one.
    """

    device: str
    roads: dict[str, int]
    tests: dict[str, Outcome]
    job: Job | None

    @property
    def whole(self) -> bool:
        """Whether everything ran and passed."""
        tests = all(outcome.whole for outcome in self.tests.values())
        return bool(self.roads) and tests and not (self.job and self.job.reason)


def devices() -> tuple[list[str], dict[str, str]]:
    """The backends that have a device, and why the others have none.

    >>> from ingle.testkit.matrix import devices
    >>> "numpy" in devices()[0]
    True
    """
    present: list[str] = []
    absent: dict[str, str] = {}
    for name in plugins.discover().backends:
        try:
            described = plugins.describe(name)
            count = described.count()
        except Exception as error:  # a stranger's code
            absent[name] = str(error)
            continue
        if count:
            present.append(name)
        else:
            absent[name] = described.missing or "no device"
    return present, absent


class Matrix:
    """Measures backends, several parts at a time.

    Args:
        names: the backends.
        tier: of the testkit.
        tests: paths of other suites, by their names.
        job: a program and its arguments, with {device} for the device; may be empty.
        workers: how many processes run at a time.
        limit: seconds that each may take.
        within: seconds for all of them: what has not begun by then does not run.
    """

    def __init__(
        self, names: Sequence[str], tier: str, tests: Mapping[str, Sequence[str]],
        job: Sequence[str], workers: int, limit: float, within: float,
    ) -> None:  # fmt: skip
        self._names = names
        self._tests = tests
        self._tier = tier
        self._program = job
        self._workers = workers
        self._limit = limit
        self._end = time.monotonic() + within
        self._stop = threading.Event()
        self._roads: dict[str, dict[str, int]] = {}
        self._shares: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
        self._jobs: dict[str, Job] = {}

    def lines(self) -> list[Line]:
        """What is known, also before all of it is."""
        found = []
        for name in self._names:
            tests = {
                suite: Outcome.of_all(shares) if shares else Outcome(0, 0, 0, 0, "not run")
                for suite in (SUITE, *self._tests)
                for shares in [self._shares[name, suite]]
            }
            job = self._jobs.get(name, Job(None, 0.0, "not run")) if self._program else None
            found.append(Line(name, self._roads.get(name, {}), tests, job))
        return found

    def measure(self) -> None:
        """Runs everything: each program by itself, for its time, then the suites side by side.

        After Ctrl-C, or when somebody ends the process, nothing more runs, and `lines` has what is
        done.
        """
        count = self._workers
        parts: list[tuple[str, Callable[[], object]]] = [
            (f"{name}: operations", partial(self._find_roads, name)) for name in self._names
        ]
        # The testkit is the longest by far: each backend's is divided among the workers, and comes
        # last, so that time that runs out cuts its cells alone.
        for suite, k in [*[(s, 0) for s in self._tests], *[(SUITE, k) for k in range(count)]]:
            shared = count if suite == SUITE else 1
            shown = f"{suite} {k + 1}/{shared}" if shared > 1 else suite
            parts += [
                (f"{name}: {shown}", partial(self._suite, name, suite, k, shared))
                for name in self._names
            ]
        try:
            if self._program:
                jobs = [(f"{name}: program", partial(self._job, name)) for name in self._names]
                self._run(jobs, 1)
            self._run(parts, count)
        except KeyboardInterrupt:
            sys.stderr.write("interrupted\n")

    def _run(self, parts: Sequence[tuple[str, Callable[[], object]]], workers: int) -> None:
        with ThreadPoolExecutor(workers) as pool:
            futures = {pool.submit(_timed, part): shown for shown, part in parts}
            try:
                for number, future in enumerate(as_completed(futures), 1):
                    came, seconds = future.result()
                    done = f"[{number}/{len(parts)}] {futures[future]}: {came}"
                    sys.stderr.write(f"{done} in {seconds:.0f} s\n")
            except BaseException:
                self._stop.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _process(self, device: str, command: Sequence[str], alone: bool = False) -> Ended:
        """A process whose default device is the backend, alone or beside others."""
        left = self._end - time.monotonic()
        if left <= 0:
            return Ended(None, "", "not run")
        environment = {**os.environ, "INGLE_DEVICE": device}
        if not alone:
            threads = max(1, (os.cpu_count() or 1) // self._workers)
            environment.setdefault("INGLE_NUM_THREADS", str(threads))
        return run([sys.executable, *command], environment, min(self._limit, left), self._stop)

    def _find_roads(self, device: str) -> str:
        done = self._process(device, ["-W", "ignore", "-c", _ROADS, device])
        if done.code:
            sys.stderr.write(f"{done.said}\n")
        if done.code != 0:
            return done.reason or f"exit status {done.code}"
        (said,) = [line for line in done.said.splitlines() if line.startswith("{")][-1:]
        found: dict[str, int] = json.loads(said)
        self._roads[device] = found
        return ", ".join(f"{found.get(road, 0)} {road}" for road in ROADS)

    def _suite(self, device: str, suite: str, k: int, count: int) -> Outcome:
        """A share of a suite."""
        if suite == SUITE:
            what = ["--pyargs", "ingle.testkit", f"--backend={device}", f"--tier={self._tier}"]
        else:
            what = [*_HOST, *self._tests[suite]]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "tally.txt")
            done = self._process(
                device,
                ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "ingle.testkit.tally",
                 f"--ingle-tally={file}", f"--ingle-share={k}/{count}", *_ALLOWED, *what],
            )  # fmt: skip
            reason = done.reason
            if not reason and done.code not in _FINE:
                reason = f"exit status {done.code}"
            outcome = Outcome.read(file, reason)
        if not outcome.whole and done.said:
            sys.stderr.write(f"{done.said}\n")
        self._shares[device, suite].append(outcome)
        return outcome

    def _job(self, device: str) -> Job:
        start = time.perf_counter()
        program = [part.format(device=device) for part in self._program]
        done = self._process(device, program, alone=True)
        seconds = time.perf_counter() - start
        if done.code:
            sys.stderr.write(f"{done.said}\n")
        said = _ACCURACY.search(done.said)
        accuracy = float(said[1]) if said and done.code == 0 else None
        reason = done.reason or (f"exit status {done.code}" if done.code else "")
        self._jobs[device] = Job(accuracy, 0.0 if done.code is None else seconds, reason)
        return self._jobs[device]


def _timed(part: Callable[[], object]) -> tuple[object, float]:
    """What came of a part, and its seconds."""
    start = time.perf_counter()
    return part(), time.perf_counter() - start


def table(lines: Sequence[Line]) -> str:
    """The rows as text; speed is that of the program against the reference.

    >>> from ingle.testkit.matrix import Job, Line, Outcome, table
    >>> print(table([Line("numpy", {"native": 3}, {"testkit": Outcome(5, 0)}, Job(0.9, 2.0))]))
    device  native  composed  host  missing  testkit  accuracy  speed
    numpy        3         0     0        0   5 of 5     0.900  1.00x
    """
    reference = next(
        (x.job for x in lines if x.device == REFERENCE and x.job and not x.job.reason), None
    )
    suites = [*dict.fromkeys(suite for line in lines for suite in line.tests)]
    rows = [["device", *ROADS, *suites, "accuracy", "speed"]]
    for line in lines:
        accuracy = speed = "-"
        if line.job is not None and line.job.reason:
            accuracy = line.job.reason
        elif line.job is not None:
            accuracy = "-" if line.job.accuracy is None else f"{line.job.accuracy:.3f}"
            speed = f"{reference.seconds / line.job.seconds:.2f}x" if reference else "-"
        roads = [str(line.roads.get(road, 0)) if line.roads else "?" for road in ROADS]
        tests = [str(line.tests[suite]) if suite in line.tests else "-" for suite in suites]
        rows.append([line.device, *roads, *tests, accuracy, speed])
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if c else cell.ljust(width)
            for c, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def remarks(lines: Sequence[Line]) -> list[str]:
    """Where suites were cut off: what stands in brackets in the table, and the test."""
    return [
        f"{line.device}: {suite}: {outcome.reason} in {outcome.at}"
        for line in lines
        for suite, outcome in line.tests.items()
        if outcome.at
    ]


def _named(given: Sequence[str]) -> dict[str, list[str]]:
    """The paths of suites by their names: `nn=PATH`, or PATH for the folder around `tests`."""
    found: dict[str, list[str]] = defaultdict(list)
    for text in given:
        name, _, path = text.rpartition("=")
        place = Path(path).resolve()
        found[name or (place.parent if place.name == "tests" else place).stem].append(path)
    return dict(found)


def main() -> int:
    """The command; 1 if anything failed or did not come to its end."""
    parser = argparse.ArgumentParser(
        prog="python -m ingle.testkit.matrix", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--backend", action="append", help="only these; may come several times")
    parser.add_argument("--tier", choices=("smoke", "standard", "full"), default="smoke")
    parser.add_argument(
        "--tests", action="append", default=[], metavar="[NAME=]PATH",
        help="tests to run on each device, with the name of their column",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1,
        help="how many suites run at a time, which share the cores (default: one for each)",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=float, default=900, help="seconds that a process may take (%(default)s)"
    )
    parser.add_argument(
        "--within", type=float, default=7200,
        help="seconds after which the table comes, with what is done (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--job", nargs=argparse.REMAINDER, default=[],
        help="the rest: a program and its arguments, with {device} for the device",
    )  # fmt: skip
    options = parser.parse_args()
    present, absent = devices()
    asked = options.backend or present
    unknown = [name for name in asked if name not in present]
    matrix = Matrix(
        [name for name in asked if name in present], options.tier, _named(options.tests),
        options.job, max(1, options.workers), options.limit, options.within,
    )  # fmt: skip
    # Also in the background of a shell, where Ctrl-C is ignored, and when a service's time is up.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    matrix.measure()
    lines = matrix.lines()
    if lines:
        sys.stdout.write(f"{table(lines)}\n")
    for text in remarks(lines):
        sys.stdout.write(f"{text}\n")
    for name, reason in absent.items():
        sys.stdout.write(f"{name}: no device: {reason}\n")
    for name in unknown:
        if name not in absent:
            known = ", ".join([*present, *absent]) or "none"
            sys.stdout.write(f"{name}: not installed; there are {known}\n")
    return int(bool(unknown) or not all(line.whole for line in lines))


if __name__ == "__main__":
    sys.exit(main())
