"""Launches as data: what is written is read again, each kernel stands there once."""

from __future__ import annotations

import json
from typing import Any

import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.runtime.device import Launch
from ingle.fusion.runtime.launch_records import read_launches, written_launches
from ingle.fusion.schedule.schedule import arguments_of
from ingle_cpu.launch import executable


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """The launches of what is compiled from now on."""
    found: list[Launch] = []
    of = executable.CpuExecutable.of

    def noting(given: Any, *args: Any) -> Any:
        found.extend(given)
        return of(given, *args)

    monkeypatch.setattr(executable.CpuExecutable, "of", staticmethod(noting))
    monkeypatch.setenv("INGLE_CACHE", "0")
    return found


@pytest.fixture
def launches(noted: list[Launch]) -> list[Launch]:
    """Those of a function that does the same on two sizes and something else on one."""

    def function(x: Any, y: Any, w: Any) -> Any:
        return it.softmax(x, axis=-1), it.softmax(y, axis=-1), it.tanh(x @ w) + 1.0

    with it.device("cpu"):
        compile(function)(it.ones((6, 40)), it.ones((7, 50)), it.ones((40, 24)))
    return noted


def test_what_was_written_is_read(launches: list[Launch]) -> None:
    said = json.loads(written_launches(launches))
    assert len(launches) >= 3
    assert read_launches(said) == launches


def test_kernels_stand_there_once(launches: list[Launch]) -> None:
    alone, twice = (json.loads(written_launches(some)) for some in (launches, launches * 2))
    assert len(twice[0]) == 2 * len(alone[0])
    assert twice[1] == alone[1]


def test_what_differs_in_places_alone_is_one_call(noted: list[Launch]) -> None:
    def function(w: Any, *given: Any) -> Any:
        return [it.softmax(it.tanh(x @ w), axis=-1) for x in given]

    lengths = []
    for count in (3, 9):
        noted.clear()
        with it.device("cpu"):
            compile(function)(it.ones((24, 16)), *[it.ones((6, 24)) for _ in range(count)])
        calls = {id(x.call): x.call for x in noted}
        assert len(noted) >= count * len(calls)
        assert not any(call.nodes for call in calls.values())
        assert not any(a.root for call in calls.values() for a in arguments_of(call))
        lengths.append(len(json.loads(written_launches(noted))[1]))
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("strange", [3, "nest", None, [], ["x"], [99, 1], [-2, 7], [-1, {}]])
def test_what_is_no_launch_is_refused(launches: list[Launch], strange: Any) -> None:
    listed, shared = json.loads(written_launches(launches))
    for said in ([[strange], shared], [listed, [strange]], [[*listed, strange], shared]):
        with pytest.raises(ValueError, match="launch"):
            read_launches(said)
