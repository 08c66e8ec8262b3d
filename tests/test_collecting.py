"""What the root's conftest.py leaves out early: classes by their markers, tests by their peers."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from workspace import ROOT


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("root_conftest", ROOT / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


conftest = loaded()


@pytest.mark.parametrize(
    ("expression", "left_out"),
    [
        ("", set()),
        ("not slow and not nightly", {"slow", "nightly"}),
        ("slow and not nightly", {"nightly"}),
        ("nightly", set()),
        ("not slow or not nightly", set()),  # nothing is left out for one marker alone
        ("not (slow and nightly)", set()),
    ],
)
def test_markers_that_leave_a_class_out(expression: str, left_out: set[str]) -> None:
    assert conftest.unwanted(expression) == left_out


def always() -> Any:
    return pytest.importorskip("torch").nn


def another_first() -> Any:
    pytest.importorskip("numpy")
    return pytest.importorskip("torch.nn")


def sometimes(kind: str) -> Any:
    return pytest.importorskip("torch") if kind == "torch" else None


def no_peer() -> str:
    return "torch"


def test_only_tests_that_always_need_a_peer_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "installed", lambda name: name != "torch")
    peers = [conftest.absent_peer(f) for f in (always, another_first, sometimes, no_peer)]
    assert peers == ["torch", "torch", None, None]
    monkeypatch.setattr(conftest, "installed", lambda name: True)
    assert conftest.absent_peer(always) is None
