"""The chart of `bench/run.py --plot`."""

from __future__ import annotations

import importlib.util
from typing import Any, NamedTuple
from xml.etree import ElementTree

from workspace import ROOT

SVG = "{http://www.w3.org/2000/svg}"


class Row(NamedTuple):
    workload: str
    system: str
    ratio_min: float | None


def chart() -> Any:
    spec = importlib.util.spec_from_file_location("chart", ROOT / "bench" / "chart.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_bars_are_as_long_as_their_ratios() -> None:
    rows = [
        Row("mlp", "torch", 1.0), Row("mlp", "ingle-cpu", 1.5), Row("sum", "numpy", 0.5),
        Row("sum", "ingle-cpu", 30.0),
    ]  # fmt: skip
    root = ElementTree.fromstring(chart().drawn(rows, "a machine & a date"))
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert texts[-1] == "a machine & a date"
    bars = [r for r in root.iter(f"{SVG}rect") if r.get("rx") == "2"]
    labels = [t for t in texts if "\u00d7 " in t]
    assert labels == [
        "1.50\u00d7 Ingle, compiled", "1.00\u00d7 PyTorch",
        "30.00\u00d7 \u203a Ingle, compiled", "0.50\u00d7 NumPy",
    ]  # fmt: skip
    first, second, cut, fourth = [float(bar.get("width", 0)) for bar in bars]
    assert abs(first / second - 1.5) < 0.01
    assert abs(second / fourth - 2.0) < 0.01
    assert abs(cut / second - chart().MOST) < 0.01
    assert len({bar.get("y") for bar in bars}) == 4


def test_rows_without_a_ratio_are_left_out(tmp_path: Any) -> None:
    file = tmp_path / "chart.svg"
    chart().write([Row("mlp", "ingle-cpu", None), Row("sum", "numpy", 1.0)], str(file), where="")
    assert "mlp" not in file.read_text("utf-8")
