"""Loops that run by themselves: by plans of some steps, which serve all lengths."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.nn as nn
import ingle.tensor as it
from ingle.fusion.runtime import loops
from ingle.fusion.runtime.graph_plans import GraphPlans
from ingle.tensor.operation import OPERATIONS
from ingle.testkit.bits import same_bits
from ingle_cpu.eager import looped_operation
from ingle_cpu.eager.looped_operation import LoopedOperation
from ingle_cpu.eager.single_operation import SingleOperations

SCAN = OPERATIONS["scan"]


@pytest.fixture
def device(monkeypatch):
    """Which knows of no operation yet."""
    found = it.zeros(1, device="cpu").backend.inner
    found._single_operations.forget()
    yield found
    found._single_operations.forget()


def gradients(net, length: int, seed: int) -> list[np.ndarray]:
    """Of a recurrent layer, whose log runs for the first time."""
    rng = np.random.default_rng(seed)
    x = it.asarray(rng.standard_normal((length, 3, 5)).astype(np.float32), device="cpu")
    x = x.require_grad()
    found = net(x)
    out = found[0]
    grads = it.sum(out * out).backward()
    return [out.numpy(), grads[x].numpy(), *[grads[p].numpy() for p in net.parameters()]]


@pytest.mark.parametrize("layer", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("length", [50, pytest.param(83, marks=pytest.mark.slow)])
def test_turn_by_turn_they_have_the_bits_of_a_plan(device, monkeypatch, layer, length):
    with it.device("cpu"):
        net = getattr(nn, layer)(5, 7, 2, bidirectional=layer == "GRU")
    found = gradients(net, length, 0)
    turned = [f for f in device._single_operations._known.values() if type(f) is LoopedOperation]
    assert turned
    # Each as a plan of all its steps.
    monkeypatch.setattr(looped_operation, "OFTEN", -1)
    monkeypatch.setattr("ingle_cpu.eager.single_operation.has_pieces", lambda op: False)
    device._single_operations.forget()
    it.zeros(1, device="cpu").backend.planner._forms.clear()
    whole = gradients(net, length, 0)
    assert all(same_bits(a, b) for a, b in zip(found, whole, strict=True))


def test_another_length_plans_nothing(device, monkeypatch):
    with it.device("cpu"):
        net = nn.LSTM(5, 7, 1)
    planned = []
    make = loops._planned_chunk
    monkeypatch.setattr(
        loops, "_planned_chunk", lambda *args: (planned.append(args[4]), make(*args))[1]
    )
    made = GraphPlans._made
    whole = []
    monkeypatch.setattr(
        GraphPlans,
        "_made",
        lambda self, numbers: (
            whole.extend(n.op.operation.name for n in self._graph.nodes),
            made(self, numbers),
        )[1],
    )
    gradients(net, 40, 1)
    gradients(net, 41, 1)
    few = len(planned)
    assert 0 < few <= 4  # some steps and one, forward and backward
    for length in (43, 50, 61, 90, 4, 2, 7, 5):  # of few steps, too, though each is a short plan
        gradients(net, length, 2)
    assert len(planned) == few
    assert "scan" not in whole


def scans_of(length: int):
    """The loops of an LSTM forward and back, with what they run on."""
    found = []
    run = SingleOperations.run

    def seen(self, op, inputs):
        if op.operation is SCAN:
            found.append((op, inputs))
        return run(self, op, inputs)

    with it.device("cpu"):
        net = nn.LSTM(5, 7, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SingleOperations, "run", seen)
        gradients(net, length, 3)
    return found


def test_what_comes_often_has_a_plan_of_all_steps(device, monkeypatch):
    monkeypatch.setattr(looped_operation, "OFTEN", 3)
    for op, args in scans_of(45)[:2]:
        device._single_operations.forget()
        results = [device.execute(op, args) for _ in range(6)]
        known = device._single_operations._known.values()
        (looped,) = [run for run in known if type(run) is LoopedOperation]
        assert looped._whole is not None
        first, *others = [[device.download(h) for h in handles] for handles in results]
        assert all(same_bits(a, b) for other in others for a, b in zip(first, other, strict=True))


def test_short_ones_have_a_plan_of_all_steps():
    ((op, _), *_) = scans_of(30)
    loop = op.operation.loop(op)
    few = loops.UNROLLED // loop.size
    assert not loops.has_pieces(loop.of_length(few))
    assert loops.has_pieces(loop.of_length(few + 1))
    assert not loops.has_pieces(loop.of_length(0))
