"""What the root's conftest.py leaves out: classes by their markers, tests by their peers, and sets
of parameters for slower tiers."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
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


def tiers(*arguments: int) -> Counter[str]:
    return Counter(conftest.tier_of(f"test[{n}-float32]", *arguments) for n in range(1200))


def test_a_share_of_many_sets_of_parameters_is_left_for_slower_tiers() -> None:
    assert 240 < tiers(4)[""] < 360
    assert tiers(4, 1)["nightly"] == 0
    assert 600 < tiers(4)["nightly"] < 750
    assert 240 < tiers(2, 2)["slow"] < 360
    assert 240 < tiers(2, 2)["nightly"] < 360
    assert tiers(4, 0)["slow"] == 0


class Item:
    """A test of a class that is sampled, as far as choosing looks at it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodeid = f"test_file.py::{name}"
        self.marks: list[str] = []

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        yield pytest.mark.sampled(1000, slow=1).mark

    def add_marker(self, name: str) -> None:
        self.marks.append(name)


class Config:
    """A configuration, as far as choosing looks at it."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.hook = SimpleNamespace(pytest_deselected=lambda items: None)

    def getoption(self, name: str) -> str:
        assert name == "--part"
        return self.part


def test_parts_have_all_slow_tests_once_and_each_has_the_others() -> None:
    names = [f"test_a[{n}]" for n in range(600)] + ["test_b"]
    parts = []
    for part in ("1/3", "2/3", "3/3"):
        items = [Item(name) for name in names]
        conftest.pytest_collection_modifyitems(Config(part), items)
        parts.append({item.name for item in items})
        always = {item.name for item in items if not item.marks}
    assert set.union(*parts) == {*names}
    assert set.intersection(*parts) == always
    assert all(150 < len(part) < 250 for part in parts)


def test_the_first_set_of_parameters_is_never_left_out() -> None:
    names = ("test_a[0]", "test_a[1]", "test_a[2]", "test_b", "test_c[0]")
    items = [Item(name) for name in names]
    conftest.pytest_collection_modifyitems(Config("1/1"), items)
    assert [item.marks for item in items] == [[], ["slow"], ["slow"], [], []]
