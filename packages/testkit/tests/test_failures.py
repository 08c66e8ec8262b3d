"""A device that fails has refused nothing, and neither has a reference with a fault."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from ingle.tensor.errors import BackendError, LostDeviceError, OutOfMemoryError
from ingle.tensor.operation import OPERATIONS
from ingle.testkit import corners, properties, traps, wrong_calls
from ingle_numpy.backend import NumpyBackend

Devices = Callable[..., str]
EXP = OPERATIONS["exp"]
CHECKS: dict[str, Callable[[str], object]] = {
    "few": partial(corners.check_few_elements, EXP),
    "special": partial(corners.check_special_values, EXP),
    "variations": lambda where: properties.check(EXP, where, ["float32"], 30),
}


def odd(x: Any) -> bool:
    """What only some checks come to: no elements, or NaN."""
    return np.size(x) == 0 or bool(np.isnan(x).any())


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kind", [BackendError, LostDeviceError, OutOfMemoryError])
def test_of_a_kernel(make_device: Devices, check: str, kind: type[Exception]) -> None:
    """What a driver says is an error of Ingle's, and names the operation: a call is no mistake."""

    def failing(op: Any, x: Any) -> Any:
        if odd(x):
            raise kind("exp: the driver failed")
        return np.exp(x)

    with pytest.raises(AssertionError, match="exp: the driver failed"):
        CHECKS[check](make_device("failing", exp=failing))


@pytest.mark.parametrize("check", ["few", "variations"])
@pytest.mark.parametrize("kind", [RuntimeError, ValueError, BackendError])
def test_of_a_download(make_device: Devices, check: str, kind: type[Exception]) -> None:
    class Late(NumpyBackend):
        def download(self, handle: Any) -> np.ndarray:
            if 0 in handle.shape:
                raise kind("exp: the driver failed")
            return super().download(handle)

    with pytest.raises(AssertionError, match="exp: the driver failed"):
        CHECKS[check](make_device("late", kind=Late))


@pytest.mark.parametrize("kind", [RuntimeError, ValueError, IndexError, BackendError])
def test_on_large_arrays(make_device: Devices, kind: type[Exception]) -> None:
    def failing(op: Any, x: Any) -> Any:
        if np.size(x) > 4096:
            raise kind("the driver failed")
        return np.exp(x)

    with pytest.raises(AssertionError, match=r"  exp: .*the driver failed"):
        traps.check_large(make_device("failing", exp=failing), only=["exp"])


def test_on_wrong_calls(make_device: Devices) -> None:
    """They are refused before they come to a device; and a number for a tensor is no mistake."""

    def failing(op: Any, *arrays: Any) -> Any:
        raise BackendError("exp: the driver failed")

    with pytest.raises(AssertionError, match="the device failed"):
        wrong_calls.check(EXP, make_device("failing", exp=failing))


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_of_a_reference(make_device: Devices, monkeypatch: pytest.MonkeyPatch, check: str) -> None:
    """It need not take all calls: it then raises what NumPy raises. All else is told."""

    def broken(kind: type[Exception], x: Any) -> Any:
        if odd(x):
            raise kind("no such name")
        return np.exp(x)

    where = make_device("honest")
    for kind in (AttributeError, NameError, ZeroDivisionError, RuntimeError):
        monkeypatch.setattr(EXP, "reference", partial(broken, kind))
        with pytest.raises(AssertionError, match="no such name"):
            CHECKS[check](where)
    for kind in (ValueError, TypeError, IndexError):
        monkeypatch.setattr(EXP, "reference", partial(broken, kind))
        CHECKS[check](where)
