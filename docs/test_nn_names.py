"""Every public name of PyTorch's modules and optimizers, and of Burn's, has a true answer."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import pytest
from nn_names import HOMES, PAGE, RENAMED, answer, home, nn_names, of_burn, refusals

from ingle import nn, optim


def public(place: str) -> list[str]:
    """The names that PyTorch's documentation means: not what a module has imported."""
    torch = pytest.importorskip("torch")
    if place == "torch.nn.Module":
        return [n for n in dir(torch.nn.Module) if not n.startswith("_")]
    module: Any = importlib.import_module(place)
    names = [n for n in getattr(module, "__all__", dir(module)) if not n.startswith("_")]
    if place == "torch.nn":
        return names
    found = []
    for name in names:
        where = getattr(getattr(module, name), "__module__", "torch")
        if where.startswith("torch.") and where != "torch.nn.modules.container":
            found.append(name)
    return found


@pytest.mark.parametrize("place", HOMES)
def test_every_name_of_pytorch_has_an_answer(place: str) -> None:
    assert [n for n in public(place) if answer(place, n) is None] == []


def test_no_answer_is_out_of_date() -> None:
    for place, names in RENAMED.items():
        assert [n for n in names if hasattr(home(place), n)] == []
    for patterns in refusals().values():
        for pattern in patterns:
            place, _, name = pattern.rpartition(".")
            assert "*" in name or not hasattr(home(place), name)


def test_what_answers_name_is_there() -> None:
    spaces = {"nn": nn, "optim": optim}
    codes = [code for names in RENAMED.values() for code in names.values()]
    for code in [*codes, *of_burn().values()]:
        for path in re.findall(r"\b((?:nn|optim)(?:\.\w+)+)", code):
            first, *steps = path.split(".")
            found: Any = spaces[first]
            for step in steps:
                assert hasattr(found, step), path
                found = getattr(found, step)
    same = [name for name, code in of_burn().items() if not code]
    assert [n for n in same if not hasattr(nn, n) and not hasattr(nn.init, n)] == []


def test_the_page_is_new() -> None:
    assert PAGE.read_text("utf-8") == nn_names(), "write it anew: nox -f nox.py -s names"


LEFT_OUT = {"self", "device", "dtype", "size_average", "reduce", "args", "kwargs"}
OTHERWISE = {
    # Modules for deriving, and what is a list or mapping in both.
    "RNNBase": {"mode"}, "RNNCellBase": {"num_chunks", "bias"}, "ModuleList": {"modules"},
    "ParameterList": {"values"}, "ParameterDict": {"parameters"},
    # Deprecated names; functions of the same name.
    "Hardtanh": {"min_value", "max_value"}, "Transformer": {"activation"},
    # Processes are the user's affair.
    "SyncBatchNorm": {"process_group"},
    "TransformerEncoderLayer": {"activation"}, "TransformerDecoderLayer": {"activation"},
}  # fmt: skip


def test_modules_take_pytorchs_arguments() -> None:
    torch = pytest.importorskip("torch")
    wrong, seen = {}, 0
    for name in public("torch.nn"):
        theirs, ours = getattr(torch.nn, name), getattr(nn, name, None)
        if not isinstance(theirs, type) or not isinstance(ours, type):
            continue
        seen += 1
        mine = inspect.signature(ours.__init__).parameters
        rest = any(p.kind is p.VAR_KEYWORD for p in mine.values())
        also = getattr(ours, "__also__", {})
        for key, given in inspect.signature(theirs.__init__).parameters.items():
            if key in LEFT_OUT | OTHERWISE.get(name, set()) | set(also) or (rest and key == "bias"):
                continue
            if key not in mine or mine[key].default != given.default:
                wrong.setdefault(name, []).append(key)
    assert not wrong
    assert seen > 140
