"""What a device says of its rates: it decides what is computed again, and estimates; no bit."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device import Rates
from ingle.tensor.device import backend_of
from ingle.testkit.bits import same_bits

pytest.importorskip("ingle_cpu")


def roots(x):
    """A value that two kernels need, walked along different axes; two roots and a division."""
    y = it.sqrt(it.sqrt(x)) / 3.0
    return it.max(y, axis=1), it.max(y, axis=0)


@pytest.fixture
def told(monkeypatch):
    def say(rates):
        monkeypatch.setattr(backend_of("cpu").inner, "rates", rates)

    return say


def test_a_device_with_cheap_arithmetic_computes_more_again(told):
    """Each length stands for one device alone, since plans are kept."""
    found = {}
    for length, rates in ((1021, Rates()), (1031, Rates(plain=1, root=8))):
        told(rates)
        x = it.asarray(np.random.default_rng(3).random((37, length), np.float32), device="cpu")
        found[length] = [s.again for s in explain(roots, x, runs=0).steps if s.again]
        y = np.sqrt(np.sqrt(x.numpy())) / np.float32(3)
        for got, want in zip(compile(roots)(x), (y.max(1), y.max(0)), strict=True):
            assert same_bits(got.numpy(), want)
    assert found == {1021: [], 1031: [("sqrt", "sqrt", "divide")]}


def test_estimates_are_at_the_rates_of_the_device(told):
    x = it.ones((64, 1013), device="cpu")
    (slow,) = explain(lambda x: x + 1.0, x, runs=0).steps
    told(Rates(bandwidth=4e12))
    (fast,) = explain(lambda x: x + 1.0, x, runs=0).steps
    assert slow.nbytes == fast.nbytes
    assert slow.estimate == pytest.approx(slow.nbytes / 50e9)
    assert fast.estimate == pytest.approx(slow.nbytes / 4e12)
