"""Loggers by name: those of the package, and a third party's by its entry point."""

import types

import pytest
from learners import loader, make

from ingle.tensor import plugins
from ingle.tensor.errors import ArgumentError, MissingPackageError
from ingle.tensor.hooks import hookimpl
from ingle.train import CSVLogger, TrainingError, loggers, make_logger, read_jsonl

SHOUTING = """
from ingle.tensor.hooks import hookimpl
from ingle.train import Callback

class Shouting(Callback):
    def __init__(self, path, *, mark="!"):
        self.path, self.mark = path, mark

    def on_epoch(self, learner, record):
        with open(self.path, "a") as file:
            file.write(f"{record['epoch']}{self.mark}")

@hookimpl
def ingle_loggers():
    return {"shouting": "shouting:Shouting"}
"""


@pytest.fixture
def looked_again():
    """Plugins are looked for anew, before and after."""
    plugins.register("nothing", types.ModuleType("nothing"))
    yield
    plugins.unregister("nothing")


@pytest.fixture
def third_party(tmp_path, monkeypatch, looked_again):
    """An installed distribution with a logger."""
    (tmp_path / "shouting.py").write_text(SHOUTING)
    facts = tmp_path / "shouting-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[ingle]\nshouting = shouting\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins.register("nothing", types.ModuleType("nothing"))


def test_an_entry_point_brings_a_logger(third_party, tmp_path):
    assert {"csv", "jsonl", "mlflow", "shouting", "tensorboard"} <= set(loggers())
    path = tmp_path / "said"
    make(loggers={"shouting": path}).fit(loader(), epochs=3)
    assert path.read_text() == "1!2!3!"
    make(loggers={"shouting": {"path": path, "mark": "?"}}).fit(loader(), epochs=1)
    assert path.read_text() == "1!2!3!1?"


def test_own_loggers_write_where_they_are_told(tmp_path):
    into = {
        "csv": tmp_path / "epochs.csv",
        "jsonl": {"path": tmp_path / "log.jsonl", "every": 2},
        "tensorboard": tmp_path / "events",
    }
    history = make(loggers=into).fit(loader(), epochs=2)
    assert read_jsonl(tmp_path / "log.jsonl")[-1] == history[-1]
    assert len((tmp_path / "epochs.csv").read_text().splitlines()) == 3
    assert len(list((tmp_path / "events").iterdir())) == 1
    assert isinstance(make_logger("csv", tmp_path / "other.csv"), CSVLogger)


def test_mistakes_are_explained(tmp_path):
    with pytest.raises(
        MissingPackageError, match=r"'cvs'; did you mean 'csv'\? Installed: 'csv', "
    ):
        make(loggers={"cvs": tmp_path})
    with pytest.raises(ArgumentError, match=r"logger 'jsonl' of plugin 'train': .*'evry'"):
        make_logger("jsonl", tmp_path, evry=3)
    with pytest.raises(ArgumentError, match=r"loggers must be a dict such as .*callbacks="):
        make(loggers=["csv"])


def test_broken_plugins_are_named(monkeypatch, tmp_path):
    class Broken:
        @hookimpl
        def ingle_loggers(self):
            return {"lost": "nowhere:Lost", "list": "builtins:list", "odd": "types:SimpleNamespace"}

    plugins.register("broken", Broken())
    try:
        with pytest.raises(TrainingError, match="'lost' of plugin 'broken' cannot be loaded"):
            make_logger("lost")
        with pytest.raises(
            TrainingError, match=r"gave a list, an ingle.train.Callback was expected"
        ):
            make_logger("list")
    finally:
        plugins.unregister("broken")

    class Taken:
        @hookimpl
        def ingle_loggers(self):
            return {"csv": "builtins:list"}

    plugins.register("taken", Taken())
    try:
        assert "logger 'csv' is already brought" in plugins.discover().failures["taken"]
        assert isinstance(make_logger("csv", tmp_path / "a.csv"), CSVLogger)
    finally:
        plugins.unregister("taken")
