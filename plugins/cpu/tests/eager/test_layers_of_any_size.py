"""Layers of a network on images of ever other sizes: what is planned, and with which bits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion.runtime import plan_cache, planning_work
from ingle.testkit.bits import same_bits
from ingle_cpu.eager import any_size

CHANNELS = (3, 16, 24, 16)
SIZES = ((30, 41), (33, 48), (35, 51), (47, 40), (38, 59), (41, 62), (52, 45), (60, 57), (44, 36))


@pytest.fixture
def device(first_operations, monkeypatch):
    """The backend, which has seen no operation yet, and plans no logs."""
    monkeypatch.setattr(plan_cache.LogFamilies, "of", lambda *_: None)
    return first_operations


def drawn(rng, *shape):
    return it.asarray(rng.normal(size=shape).astype("float32"))


def layers(rng, x):
    found = []
    for before, after in pairwise(CHANNELS):
        x = it.conv2d(x, drawn(rng, after, before, 3, 3), padding=1)
        found.append(x.numpy())
    return found


def gradients(rng, x, stride=1):
    found = []
    for before, after in pairwise(CHANNELS):
        weight = drawn(rng, after, before, 3, 3)
        x = it.conv2d(x, weight, stride=stride, padding=1)
        size = x.shape[2] * stride, x.shape[3] * stride
        options = {"stride": stride, "padding": 1}
        found.append(it.conv_input_gradient(x, weight, size, **options).numpy())
        y = drawn(rng, x.shape[0], before, *size)
        found.append(it.conv_weight_gradient(y, x, (3, 3), **options).numpy())
    return found


NETWORKS = {
    "layers": layers,
    "gradients": gradients,
    "gradients of strides": lambda rng, x: gradients(rng, x, 2),
}


def counted(monkeypatch, owner, name, made):
    plan = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args: (made.append(name), plan(*args))[1])


@pytest.mark.parametrize("name", ["layers", "gradients"])
def test_the_third_size_of_a_network_is_not_planned(name, device, monkeypatch):
    """Not even where all layers run by one function, whose sizes differ from layer to layer."""
    rng, made = np.random.default_rng(0), []
    counted(monkeypatch, planning_work, "compile_graph", made)
    counted(monkeypatch, any_size, "any_size_plan", made)
    network, found = NETWORKS[name], []
    for size in SIZES:
        before = len(made)
        network(rng, drawn(rng, 2, 3, *size))
        found.append(len(made) - before)
    assert min(found[:2]) > 0
    assert not found[2], found
    assert sum(found[2:]) <= 1, "a gradient whose taps are added up, as they are for few elements"


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_bits_are_those_of_plans(name, device, monkeypatch):
    for turn, size in enumerate((*SIZES, (9, 7), (17, 19), (2, 3), (64, 1))):
        x = drawn(np.random.default_rng(turn), 1 + turn % 3, 3, *size)
        found = NETWORKS[name](np.random.default_rng(1), x)
        with monkeypatch.context() as planned:
            planned.setattr(any_size.SizedOperation, "__call__", lambda *_: None)
            known, device._single_operations._known = device._single_operations._known, {}
            expected = NETWORKS[name](np.random.default_rng(1), x)
            device._single_operations._known = known
        assert all(map(same_bits, found, expected)), size
