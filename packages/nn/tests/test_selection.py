"""Parameters by path, pattern and predicate."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ingle import nn
from ingle.nn import select
from ingle.tensor.errors import ArgumentError, OperandError


def block() -> nn.ModuleDict:
    return nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})


@pytest.fixture
def model() -> nn.ModuleDict:
    return nn.ModuleDict({"enc": block(), "enc2": block(), "head": nn.Linear(2, 1)})


ALL = [
    "enc.a.weight", "enc.a.bias", "enc.b.weight", "enc.b.bias",
    "enc2.a.weight", "enc2.a.bias", "enc2.b.weight", "enc2.b.bias", "head.weight", "head.bias",
]  # fmt: skip


@pytest.mark.parametrize(
    ("selectors", "exclude", "expected"),
    [
        ((), (), ALL),
        (("enc",), (), ALL[:4]),
        (("enc*",), (), ALL[:8]),
        (("head.weight",), (), ["head.weight"]),
        (("*.bias",), (), [n for n in ALL if n.endswith("bias")]),
        (("enc?.a.*",), (), ALL[4:6]),
        ((re.compile(r"\.b\."),), (), [n for n in ALL if ".b." in n]),
        ((lambda path, p: p.shape == (1, 2),), (), ["head.weight"]),
        (("enc", "head"), ("*.bias",), ["enc.a.weight", "enc.b.weight", "head.weight"]),
    ],
)
def test_selectors(model: Any, selectors: Any, exclude: Any, expected: list[str]) -> None:
    assert list(select(model, *selectors, exclude=exclude)) == expected


def test_modules_and_parameters_select_themselves(model: Any) -> None:
    assert list(select(model, model["enc2"])) == ALL[4:8]
    assert list(select(model, model["head"].bias)) == ["head.bias"]


def test_a_tied_parameter_is_found_by_any_path() -> None:
    model = block()
    model["b"].weight = model["a"].weight
    assert list(select(model, "b.weight")) == ["a.weight"]
    assert list(select(model, exclude=["b.weight"])) == ["a.bias", "b.bias"]


def test_a_name_that_finds_nothing_is_an_error_with_a_hint(model: Any) -> None:
    with pytest.raises(ArgumentError, match=r"no parameter matches 'head.wieght'.*head\.weight"):
        select(model, "head.wieght")
    with pytest.raises(ArgumentError, match=r"no parameter matches '\^x'"):
        select(model, re.compile("^x"))
    with pytest.raises(ArgumentError, match="the module has no parameters"):
        select(nn.Identity(), "weight")
    with pytest.raises(OperandError, match=r"a selector is a path.*got int"):
        select(model, 3)  # type: ignore[arg-type]
    assert select(model, lambda path, p: False) == {}
