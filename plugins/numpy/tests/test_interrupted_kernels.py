"""What comes while a kernel runs has the surroundings of its thread, and its own error state."""

from __future__ import annotations

import signal
import warnings

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import no_grad

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGUSR1"), reason="no signals of the user's on this system"
)


@pytest.fixture
def interrupted(monkeypatch):
    """Calls a function in a handler of signals, which comes inside of the kernel of `floor`."""
    found = []

    def interrupt(handler):
        x = it.full((3, 5), 1.5, device="numpy")
        kernels = x.backend.kernels  # of the backend at hand, whatever other tests did to it
        kernel = kernels["floor"]

        def raised(op, x):
            signal.raise_signal(signal.SIGUSR1)
            return kernel(op, x)

        monkeypatch.setitem(kernels, "floor", raised)
        x.backend._resolved.clear()  # a backend looks each kernel up once
        before = signal.signal(signal.SIGUSR1, lambda *_: found.append(handler()))
        try:
            assert float(it.sum(it.floor(x))) == x.size
        finally:
            signal.signal(signal.SIGUSR1, before)
            x.backend._resolved.clear()
            kernels["floor"] = kernel
        return found.pop()

    return interrupt


def test_a_handler_makes_tensors_on_the_device_of_its_thread(interrupted):
    for device in it.__array_namespace_info__().devices():
        with it.device(device):
            assert interrupted(lambda: it.ones(3).device) == device


def test_a_handler_has_the_precision_and_the_levels_of_its_thread(interrupted):
    def recorded():
        x = it.asarray([2.0], device="numpy").require_grad()
        return len(it.sum(x * x).backward())

    assert interrupted(recorded) == 1
    with it.default_dtypes(floating="float64"):
        assert interrupted(lambda: it.ones(2, device="numpy").dtype) is it.float64
    with no_grad(), pytest.raises(it.errors.IngleError):
        interrupted(recorded)


def test_kernels_are_silent_and_leave_numpys_error_state_as_it_is():
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        x = it.asarray([0.0, -1.0], device="numpy")
        assert (1.0 / x)[0].item() == it.inf
        assert bool(it.isnan(it.log(x))[1])
        assert set(np.geterr().values()) == {"raise"}
