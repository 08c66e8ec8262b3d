"""The console script: what it prints, what it returns, and commands of plugins."""

import argparse
import json
import subprocess
import sys
import types

import pytest

import ingle.tensor as it
from ingle.tensor import plugins
from ingle.tensor.cli import gather, main
from ingle.tensor.hooks import hookimpl
from ingle.tensor.plugins import Discovery, register, unregister


class Greet:
    help = "says hello"

    @staticmethod
    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        sys.stdout.write(f"hello {args.name}\n")
        return 3


class Commands:
    @hookimpl
    def ingle_commands(self):
        return {"greet": "fake_commands:Greet", "lost": "fake_commands:Lost"}


@pytest.fixture
def commands(monkeypatch):
    module = types.ModuleType("fake_commands")
    module.Greet = Greet
    monkeypatch.setitem(sys.modules, "fake_commands", module)
    register("commands", Commands())
    yield
    unregister("commands")


def test_info_for_people(capsys):
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    for part in ("ingle-tensor 0.", "ingle-numpy 0.", "numpy (ingle_numpy.plugin)", "numpy:0"):
        assert part in out
    assert "<- default: it has the highest priority of those found" in out
    assert out.rstrip().endswith("problems:\n  none")


def test_info_for_programs(capsys):
    assert main(["info", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["default"] == str(it.default_device())
    assert report["devices"][0].keys() == {"name", "index", "priority", "summary", "plugin"}
    assert report["distributions"]["ingle-tensor"]
    assert report["problems"] == []


def test_the_variable_is_the_reason(capsys, monkeypatch):
    monkeypatch.setenv("INGLE_DEVICE", "numpy:0")
    assert main(["info"]) == 0
    assert "<- default: INGLE_DEVICE names it" in capsys.readouterr().out


def test_a_wrong_variable_is_a_problem(capsys, monkeypatch):
    monkeypatch.setenv("INGLE_DEVICE", "numpy:4")
    assert main(["info"]) == 1
    out = capsys.readouterr().out
    assert "INGLE_DEVICE: 'numpy:4' is none of the devices found" in out
    assert "fix: unset or correct it" in out


@pytest.mark.slow
def test_a_plugin_without_a_device_is_no_problem(capsys, monkeypatch):
    module = types.ModuleType("fake_absent")
    module.description = plugins.BackendDescription(
        lambda index: None, lambda: 0, missing="no card"
    )
    monkeypatch.setitem(sys.modules, "fake_absent", module)
    monkeypatch.setitem(plugins.discover().backends, "absent", "fake_absent:description")
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    assert "absent       no device: no card" in out
    assert out.rstrip().endswith("problems:\n  none")
    assert gather().absent["absent"] == "no card"


def test_broken_plugins_are_problems_with_a_fix(commands, monkeypatch):
    found = plugins.discover()
    monkeypatch.setitem(found.failures, "broken", "ImportError: no libfoo")
    monkeypatch.setitem(found.backends, "ghost", "no_such_module_anywhere:description")
    report = gather()
    problems = {p.subject: p for p in report.problems}
    assert problems["plugin 'broken'"].reason == "ImportError: no libfoo"
    assert "no_such_module_anywhere" in problems["backend 'ghost'"].reason
    assert "Lost" in problems["command 'lost'"].reason
    assert all(p.fix for p in report.problems)
    assert report.default == next(plugins.backends_by_priority())


def test_nothing_usable_is_an_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(plugins, "_found", Discovery(failures={"cuda": "OSError: no driver"}))
    assert main(["info"]) == 1
    out = capsys.readouterr().out
    assert "plugin 'cuda': OSError: no driver" in out
    assert "pip install ingle-numpy" in out


def test_commands_of_plugins(commands, capsys):
    assert main(["greet", "world"]) == 3
    assert capsys.readouterr().out == "hello world\n"


def test_help_lists_commands_and_names_broken_ones(commands, capsys):
    assert main([]) == 2
    captured = capsys.readouterr()
    assert "greet" in captured.out
    assert "says hello" in captured.out
    assert "command 'lost' is broken" in captured.err


def test_unknown_commands_are_refused(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["fly"])
    assert caught.value.code == 2
    assert "invalid choice: 'fly'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("command", [["-m", "ingle.tensor", "info"]])
def test_as_a_module(command):
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    assert "devices:" in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_every_operation_is_listed():
    """In a process of its own: other tests have loaded rooms that are loaded at first use."""
    program = """
import importlib, pkgutil
import ingle.tensor
from ingle.tensor.operation import LATE_ROOMS, OPERATIONS
for name in LATE_ROOMS:
    importlib.import_module(name)
listed = set(OPERATIONS)
for module in pkgutil.walk_packages(ingle.tensor.__path__, "ingle.tensor."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
assert set(OPERATIONS) == listed, set(OPERATIONS) - listed
"""
    subprocess.run([sys.executable, "-c", program], check=True)
