"""What was measured on this machine, kept for later processes.

A device has several ways to compute something and measures which one is fastest. What won is kept
as JSON, in an entry for each kind of machine, whose file can be copied to another one of the same
kind. Results must not differ from run to run, so only ways that give the same bits may be measured
beside each other. A process spends a bounded time on it, so that a start is never slow; the next
process goes on where it ended.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ingle.tensor.locks import renewed

from .disk_store import DiskStore

Entry = dict[str, Any]
"""What is kept of a problem: whatever its device writes in terms of JSON."""
Measured = TypeVar("Measured", Entry, "Entry | None")


class TuningWarning(UserWarning):
    """Candidates of a measurement disagree."""


class Tuner:
    """Entries of problems that were measured on one kind of machine.

    Args:
        store: where they are kept.
        name: of the file there. What holds for other code, drivers or machines has another name.
        machine: what this one is called, for people.
        check: raises where an entry is not of the device's form.
        seconds: what may be spent on measurements.

    Attributes:
        left: how much of that is left.
    """

    def __init__(
        self, store: DiskStore, name: str, machine: str, check: Callable[[Entry], object],
        seconds: float,
    ) -> None:  # fmt: skip
        self.left = seconds
        self._store = store
        self._name = name
        self._machine = machine
        self._check = check
        self._lock = renewed(self, "_lock")
        self._known = self._read()

    def known(self, key: str) -> Entry | None:
        """What was measured of a problem, here or in another process."""
        return self._known.get(key)

    def measured(
        self, key: str, found: Entry | None, measure: Callable[[], Measured]
    ) -> Measured:  # fmt: skip
        """What `measure` finds, which is kept; what another thread has found meanwhile, if it did.

        Args:
            key: names the problem.
            found: what was known, and is not enough.
            measure: takes its time; what it takes is subtracted from what is left. None stands for
                a measurement that was over before it could say anything: the next one begins anew.
        """
        with self._lock:
            known = self._known.get(key)
            if known is not None and known is not found:
                return known
            begin = time.perf_counter()
            made = measure()
            self.left -= time.perf_counter() - begin
            if made is None:
                return made
            self._known[key] = made
            problems = {**self._read(), key: made}
            content = {"machine": self._machine, "problems": problems}
            self._store.put(self._name, json.dumps(content, indent=1, sort_keys=True).encode())
            return made

    def _read(self) -> dict[str, Entry]:
        """What this process and others have measured; nothing if it is not in this form."""
        try:
            problems: dict[str, Entry] = json.loads(self._store.get(self._name) or b"{}")[
                "problems"
            ]
            for entry in problems.values():
                self._check(entry)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}  # absent, or of another form: measured anew
        return dict(problems)


def rounded_size(size: int) -> int:
    """The nearest of 1, 2, 3, 4, 6, 8, 12, 16 …: sizes of about one are measured once.

    >>> [rounded_size(n) for n in (3, 5, 700, 1000)]
    [3, 4, 768, 1024]
    """
    if size <= 4:
        return size
    power = 1 << (size.bit_length() - 1)
    return min((power, power * 3 // 2, power * 2), key=lambda x: abs(x - size))


def quickest(run: Callable[[], object], seconds: float) -> float:
    """The seconds of the quickest of some runs, of which there are three at least."""
    best, end = math.inf, time.perf_counter() + seconds
    runs = 0
    while runs < 3 or (time.perf_counter() < end and runs < 1000):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
        runs += 1
    return best
