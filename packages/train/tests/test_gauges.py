"""Gauges read what the system shows, and leave out what it does not."""

from collections import namedtuple

import psutil
import pytest

from ingle.train import Gauges

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
