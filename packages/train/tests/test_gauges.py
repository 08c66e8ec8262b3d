"""Gauges read what the system shows, and leave out what it does not."""

from collections import namedtuple

import psutil
import pytest

import ingle.tensor as it
from ingle.fusion import Fusion
from ingle.tensor import plugins
from ingle.tensor.plugins import BackendDescription
from ingle.train import Gauges
from ingle_numpy.backend import NumpyBackend

Sensor = namedtuple("Sensor", "label current high critical")


def test_the_hottest_processor_is_shown(monkeypatch):
    shown = {
        "coretemp": [Sensor("core 0", 41.0, 90, 100), Sensor("core 1", 57.5, 90, 100)],
        "nvme": [Sensor("", 70.0, 90, 100)],
    }
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: shown, raising=False)
    assert Gauges(["cpu"]).read()["machine/temperature"] == 57.5


@pytest.mark.parametrize("read", [None, dict])
def test_a_machine_without_sensors_shows_none(monkeypatch, read):
    monkeypatch.setattr(psutil, "sensors_temperatures", read, raising=False)
    found = Gauges(["cpu"]).read()
    assert "machine/temperature" not in found
    assert found["process/memory"] > 1e6
    assert found["cpu/memory"] >= 0


class Talkative(NumpyBackend):
    """Says of itself what a GPU does, without its power; and what there is no gauge of."""

    def gauges(self):
        return {"use": 0.75, "used": 3e9, "total": 8e9, "temperature": 61, "noise": 40.0}


@pytest.mark.parametrize("decorated", [False, True])
def test_devices_say_how_busy_and_how_full_they_are(monkeypatch, decorated):
    device = it.Device("talkative")
    made = Fusion(Talkative(device)) if decorated else Talkative(device)
    description = BackendDescription(create=lambda index: made)
    monkeypatch.setitem(plugins._descriptions, "talkative", description)
    monkeypatch.setitem(plugins._backends, device, made)
    found = {k: v for k, v in Gauges(["talkative", "cpu"]).read().items() if "talkative" in k}
    assert found.pop("talkative/memory") >= 0
    assert found.pop("talkative/reserved") >= 0
    found.pop("talkative/limit", None)
    assert found == {
        "talkative/use": 0.75, "talkative/used": 3e9, "talkative/total": 8e9,
        "talkative/temperature": 61.0,
    }  # fmt: skip
