"""All backends of this machine in one table: `python -m ingle.testkit.matrix`.

Each backend runs in processes of its own, so that one that crashes or hangs is a row of the table
like the others. What is measured: how it runs each operation (`native`, `composed`, `host`,
`missing`), the testkit, other tests with the backend as the default device, and a program that
trains. A plugin joins by being installed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from ingle.tensor import plugins
from ingle.tensor.eager import REFERENCE

ROADS = ("native", "composed", "host", "missing")
_LIMIT = 3600
"""Seconds that a process may take."""
_ALLOWED = ("-W", "ignore::ingle.tensor.eager.HostFallbackWarning")
"""The table has what runs on the host: tests that take warnings as errors need not fail for it."""
_ACCURACY = re.compile(r"accuracy:? *(\d*\.?\d+)(?!.*accuracy)", re.DOTALL)


class Outcome(NamedTuple):
    """What came of some tests."""

    passed: int
    failed: int

    def __str__(self) -> str:
        return f"{self.passed} of {self.passed + self.failed}"


class Job(NamedTuple):
    """What came of the program: its last accuracy, if it says one, and its seconds."""

    accuracy: float | None
    seconds: float


class Line(NamedTuple):
    """A backend.

    Attributes:
        device: its name.
        roads: how many operations it runs in which way.
        testkit, tests: of the suite, and of the tests that were named.
        job: of the program; None without one, or if it fails.
    """

    device: str
    roads: dict[str, int]
    testkit: Outcome
    tests: Outcome | None
    job: Job | None


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


def measured(device: str, tier: str, tests: Sequence[str], job: Sequence[str]) -> Line:
    """The row of a backend."""
    suite = ["--pyargs", "ingle.testkit", f"--backend={device}", f"--tier={tier}"]
    return Line(
        device,
        _roads(device),
        _outcome(device, suite),
        _outcome(device, [*_ALLOWED, *tests]) if tests else None,
        _job(device, job) if job else None,
    )


def _roads(device: str) -> dict[str, int]:
    program = (
        "import collections, json, sys\n"
        "from ingle.testkit.table import rows\n"
        "print(json.dumps(collections.Counter(r.road for r in rows(sys.argv[1]))))\n"
    )
    done = _run(device, [sys.executable, "-W", "ignore", "-c", program, device])
    if done is None or done.returncode:
        return {}

    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def _outcome(device: str, suite: Sequence[str]) -> Outcome:
    """Runs pytest in a process of its own; a process that dies has failed once."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *suite]
        done = _run(device, [*command, f"--junitxml={report}"])
        if done is not None:
            sys.stderr.write(done.stdout[-2000:] if done.returncode else "")
        if not report.is_file():
            return Outcome(0, 1)
        passed = failed = 0
        for case in ElementTree.parse(report).iter("testcase"):
            kinds = {child.tag for child in case}
            failed += bool(kinds & {"failure", "error"})
            passed += not kinds & {"failure", "error", "skipped"}
        return Outcome(passed, failed)


def _job(device: str, job: Sequence[str]) -> Job | None:
    start = time.perf_counter()
    done = _run(device, [sys.executable, *[part.format(device=device) for part in job]])
    if done is None or done.returncode:
        return None
    said = _ACCURACY.search(done.stdout)
    return Job(float(said[1]) if said else None, time.perf_counter() - start)


def _run(device: str, command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    """A process whose default device is the backend; None if it takes too long."""
    environment = {**os.environ, "INGLE_DEVICE": device}
    try:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return None


def table(lines: Sequence[Line]) -> str:
    """The rows as text; speed is that of the program against the reference.

    >>> from ingle.testkit.matrix import Job, Line, Outcome, table
    >>> print(table([Line("numpy", {"native": 3}, Outcome(5, 0), None, Job(0.9, 2.0))]))
    device  native  composed  host  missing  testkit  tests  accuracy  speed
    numpy        3         0     0        0   5 of 5      -     0.900  1.00x
    """
    reference = next((x.job for x in lines if x.device == REFERENCE and x.job), None)
    rows = [["device", *ROADS, "testkit", "tests", "accuracy", "speed"]]
    for line in lines:
        accuracy = "-" if line.job is None or line.job.accuracy is None else (
            f"{line.job.accuracy:.3f}"
        )  # fmt: skip
        speed = "-" if line.job is None or reference is None else (
            f"{reference.seconds / line.job.seconds:.2f}x"
        )  # fmt: skip
        roads = [str(line.roads.get(road, 0)) if line.roads else "?" for road in ROADS]
        tests = "-" if line.tests is None else str(line.tests)
        rows.append([line.device, *roads, str(line.testkit), tests, accuracy, speed])
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if c else cell.ljust(width)
            for c, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def main() -> int:
    """The command; 1 if anything failed."""
    parser = argparse.ArgumentParser(
        prog="python -m ingle.testkit.matrix", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--backend", action="append", help="only these; may come several times")
    parser.add_argument("--tier", choices=("smoke", "standard", "full"), default="smoke")
    parser.add_argument(
        "--tests", action="append", default=[], help="tests to run on each device: a path"
    )
    parser.add_argument(
        "--job", nargs=argparse.REMAINDER, default=[],
        help="the rest: a program and its arguments, with {device} for the device",
    )  # fmt: skip
    options = parser.parse_args()
    present, absent = devices()
    asked = options.backend or present
    unknown = [name for name in asked if name not in present]
    lines = []
    for name in asked:
        if name in present:
            sys.stderr.write(f"{name} …\n")
            lines.append(measured(name, options.tier, options.tests, options.job))
            sys.stderr.write(f"{table(lines[-1:])}\n")  # hours may lie between it and the whole
    if lines:
        sys.stdout.write(f"{table(lines)}\n")
    for name, reason in absent.items():
        sys.stdout.write(f"{name}: no device: {reason}\n")
    for name in unknown:
        if name not in absent:
            known = ", ".join([*present, *absent]) or "none"
            sys.stdout.write(f"{name}: not installed; there are {known}\n")
    failed = any(
        not line.roads or line.testkit.failed or (line.tests and line.tests.failed)
        or (options.job and line.job is None)
        for line in lines
    )  # fmt: skip
    return int(failed or bool(unknown))


if __name__ == "__main__":
    sys.exit(main())
