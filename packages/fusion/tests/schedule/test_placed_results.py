"""Results of a device's own operations in parts of other values: who agrees, and who is asked."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion import compile, pipeline
from ingle.fusion.runtime import graph_plans
from ingle.fusion.schedule.placed_results import device_calls
from ingle.fusion.schedule.schedule import HostStep
from ingle.fusion.schedule.whole_calls import whole_calls

SHAPE = 2, 64, 3, 2, 32
GRADIENT = "scaled_dot_product_attention_gradient"


@pytest.fixture
def recorded(monkeypatch):
    """What gives the calls of a function, two of which the device `cpu` computes whole."""
    monkeypatch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
    found = []

    def noted(device, sequence):
        found.append(sequence)
        return device_calls(device, sequence)

    monkeypatch.setattr(pipeline, "device_calls", noted)

    def record(f):
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(s).astype("f4") for s in ((2, 64, 64), (64, 192))]
        with it.device("cpu"):
            compile(f)(*map(it.asarray, arrays))
        (one,) = [s for s in found if len(s.host_steps()) == 2]
        return one

    return record


def attended(x, w):
    q, k, v = it.permute_dims(it.reshape(x @ w, SHAPE), (2, 0, 3, 1, 4))
    return it.scaled_dot_product_attention(q, k, v, is_causal=True)


def rows(heads):
    return it.reshape(it.permute_dims(heads, (0, 2, 1, 3)), (*SHAPE[:2], 64))


@pytest.fixture
def sequence(recorded):
    """Attention between products, with its gradient."""
    return recorded(
        value_and_grad(lambda x, w: it.sum((rows(attended(x, w)) @ w[:, :64]) ** 2), argnums=(0, 1))
    )


def called(sequence, takes, places=True):
    """What a device is asked, how many kernels there are, and its own calls."""
    asked = []

    def launches(call):
        asked.append(call)
        return takes(call)

    device = SimpleNamespace(launches_whole=launches, places_results=places)
    found = device_calls(device, sequence)
    kernels = [c for c in found.sequence.calls if not isinstance(c, HostStep)]
    return asked, len(kernels), list(found.whole.values())


def is_plain(call):
    """Whether results lie in values of their own."""
    made = {root for argument in call.outputs for root in [argument.root]}
    return len(made) == len(call.outputs) and not any(a.offset for a in call.outputs)


def kernels(sequence):
    return len(sequence.calls) - len(sequence.host_steps())


def test_a_device_that_places_results_is_asked_once(sequence):
    asked, count, (forward, backward) = called(sequence, lambda call: True)
    assert len(asked) == 2
    assert count == kernels(sequence) - 5  # three additions of zero, and two copies
    assert forward.outputs[0].strides == (4096, 32, 64, 1)
    assert forward.outputs[1].strides == (128, 64, 1)
    assert backward.operands[4] == forward.outputs[0]._replace(output=False)
    places = [(a.strides, a.offset) for a in backward.outputs]
    assert places == [((12288, 32, 192, 1), at) for at in (0, 64, 128)]
    assert len({a.root for a in backward.outputs}) == 1


def test_a_device_that_says_nothing_of_places_is_asked_as_before(sequence):
    asked, count, calls = called(sequence, lambda call: True, places=False)
    assert (len(asked), count) == (2, kernels(sequence))
    assert all(is_plain(call) for call in calls)


def test_what_is_refused_is_copied(sequence):
    asked, count, calls = called(sequence, is_plain)
    assert len(calls) == 2
    assert all(is_plain(call) for call in calls)
    # The result of attention has a place for itself, which this device does not refuse.
    assert count == kernels(sequence) - 1
    assert len(asked) == len(set(asked))


def test_writer_and_reader_may_both_refuse_a_place(recorded):
    """Of what is left they are asked again."""

    def f(x, w):
        heads = attended(x, w)
        again = it.scaled_dot_product_attention(heads, heads, heads)
        return it.tanh(again), rows(heads) @ w

    sequence = recorded(f)
    plain = [call.arguments for call in whole_calls(sequence).values()]
    _, count, calls = called(sequence, lambda call: call.arguments in plain)
    assert (count, [call.arguments for call in calls]) == (kernels(sequence), plain)
    _, count, _ = called(sequence, lambda call: True)
    assert count == kernels(sequence) - 1


def test_readers_have_to_agree(sequence):
    """A gradient that takes its operands in C order only, and any results."""

    def takes(call):
        lies = call.operands[4].strides if call.op.operation.name == GRADIENT else ()
        return not lies or lies == (4096, 2048, 32, 1)

    _, count, calls = called(sequence, takes)
    assert len(calls) == 2
    assert count == kernels(sequence)


def test_steps_of_the_backend_keep_their_values(sequence):
    """A gradient that it runs by itself reads values that have memory of their own."""
    _, count, calls = called(sequence, lambda call: call.op.operation.name != GRADIENT)
    assert [is_plain(call) for call in calls] == [True]
    assert count == kernels(sequence)
    _, count, calls = called(sequence, lambda call: False)
    assert (count, calls) == (kernels(sequence), [])
