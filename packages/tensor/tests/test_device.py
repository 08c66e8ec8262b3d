"""Devices as values, and the choice among them: string, variable, context."""

import threading

import pytest

import ingle.tensor as it
from ingle.tensor import Device
from ingle.tensor.errors import BackendError, DeviceError


@pytest.mark.parametrize(
    ("text", "name", "index"),
    [
        ("cpu", "cpu", 0),
        ("cuda:1", "cuda", 1),
        ("cuda:12", "cuda", 12),
        ("remote://host:7000/cuda:2", "remote://host:7000/cuda", 2),
        ("remote://host:7000/cuda", "remote://host:7000/cuda", 0),
        ("remote://host:7000", "remote://host:7000", 0),
    ],
)
def test_parse(text, name, index):
    device = Device.parse(text)
    assert (device.name, device.index) == (name, index)
    assert Device.parse(device) is device
    assert Device.parse(str(device)) == device


@pytest.mark.parametrize(
    "text", ["", ":1", "cu da", "cuda:", "\tcpu", "cuda:-1", "cuda:x", "cuda:0:1"]
)
def test_strings_that_are_no_device(text):
    with pytest.raises(DeviceError, match="cannot read the device"):
        Device.parse(text)


@pytest.mark.parametrize("value", [0, None, 1.5, ["cpu"]])
def test_values_that_are_no_device(value):
    with pytest.raises(DeviceError, match="a device is a string"):
        Device.parse(value)


def test_devices_are_values():
    assert Device("cuda", 1) == Device.parse("cuda:1")
    assert len({Device("cpu"), Device.parse("cpu:0")}) == 1
    assert repr(Device("cpu")) == "Device('cpu')"


def test_the_variable_names_the_default(monkeypatch):
    monkeypatch.setenv("INGLE_DEVICE", "numpy")
    assert it.default_device() == Device("numpy")
    assert it.zeros(1).device == Device("numpy")


def test_a_wrong_variable_is_named(monkeypatch):
    monkeypatch.setenv("INGLE_DEVICE", "nunpy")
    with pytest.raises(BackendError, match=r"INGLE_DEVICE='nunpy'.*did you mean 'numpy'"):
        it.zeros(1)
    assert it.zeros(1, device="numpy").device == Device("numpy")


def test_the_context_goes_before_the_variable(monkeypatch):
    monkeypatch.setenv("INGLE_DEVICE", "nowhere")
    with it.device("numpy") as where:
        assert where == it.default_device() == Device("numpy")
        assert it.zeros(1).device == where
    assert it.default_device() == Device("nowhere")


def test_the_context_refuses_an_unknown_device_at_once():
    before = it.default_device()
    with pytest.raises(BackendError, match="no backend named 'nowhere'"), it.device("nowhere"):
        pass
    assert it.default_device() == before


def test_the_context_ends_with_an_exception(monkeypatch):
    monkeypatch.setenv("INGLE_DEVICE", "elsewhere")
    with pytest.raises(ZeroDivisionError), it.device("numpy"):
        raise ZeroDivisionError
    assert it.default_device() == Device("elsewhere")


def test_the_context_is_for_one_thread(monkeypatch):
    monkeypatch.setenv("INGLE_DEVICE", "elsewhere")
    seen = []
    with it.device("numpy"):
        other = threading.Thread(target=lambda: seen.append(it.default_device()))
        other.start()
        other.join()
    assert seen == [Device("elsewhere")]
