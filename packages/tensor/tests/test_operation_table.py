"""The table of operations says what a kernel of each may be asked for."""

from __future__ import annotations

import json

import pytest

from ingle.tensor.cli import main
from ingle.tensor.dtypes import ALL_DTYPES
from ingle.tensor.operation_table import KINDS, dtypes_asked, operations, shortened, told

FLOATS, COMPLEX = KINDS["float"], KINDS["complex"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("exp", {"x": [*FLOATS, *COMPLEX]}),  # integers are cast before
        ("floor", {"x": [*FLOATS]}),
        ("take", {"x": [d.name for d in ALL_DTYPES], "indices": ["int32", "int64"]}),
        ("concat", {"arrays": [d.name for d in ALL_DTYPES]}),
        ("nonzero", {"x": [d.name for d in ALL_DTYPES]}),  # which nothing can trace
        ("full", {"fill_value": [d.name for d in ALL_DTYPES]}),
        ("layer_norm_training", {"x": [*FLOATS]}),  # a form of another one
    ],
)
def test_dtypes_of_inputs(name: str, wanted: dict[str, list[str]]) -> None:
    (line,) = told(operations([name]))
    found = {n: set(d) for n, d in line["dtypes"].items() if n in wanted}
    assert found == {n: set(d) for n, d in wanted.items()}


@pytest.mark.slow
def test_each_operation_with_samples_is_asked_for() -> None:
    asked = dtypes_asked()
    lacks = {o.name for o in operations() if o.samples is not None and not asked[o.name]}
    assert not lacks


def test_a_kind_is_one_word_where_all_of_it_is_there() -> None:
    assert shortened([d.name for d in ALL_DTYPES]) == "bool, int, uint, float, complex"
    assert shortened(["int64", "float32", "bool"]) == "bool, int64, float32"


@pytest.mark.slow
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "exp", "gather"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:6] == [
        "operation",
        "tensors",
        "statics",
        "outputs",
        "family",
        "dtypes",
    ]
    assert [line.split()[0] for line in lines[1:]] == ["take", "take_along_axis", "exp"]
    assert "float, complex" in lines[3]
    assert main(["ops", "exp", "--json"]) == 0
    (told_exp,) = json.loads(capsys.readouterr().out)
    assert told_exp["family"] == "unary"
    assert told_exp["dtypes"] == {"x": [*FLOATS, *COMPLEX]}


def test_an_unknown_name_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "expp"]) == 1
    assert "no operation or family named expp" in capsys.readouterr().err
