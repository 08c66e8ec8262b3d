"""The table in methods.md: every name that it gives for one of Burn's exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import ingle.autodiff
import ingle.tensor

PAGE = Path(__file__).with_name("methods.md")
ROOTS = {
    "it": ingle.tensor,
    "autodiff": ingle.autodiff,
    "x": ingle.tensor.Tensor,
}
ROW = re.compile(r"^\| (`.*?`) \| (.*?) \| (.*?) ?\|$", re.MULTILINE)
NAME = re.compile(r"(?<![\w.])(it|autodiff|x)((?:\.[a-zA-Z_]\w*)+)")


def rows() -> list[tuple[list[str], str, str]]:
    text = PAGE.read_text("utf-8").replace(r"\|", "")
    return [(re.findall(r"`(\w+)`", a), b, c) for a, b, c in ROW.findall(text)]


def resolved(root: str, path: str) -> Any:
    value: Any = ROOTS[root]
    for name in path.split(".")[1:]:
        value = getattr(value, name)
    return value


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][0])
def test_the_names_on_the_right_exist(row: tuple[list[str], str, str]) -> None:
    names, answer, note = row
    found = NAME.findall(answer + note)
    for root, path in found:
        assert resolved(root, path) is not None or path.endswith("newaxis")
    assert found or "x[" in answer or note, f"{names[0]} has no answer and no reason"


def test_every_method_is_there_once() -> None:
    names = [f"{title} {n}" for title, n in _by_title()]
    assert len(names) == len(set(names))
    assert len(names) > 266


def _by_title() -> list[tuple[str, str]]:
    parts = re.split(r"^## (.*)$", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return [
        (title, n)
        for title, text in zip(parts[::2], parts[1::2], strict=True)
        for row in ROW.findall(text.replace(r"\|", ""))
        for n in re.findall(r"`(\w+)`", row[0])
    ]


def test_the_expressions_compute() -> None:
    it = ingle.tensor
    x = it.asarray([[1.0, -2.0, 3.0], [0.0, 5.0, -6.0], [4.0, 2.0, 1.0]])
    scope = {
        "it": it, "x": x, "i": it.asarray([0, 1]), "j": it.asarray([1, 0]), "n": 2, "m": 3,
        "a": it.arange(2), "b": it.arange(3), "on": 2, "off": 1, "alpha": 1.0, "axis": 0,
        "starts": it.asarray([0]), "size": 2, "y": it.asarray([7.0, 8.0]),
    }  # fmt: skip
    calls = [
        code
        for _, answer, note in rows()
        for code in re.findall(r"`([^`]*[\])])`", f"{answer} {note}")
        if not re.search(r"\[1:3|loss", code)
    ]
    assert len(calls) > 10
    for code in calls:
        value = eval(code, dict(scope))
        assert isinstance(value, it.Tensor), code
