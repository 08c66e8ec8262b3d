"""What a run of pytest has come to so far, in a file that is left when the run is cut off.

`pytest -p ingle.testkit.tally --ingle-tally=FILE` writes a line when a test begins and one when it
ends; `--ingle-share=1/4` runs each fourth of the tests, from the second on. `Outcome.read` sums
such a file up.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

_STATES = ("passed", "failed", "skipped")


class Outcome(NamedTuple):
    """What came of some tests.

    Attributes:
        passed, failed, skipped: how many.
        collected: how many there are.
        reason: why not all of them ran, in a few words; empty if they did.
        at: the test in which that was.

    >>> from ingle.testkit.tally import Outcome
    >>> str(Outcome(5, 0)), str(Outcome(48, 1, 1, 100, "600 s"))
    ('5 of 5', '48 of 99 (600 s)')
    """

    passed: int
    failed: int
    skipped: int = 0
    collected: int = 0
    reason: str = ""
    at: str = ""

    @property
    def whole(self) -> bool:
        """Whether all tests ran and none failed."""
        return not self.failed and not self.reason

    def __str__(self) -> str:
        every = max(self.collected - self.skipped, self.passed + self.failed)
        if self.reason and not every:
            return self.reason
        return f"{self.passed} of {every}" + (f" ({self.reason})" if self.reason else "")

    @classmethod
    def read(cls, file: Path, reason: str = "") -> Outcome:
        """What a run has written, which ended for a reason if it did not end by itself."""
        states: dict[str, str] = {}
        collected, running = 0, ""
        for line in file.read_text("utf-8").splitlines() if file.is_file() else ():
            state, _, name = line.partition(" ")
            if state == "collected":
                collected += int(name)
            elif state == "begins":
                running = name
            elif state == "ended":
                running = ""
            elif states.get(name) != "failed":  # a fixture may fail behind a test that passed
                states[name] = state
        passed, failed, skipped = (list(states.values()).count(state) for state in _STATES)
        return cls(passed, failed, skipped, collected, reason, running if reason else "")

    @classmethod
    def of_all(cls, shares: Sequence[Outcome]) -> Outcome:
        """The shares of one suite together; reasons are the first one's that has one."""
        cut = next((share for share in shares if share.reason), None)
        return cls(
            sum(share.passed for share in shares), sum(share.failed for share in shares),
            sum(share.skipped for share in shares), sum(share.collected for share in shares),
            *((cut.reason, cut.at) if cut else ("", "")),
        )  # fmt: skip


class Tally:
    """Writes the file."""

    def __init__(self, file: Path | None, share: tuple[int, int]) -> None:
        self._file = file
        self._share = share

    def _write(self, line: str) -> None:
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        number, count = self._share
        mine = items[number::count]
        if len(mine) < len(items):
            kept = set(mine)
            config.hook.pytest_deselected(items=[item for item in items if item not in kept])
            items[:] = mine

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._write(f"collected {len(session.items)}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(f"failed {report.nodeid}")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write(f"begins {nodeid}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or report.skipped or report.when == "call":
            self._write(f"{report.outcome} {report.nodeid}")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._write(f"ended {nodeid}")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ingle", "Ingle's suite for backends")
    group.addoption("--ingle-tally", metavar="FILE", help="write there what comes of each test")
    group.addoption(
        "--ingle-share", metavar="K/N", default="0/1",
        help="run the tests with the numbers K, K + N, K + 2 N, …",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--ingle-tally")
    number, _, count = config.getoption("--ingle-share").partition("/")
    if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
        raise pytest.UsageError("--ingle-share wants K/N with 0 <= K < N, such as 0/4")
    config.pluginmanager.register(Tally(Path(file) if file else None, (int(number), int(count))))
