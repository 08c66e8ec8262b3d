"""Backward passes and updates that are one operation each: the numbers are those of many."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.autodiff import cached_backward, custom_gradient, grad
from ingle.optim.batched_update import batched
from ingle.tensor.operation import OPERATIONS


@pytest.fixture(autouse=True)
def on_cpu():
    with it.device("cpu"):
        yield


@pytest.fixture(params=["one operation", "many"])
def way(request, monkeypatch):
    if request.param == "many":
        monkeypatch.setattr(cached_backward, "FEW", 1 << 30)
    return request.param


@pytest.fixture
def recorded(monkeypatch):
    """How many backward passes were run as one operation, and how many were looked at."""
    monkeypatch.setattr(cached_backward, "_known", {})
    monkeypatch.setattr(cached_backward, "_seen", set())
    counts = {"one": 0, "asked": 0}
    plain = cached_backward.cached_backward

    def counted(*args):
        found = plain(*args)
        counts["asked"] += 1
        counts["one"] += found is not None
        return found

    monkeypatch.setattr("ingle.autodiff.engine.cached_backward", counted)
    return counts


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def trained(make, steps=8):
    """Weights after some steps of a net with dropout, statistics and a schedule."""
    g = it.random.Generator(3)
    net = nn.Sequential(
        nn.Linear(6, 9, bias=False, generator=g), nn.BatchNorm1d(9), nn.GELU(),
        nn.Dropout(0.3, generator=g), nn.Linear(9, 4, generator=g),
    )  # fmt: skip
    optimizer = make(net)
    for k in range(steps):
        loss = it.cross_entropy(
            net(it.asarray(numbers(16, 6, seed=k))), it.asarray([0, 1, 2, 3] * 4)
        )
        optimizer.step(loss.backward())
    return {name: value.numpy() for name, value in net.state_dict().items()}


OPTIMIZERS = {
    "adam": lambda net: optim.Adam(net, lr=optim.schedule.Cosine(1e-2, steps=20)),
    "adamw": lambda net: optim.AdamW(net, lr=1e-2, max_grad_norm=0.5),
    "groups": lambda net: optim.Adam(
        [
            {"params": nn.select(net, "*weight"), "weight_decay": 0.1},
            {"params": nn.select(net, "*bias"), "lr": 0.1},
        ]
    ),
    "amsgrad": lambda net: optim.Adam(net, amsgrad=True),
    "maximize": lambda net: optim.Adam(net, maximize=True),
    "sgd": lambda net: optim.SGD(net, lr=0.1),
    "momentum": lambda net: optim.SGD(net, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_training_gives_the_numbers_of_the_reference_backend(make, way):
    got = trained(make)
    with it.device("numpy"):
        want = trained(make)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-3, atol=2e-5, err_msg=name)


def test_training_is_bit_for_bit_the_same(monkeypatch, recorded):
    one = trained(OPTIMIZERS["adam"])
    assert recorded["one"] == 7
    monkeypatch.setattr(cached_backward, "FEW", 1 << 30)
    many = trained(OPTIMIZERS["adam"])
    for name, value in many.items():
        np.testing.assert_array_equal(one[name], value, err_msg=name)


def chain(x, factor=1.0):
    return it.sum(it.tanh(it.exp(it.sin(x * factor) * 0.5)) * x)


def slope(x, factor=1.0):
    """By central differences in float64."""

    def f(x):
        return np.tanh(np.exp(np.sin(x * factor) * 0.5)) * x

    x = x.astype(np.float64)
    return (f(x + 1e-6) - f(x - 1e-6)) / 2e-6


class TestBackward:
    def test_the_second_pass_and_all_after_it_are_one(self, recorded):
        for k in range(5):
            x = it.asarray(numbers(30, seed=k)).require_grad()
            got = chain(x).sum().backward()[x].numpy()
            np.testing.assert_allclose(got, slope(numbers(30, seed=k)), rtol=1e-3, atol=1e-4)
        assert recorded == {"one": 4, "asked": 5}

    def test_numbers_are_not_part_of_it(self, recorded):
        for k in range(6):
            x = it.asarray(numbers(30)).require_grad()
            got = chain(x, 0.5 + k).sum().backward()[x].numpy()
            np.testing.assert_allclose(got, slope(numbers(30), 0.5 + k), rtol=1e-2, atol=1e-3)
        assert recorded["one"] == 5

    def test_a_number_that_decides_what_the_rule_does(self):
        for power in (2.0, 2.0, 2.0, 0.0, 1.0, 3.0, 2.0, 0.5, 0.0):
            x = it.asarray(np.abs(numbers(30)) + 1).require_grad()
            loss = it.sum(it.sqrt(it.exp(it.sin(x**power))))
            inner = (np.abs(numbers(30)) + 1).astype(np.float64)
            outer = 0.5 * np.sqrt(np.exp(np.sin(inner**power))) * np.cos(inner**power)
            want = outer * power * inner ** (power - 1)
            got = loss.backward()[x].numpy()
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)

    def test_which_tensors_are_the_same_matters(self):
        a, b = numbers(20), numbers(20, seed=1)
        for same in (True, True, True, False, False, False, True):
            x = it.asarray(a).require_grad()
            y = x if same else it.asarray(b).require_grad()
            loss = it.sum(it.exp(it.sin(x) * y) * it.cos(y))
            found = loss.backward()
            s, p = a.astype(np.float64), (a if same else b).astype(np.float64)
            e = np.exp(np.sin(s) * p)
            by_x = e * np.cos(s) * p * np.cos(p)
            by_y = e * np.sin(s) * np.cos(p) - e * np.sin(p)
            np.testing.assert_allclose(
                found[x].numpy(), by_x + by_y if same else by_x, rtol=1e-4, atol=1e-5
            )
            if not same:
                np.testing.assert_allclose(found[y].numpy(), by_y, rtol=1e-4, atol=1e-5)

    def test_a_cotangent(self, recorded):
        for k in range(4):
            x = it.asarray(numbers(30)).require_grad()
            y = it.tanh(it.exp(it.sin(x) * 0.5)) * x
            got = y.backward(it.asarray(numbers(30, seed=k)))[x].numpy()
            np.testing.assert_allclose(
                got, slope(numbers(30)) * numbers(30, seed=k), rtol=1e-3, atol=1e-4
            )
        assert recorded["one"] == 3

    def test_a_frozen_cell_is_another_recording(self):
        w, v = (nn.Parameter(it.asarray(numbers(30, seed=k))) for k in range(2))
        for frozen in (False, False, False, True, True, True, False):
            w.requires_grad = not frozen
            found = it.sum(it.exp(it.sin(w) * v) * it.cos(v)).backward()
            assert (w in found) == (not frozen)
            e = np.exp(np.sin(numbers(30).astype(np.float64)) * numbers(30, seed=1))
            sine, other = np.sin(numbers(30)), numbers(30, seed=1)
            want = e * sine * np.cos(other) - e * np.sin(other)
            np.testing.assert_allclose(found[v].numpy(), want, rtol=1e-4, atol=1e-5)

    def test_what_is_known_to_do_something_of_its_own_is_gone_through(self, recorded):
        seen = []

        @custom_gradient
        def noted(x):
            def pull(g):
                seen.append(len(seen))
                return g * 3.0

            return x * 1.0, pull

        for _ in range(4):
            x = it.asarray(numbers(30)).require_grad()
            loss = it.sum(it.exp(it.sin(noted(x))))
            want = 3 * np.exp(np.sin(numbers(30))) * np.cos(numbers(30))
            np.testing.assert_allclose(loss.backward()[x].numpy(), want, rtol=1e-4, atol=1e-5)
        assert seen == [0, 1, 2, 3]
        assert recorded["one"] == 0

    def test_higher_orders(self):
        for k in range(4):
            x = it.asarray(numbers(30, seed=k))
            got = grad(lambda x: it.sum(grad(chain)(x) ** 2))(x).numpy()
            h = 1e-4
            v = numbers(30, seed=k).astype(np.float64)
            want = (slope(v + h) ** 2 - slope(v - h) ** 2) / (2 * h)
            np.testing.assert_allclose(got, want, rtol=2e-2, atol=5e-3)

    def test_an_index_out_of_range_is_told(self):
        for k in range(4):
            x = it.asarray(numbers(5, 3)).require_grad()
            picked = it.take(x, it.asarray([0, 4 + k // 3]), axis=0)
            loss = it.sum(it.exp(it.sin(picked) * picked) * picked)
            if k < 3:
                assert np.isfinite(loss.backward()[x].numpy()).all()
            else:
                with pytest.raises(it.errors.OutOfRangeError, match="take"):
                    loss.backward()[x].numpy()


def test_updates_together_are_updates_one_by_one():
    op = OPERATIONS["multiply"].op()
    tensors = [it.asarray(numbers(n, seed=n)) for n in (3, 5, 7)]
    for _ in range(3):
        found = batched(op, [(x,) for x in tensors], [2.0])
        for x, (y,) in zip(tensors, found, strict=True):
            np.testing.assert_array_equal(y.numpy(), x.numpy() * 2)
