"""Functions that are traced once: what makes a call another one than those before."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.contract import Aval
from ingle.tensor.control.known_calls import call_known
from ingle.tensor.device import Device
from ingle.tensor.dispatch import watch
from ingle.tensor.eager import EagerBackend
from ingle.tensor.errors import DeviceError
from ingle.tensor.hooks import hookimpl
from ingle.tensor.plugins import BackendDescription, register, unregister
from ingle.tensor.programs import trace, written_down


def _made(length: int, x: it.Tensor) -> tuple[it.Tensor, ...]:
    return it.zeros(length, device=x.device), it.arange(length, device=x.device), x + 1


def _dtypes_of(length: int) -> list[it.DType]:
    given = [it.asarray([1.0, 2.0], dtype=it.float32, device="numpy")]
    return [t.dtype for t in call_known(_made, length, given, "made")]


def test_default_dtypes_are_those_of_the_call() -> None:
    assert _dtypes_of(3) == [it.float32, it.int64, it.float32]
    with it.default_dtypes(floating=it.float64):
        assert _dtypes_of(3) == [it.float64, it.int64, it.float32]
    with it.default_dtypes(integer=it.int32):
        assert _dtypes_of(3) == [it.float32, it.int32, it.float32]
    assert _dtypes_of(3) == [it.float32, it.int64, it.float32]


class _Adding(EagerBackend):
    """A backend that can add."""

    name = "adding"
    kernels = {"add": lambda op, x1, x2: np.add(x1, x2)}  # noqa: RUF012

    def to_device_array(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def to_host_array(self, array: np.ndarray) -> np.ndarray:
        return np.array(array)


class _Plugin:
    @hookimpl
    def ingle_backends(self) -> dict[str, str]:
        return {"adding": "adding_backend:description"}


@pytest.fixture
def adding(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The device of a backend beside that of NumPy."""
    module = types.ModuleType("adding_backend")
    module.description = BackendDescription(lambda n: _Adding(Device("adding", n)), priority=-9)
    monkeypatch.setitem(sys.modules, "adding_backend", module)
    register("adding", _Plugin())
    yield "adding"
    unregister("adding")


def _by_device(_: None, x: it.Tensor) -> tuple[it.Tensor, ...]:
    return (x + len(x.device.name),)


def test_devices_have_calls_of_their_own(adding: str) -> None:
    devices = ["numpy", adding, "numpy"]
    given = [it.asarray([1.0, 2.0], device=device) for device in devices]
    found = [call_known(_by_device, None, [x], "by_device")[0] for x in given]
    assert [y.tolist() for y in found] == [[6.0, 7.0], [7.0, 8.0], [6.0, 7.0]]


def _sum(_: None, x: it.Tensor, y: it.Tensor) -> tuple[it.Tensor, ...]:
    return (x + y,)


def test_devices_that_differ_are_refused_by_the_operation_inside(adding: str) -> None:
    given = [it.asarray([1.0], device=device) for device in ("numpy", adding)]
    with pytest.raises(DeviceError, match=r"add: operands live on different devices"):
        call_known(_sum, None, given, "outside")


def test_who_watches_sees_what_is_inside() -> None:
    x = it.asarray([1.0], device="numpy")
    call_known(_sum, None, [x, x], "outside")
    seen: list[str] = []
    watch(lambda op, inputs, outputs: seen.append(op.operation.name))
    try:
        call_known(_sum, None, [x, x], "outside")
    finally:
        watch(None)
    assert seen == ["add"]


def test_what_is_written_down_has_what_is_inside() -> None:
    with written_down():
        traced = trace(
            lambda *given: call_known(_sum, None, given, "outside"),
            [Aval((2,), it.float32)] * 2,
            Device("numpy"),
        )
    assert [step.op.operation.name for step in traced.program.steps] == ["add"]
