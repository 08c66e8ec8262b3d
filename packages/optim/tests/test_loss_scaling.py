"""The scale of a loss: grown, backed off, and steps that are skipped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile
from ingle.tensor.errors import ArgumentError, OperandError

FACTORS = [1.0, float("inf"), 1.0, 1.0, float("nan"), 1.0, 1.0, 1.0, 1.0]


def test_scale_and_steps_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    w, scaler = nn.Parameter([2.0, -1.0]), optim.LossScaler(256.0, growth_interval=3)
    optimizer = optim.Adam([w], lr=0.1)
    v = torch.tensor([2.0, -1.0], requires_grad=True)
    theirs, scaling = torch.optim.Adam([v], lr=0.1), torch.amp.GradScaler(
        "cpu", 256.0, growth_interval=3
    )  # fmt: skip
    for factor in FACTORS:
        loss = it.sum(w * w) * factor
        scaler.step(optimizer, scaler.scale(loss).backward())
        scaler.update()
        theirs.zero_grad()
        scaling.scale((v * v).sum() * factor).backward()
        scaling.step(theirs)
        scaling.update()
        assert scaler.get_scale() == scaling.get_scale()
        np.testing.assert_allclose(w.value.numpy(), v.detach().numpy(), rtol=1e-6)
    state = scaling.state_dict()
    assert scaler.state_dict() == {k: state[k] for k in scaler.state_dict()}
    again = optim.LossScaler()
    again.load_state_dict(state)
    assert again.state_dict() == scaler.state_dict()


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.Adagrad, optim.Lion, optim.NAdam])
def test_a_compiled_step_leaves_parameters_and_moments(make: Any) -> None:
    w, scaler = nn.Parameter([2.0, -1.0]), optim.LossScaler(256.0, growth_interval=3)
    optimizer = make([w], lr=0.1)

    @compile
    def step(factor: Any) -> Any:
        with it.precision("float16"):
            loss = it.sum(w * w) * factor
        taken = scaler.step(optimizer, scaler.scale(loss).backward())
        scaler.update()
        assert taken is None
        return loss

    def held() -> dict[str, Any]:
        tensors = {k: x.tolist() for k, x in optimizer.state_dict().items() if hasattr(x, "tolist")}
        return {"w": w.value.tolist(), **tensors}

    scales = []
    for factor in FACTORS:
        before = held()
        step(it.asarray(factor))
        changed = held() != before or len(held()) != len(before)
        assert changed == (factor == 1.0)
        scales.append(scaler.get_scale())
    assert scales == [256.0, 128.0, 128.0, 128.0, 64.0, 64.0, 64.0, 128.0, 128.0]
    assert step.recordings <= 2


def test_small_gradients_survive() -> None:
    w = nn.Parameter([1.0])
    grads = {}
    for scale in (1.0, 2.0**14):
        scaler = optim.LossScaler(scale)
        with it.precision("float16"):
            loss = it.mean(it.reshape(w, (1, 1)) @ it.full((1, 1), 1e-8 * 2**14)) * 2.0**-14
        grads[scale] = scaler.unscale(scaler.scale(loss).backward())[w].item()
    assert grads[1.0] == 0.0
    np.testing.assert_allclose(grads[2.0**14], 1e-8, rtol=1e-2)


def test_clipping_is_of_unscaled_gradients() -> None:
    w, scaler = nn.Parameter([3.0, 4.0]), optim.LossScaler(1024.0)
    grads = scaler.unscale(scaler.scale(it.sum(w * w) / 2.0).backward())
    assert grads[w].tolist() == [3.0, 4.0]
    clipped, norm = optim.clip_grad_norm(grads, 1.0)
    assert norm.item() == 5.0
    assert scaler.step(optim.SGD([w], lr=1.0), clipped, unscaled=True)
    np.testing.assert_allclose(w.value.numpy(), [2.4, 3.2], rtol=1e-5)


def test_disabled_it_does_nothing() -> None:
    w, scaler = nn.Parameter([2.0]), optim.LossScaler(enabled=False)
    loss = it.sum(w * w)
    assert scaler.scale(loss) is loss
    assert scaler.step(optim.SGD([w], lr=0.25), loss.backward())
    scaler.update()
    assert w.value.tolist() == [1.0]
    assert scaler.get_scale() == 1.0


@pytest.mark.parametrize(
    ("option", "value"),
    [("init_scale", 0.0), ("growth_factor", 1.0), ("backoff_factor", 1.0), ("growth_interval", 0)],
)
def test_options_that_make_no_sense(option: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=option):
        optim.LossScaler(**{option: value})


def test_wrong_arguments() -> None:
    scaler = optim.LossScaler()
    with pytest.raises(OperandError, match="a tensor of floats; got float"):
        scaler.scale(1.0)  # type: ignore[arg-type]
    with pytest.raises(OperandError, match="expected the gradients"):
        scaler.step(optim.SGD([nn.Parameter([1.0])], lr=0.1), {})  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="_growth_tracker is missing"):
        scaler.load_state_dict({"scale": 1.0, "growth_factor": 2.0, "backoff_factor": 0.5,
                                "growth_interval": 1})  # fmt: skip
