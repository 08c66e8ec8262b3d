"""Launches as data: what is written is read again, each kernel stands there once."""

from __future__ import annotations

import json
from typing import Any

import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.runtime.device import Launch
from ingle.fusion.runtime.launch_records import read_launches, written_launches
from ingle_cpu.launch import executable


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """Those of a function that does the same on two sizes and something else on one."""
    found: list[Launch] = []
    of = executable.CpuExecutable.of

    def noting(given: Any, *args: Any) -> Any:
        found.extend(given)
        return of(given, *args)

    monkeypatch.setattr(executable.CpuExecutable, "of", staticmethod(noting))
    monkeypatch.setenv("INGLE_CACHE", "0")

    def function(x: Any, y: Any, w: Any) -> Any:
        return it.softmax(x, axis=-1), it.softmax(y, axis=-1), it.tanh(x @ w) + 1.0

    with it.device("cpu"):
        compile(function)(it.ones((6, 40)), it.ones((7, 50)), it.ones((40, 24)))
    return found


def test_what_was_written_is_read(launches: list[Launch]) -> None:
    said = json.loads(written_launches(launches))
    assert len(launches) >= 3
    assert read_launches(said) == launches


def test_kernels_stand_there_once(launches: list[Launch]) -> None:
    alone, twice = (json.loads(written_launches(some)) for some in (launches, launches * 2))
    assert len(twice[0]) == 2 * len(alone[0])
    assert twice[1] == alone[1]


@pytest.mark.parametrize("strange", [3, "nest", None, [], ["x"], [99, 1], [-2, 7], [-1, {}]])
def test_what_is_no_launch_is_refused(launches: list[Launch], strange: Any) -> None:
    listed, shared = json.loads(written_launches(launches))
    for said in ([[strange], shared], [listed, [strange]], [[*listed, strange], shared]):
        with pytest.raises(ValueError, match="launch"):
            read_launches(said)
