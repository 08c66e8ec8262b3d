"""Variables of the environment: empty ones are unset, nonsense is named with what it may be."""

import os
import subprocess
import sys

import pytest

import ingle.tensor as it
from ingle.tensor import settings
from ingle.tensor.errors import ArgumentError, SettingError
from ingle.tensor.memory import pool_from_environment
from ingle.tensor.memory.host import HostSource


@pytest.mark.parametrize("text", ["", " ", "\t"])
def test_empty_is_unset(monkeypatch, text):
    monkeypatch.setenv("INGLE_X", text)
    assert settings.setting("INGLE_X") is None
    assert settings.switch("INGLE_X", default=True)
    assert not settings.switch("INGLE_X", default=False)
    assert settings.whole_number("INGLE_X", 0, 9, "a digit") is None
    assert settings.one_of("INGLE_X", ("a", "b")) is None
    assert settings.folder("INGLE_X") is None


@pytest.mark.parametrize(
    ("text", "on"),
    [("0", False), ("no", False), ("OFF", False), ("False", False), ("1", True), (" 1 ", True),
     ("Yes", True), ("on", True), ("true", True)],
)  # fmt: skip
def test_switches(monkeypatch, text, on):
    monkeypatch.setenv("INGLE_X", text)
    for default in (False, True):
        assert settings.switch("INGLE_X", default) is on


@pytest.mark.parametrize("text", ["2", "-1", "10", "nein", "01x", "9" * 10_000])
def test_nonsense_is_named(monkeypatch, text):
    monkeypatch.setenv("INGLE_X", text)
    for read in (
        lambda: settings.switch("INGLE_X", default=True),
        lambda: settings.whole_number("INGLE_X", 3, 9, "how many"),
        lambda: settings.one_of("INGLE_X", ("a", "b")),
    ):
        with pytest.raises(SettingError, match=r"the variable INGLE_X is .*: give ") as e:
            read()
        assert isinstance(e.value, ArgumentError)
        assert len(str(e.value)) < 200


@pytest.mark.parametrize("number", [3, 5, 9])
def test_whole_numbers_up_to_both_ends(monkeypatch, number):
    monkeypatch.setenv("INGLE_X", f" {number} ")
    assert settings.whole_number("INGLE_X", 3, 9, "how many") == number


def test_memory(monkeypatch):
    for name, wrong in (
        ("INGLE_MEMORY", "fast"), ("INGLE_MEMORY_LIMIT", "much"), ("INGLE_MEMORY_LIMIT", "-1"),
        ("INGLE_MEMORY_LIMIT", "9" * 400 + "T"),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setenv(name, wrong)
            with pytest.raises(SettingError, match=name):
                pool_from_environment(HostSource())
            patch.setenv(name, " ")
            pool_from_environment(HostSource())


def test_the_default_device(monkeypatch):
    monkeypatch.setenv("INGLE_DEVICE", " ")
    assert it.zeros(2).device == it.default_device()
    monkeypatch.setenv("INGLE_DEVICE", ": :")
    with pytest.raises(SettingError, match="the variable INGLE_DEVICE is ': :': cannot read"):
        it.zeros(2)


PROGRAM = """
import ingle.tensor as it
try:
    import ingle.fusion
    x = it.ones((64, 64), dtype="float16")
    print(it.sum(it.exp(x @ x / 64) + 1).item() > 0)
except ValueError as error:
    print(type(error).__name__, error)
"""
SWITCHES = (
    "INGLE_CACHE", "INGLE_FUSION", "INGLE_FUSION_EXACT", "INGLE_AUTOTUNE", "INGLE_CPU_WINOGRAD",
)  # fmt: skip
OTHERS = ("INGLE_NUM_THREADS", "INGLE_RUN_AHEAD", "INGLE_LOG", "INGLE_MEMORY",
          "INGLE_MEMORY_LIMIT", "INGLE_DEVICE", "INGLE_CACHE_DIR", "INGLE_DATA",
          "INGLE_HOST_FALLBACK")  # fmt: skip


def outcome(**environment):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], env={**os.environ, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_program_under_empty_variables():
    assert outcome(**dict.fromkeys(SWITCHES + OTHERS, "")) == "True\n"


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "name",
    [*SWITCHES, "INGLE_NUM_THREADS", "INGLE_RUN_AHEAD", "INGLE_LOG", "INGLE_HOST_FALLBACK"],
)
def test_a_program_under_nonsense(name):
    """It is an error at the first tensor, no device less and no step that is slower."""
    pytest.importorskip("ingle_cpu")
    said = outcome(**{name: "nonsense"})
    assert said.startswith("SettingError")
    assert f"the variable {name} is 'nonsense': give " in said
