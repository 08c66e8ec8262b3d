"""Operations without a gradient rule: what their bodies do is known when they come again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import recording, vmap
from ingle.tensor import probing
from ingle.tensor.errors import OutOfRangeError, TraceError

rng = np.random.default_rng(3)
LABELS = [1, 2, 0, -100]
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "mse": lambda x, y: it.mse_loss(x, y),
    "huber": lambda x, y: it.huber_loss(x, y, delta=0.5) + it.huber_loss(x, y, delta=0.7),
    "smooth_l1": lambda x, y: it.smooth_l1_loss(x, y, reduction="none"),
    "bce": lambda x, y: it.binary_cross_entropy_with_logits(x, it.sigmoid(y)),
    "kl": lambda x, y: it.kl_div(it.log_softmax(x, axis=1), it.softmax(y, axis=1)),
    "nll": lambda x, y: it.nll_loss(x * y, it.asarray(LABELS)),
    "nll_weight": lambda x, y: it.nll_loss(
        x, it.asarray(LABELS) % 3, it.exp(y[0]).detach(), ignore_index=2
    ),
}


def results(call: Callable[[Any, Any], Any], a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    x, y = it.asarray(a).require_grad(), it.asarray(b).require_grad()
    loss = call(x, y)
    grads = loss.sum().backward()
    return [loss.numpy(), *[grads[z].numpy() for z in (x, y) if z in grads]]


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("name", CALLS)
def test_calls_that_come_again_have_the_bits_of_the_first(monkeypatch, name, device):
    asked: list[Any] = []
    answer = recording.known_body

    def noted(*args: Any) -> Any:
        found = answer(*args)
        asked.append(found is not None)
        return found

    with it.device(device):
        for shape in ((4, 3), (4, 5), (4, 3)):
            for turn in range(4):
                a, b = rng.standard_normal((2, *shape)).astype(np.float32)
                if turn == 3:
                    a[0, 0], b[1, 1], a[2, 2] = np.nan, np.inf, 0.0
                with np.errstate(invalid="ignore"):
                    monkeypatch.setattr(recording, "known_body", noted)
                    got = results(CALLS[name], a, b)
                    monkeypatch.setattr(recording, "known_body", lambda *args: None)
                    want = results(CALLS[name], a, b)
                for g, w in zip(got, want, strict=True):
                    np.testing.assert_array_equal(g, w)
    assert asked
    assert asked[-1]


def test_second_derivatives_and_batches_go_through_known_bodies():
    a, b = rng.standard_normal((2, 4, 3))
    d = a - b
    for _ in range(4):
        x = it.asarray(a).require_grad()
        first = it.mse_loss(x, it.asarray(b), reduction="sum").backward()[x]
        np.testing.assert_allclose(first.numpy(), 2 * d)
        rows = vmap(lambda x, y: it.huber_loss(x, y, delta=0.5))(it.asarray(a), it.asarray(b))
        small = np.abs(d) <= 0.5
        want = np.where(small, d * d / 2, 0.5 * (np.abs(d) - 0.25)).mean(1)
        np.testing.assert_allclose(rows.numpy(), want)


def test_an_error_of_a_known_body_names_the_operation():
    with it.device("numpy"):
        x = it.asarray(rng.standard_normal((4, 3)).astype(np.float32)).require_grad()
        for turn in range(5):
            labels = it.asarray([0, 1, 2, 1 if turn in (1, 2, 3) else 7])
            if turn in (1, 2, 3):
                it.nll_loss(x, labels).numpy()
                continue
            with pytest.raises(OutOfRangeError, match=r"^nll_loss: .* 7"):
                it.nll_loss(x, labels)


def test_a_body_that_asks_whether_there_are_values_is_never_known():
    backend = it.asarray(a := np.ones(3)).backend
    x = it.asarray(a)

    def body(x: Any) -> Any:
        return x * 2.0 if x._handle.base().abstract else x * 3.0

    with pytest.raises(TraceError, match="whether there are values"):
        probing.steps_of(backend, body, (x,), {}, False, is_body=True)
