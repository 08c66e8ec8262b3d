"""The devices that functions are compiled for."""

from __future__ import annotations

import pytest

import ingle.tensor as it
from ingle.fusion import Fusion
from ingle.tensor import plugins
from ingle.tensor.device import Device
from ingle_numpy.backend import NumpyBackend

DEVICES = ("numpy", "recorded", *({"cpu"} & plugins.discover().backends.keys()))


@pytest.fixture(scope="module")
def recorded_device():
    """A device that records, over the numpy backend, beside those that are installed."""
    device = Device("recorded")
    plugins._backends[device] = Fusion(NumpyBackend(device))
    yield
    del plugins._backends[device]


@pytest.fixture(params=DEVICES)
def on_each_device(recorded_device, request):
    with it.device(request.param):
        yield request.param
