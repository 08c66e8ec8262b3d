"""Checks of plans that nobody waited for: who hears of them, and when they are waited for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ingle.fusion.runtime import pending_checks
from ingle.fusion.runtime.pending_checks import PendingChecks
from ingle.tensor.errors import LostDeviceError, OutOfRangeError


class Line:
    """A device's checks, whose flags are known as soon as somebody waits for them."""

    def __init__(self) -> None:
        self.checks = PendingChecks(self.read)
        self.waited: list[Any] = []

    def read(self, flags: Sequence[Any]) -> Callable[[], Sequence[bool]]:
        def wait() -> Sequence[bool]:
            self.waited.append(flags)
            if isinstance(flags[0], BaseException):
                raise flags[0]
            return flags

        return wait

    def value(self) -> Any:
        """A value that is made now."""
        return SimpleNamespace(check=self.checks.last)

    def run(self, *flags: Any) -> Any:
        """A value of a plan with flags."""
        made = self.value()
        self.checks.begin(flags, [f"take: index {n}" for n in range(len(flags))], [made])
        return made


def test_nobody_waits_before_somebody_asks() -> None:
    line = Line()
    values = [line.run(False) for _ in range(3)]
    for value in values:
        line.checks.ensure(value)
    assert not line.waited
    line.checks.settle(0)
    assert len(line.waited) == 3
    assert line.checks.last is None
    line.checks.ensure(values[0])
    assert values[0].check is None


def test_an_error_that_is_raised_elsewhere_names_the_line_that_asked() -> None:
    line = Line()
    made = line.run(True)
    line.checks.wait()
    with pytest.raises(OutOfRangeError) as found:
        line.checks.ensure(made)
    assert str(found.value).startswith("take: index 0 (found later; called at ")
    assert re.search(rf"{Path(__file__).name}:\d+, in run\)$", str(found.value))


def test_values_behind_a_failure_have_it_and_others_do_not() -> None:
    line = Line()
    before = line.value()
    line.run(False)
    good = line.value()
    bad = line.run(False, True)
    behind = line.value()
    line.checks.wait()
    for value in (bad, behind):
        for _ in range(2):  # as often as somebody asks
            with pytest.raises(OutOfRangeError, match="take: index 1"):
                line.checks.ensure(value)
    for value in (before, good, line.value()):
        line.checks.ensure(value)


def test_a_failure_that_nobody_heard_of_is_reported_once() -> None:
    line = Line()
    bad = line.run(True)
    with pytest.raises(OutOfRangeError):
        line.checks.report()
    line.checks.report()
    heard = line.run(True)
    line.checks.wait()
    with pytest.raises(OutOfRangeError):
        line.checks.ensure(heard)
    line.checks.report()
    with pytest.raises(OutOfRangeError):
        line.checks.ensure(bad)


def test_who_settles_hears_of_the_first_failure_since() -> None:
    line = Line()
    line.run(True)
    line.checks.wait()
    failures = line.checks.failures
    line.checks.settle(failures)
    line.run(False, True)
    line.run(True)
    with pytest.raises(OutOfRangeError, match="index 1"):
        line.checks.settle(failures)


def test_checks_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_checks, "MOST", 4)
    line = Line()
    bad = line.run(True)
    for _ in range(3):
        line.run(False)
    assert not line.waited
    line.run(False)
    assert line.waited  # a failure ends all that may depend on it
    with pytest.raises(OutOfRangeError):
        line.checks.ensure(bad)
    waited = len(line.waited)
    for _ in range(9):
        line.run(False)
    assert len(line.waited) == waited + 6


def test_an_interrupt_loses_no_failure() -> None:
    line, told = Line(), [False]

    def read(flags: Sequence[Any]) -> Callable[[], Sequence[bool]]:
        def wait() -> Sequence[bool]:
            if not told[0]:
                told[0] = True
                raise KeyboardInterrupt
            return flags

        return wait

    line.checks = PendingChecks(read)
    bad = line.run(True)
    with pytest.raises(KeyboardInterrupt):
        line.checks.wait()
    line.checks.ensure(bad)  # nothing is known yet
    with pytest.raises(OutOfRangeError):
        line.checks.settle(0)


def test_values_of_another_device_bring_its_checks_along() -> None:
    home, other = Line(), Line()
    other.run(True)
    here = home.run(False)
    home.checks.follow(other.checks)
    home.checks.follow(other.checks)  # of the next value
    copied = home.value()
    with pytest.raises(OutOfRangeError):
        home.checks.settle(0)
    assert len(other.waited) == 1
    assert len(home.waited) == 1
    home.checks.ensure(here)
    with pytest.raises(OutOfRangeError):
        home.checks.ensure(copied)
    with pytest.raises(OutOfRangeError):
        other.checks.settle(0)


def test_a_lost_device_does_not_take_another_one_along() -> None:
    home, other = Line(), Line()
    other.run(LostDeviceError("far: gone"))
    home.checks.follow(other.checks)
    copied = home.value()
    with pytest.raises(LostDeviceError, match="gone"):
        home.checks.settle(0)
    with pytest.raises(LostDeviceError, match="gone"):
        home.checks.ensure(copied)
    home.checks.settle(home.checks.failures)
    home.checks.ensure(home.run(False))
