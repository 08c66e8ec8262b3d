"""The adaptive softmax against PyTorch's, and the loss of a transducer against its recurrence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.tensor.errors import ArgumentError, ShapeError

TARGET = np.asarray([0, 5, 11, 3])


@pytest.mark.parametrize(
    ("args", "options"),
    [((8, 12, [4]), {}), ((8, 12, [2, 5, 9], 2.0), {"head_bias": True})],
)
def test_adaptive_softmax(parity: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = parity("AdaptiveLogSoftmaxWithLoss", *args, inputs=[(4, 8), TARGET], **options)
    x = np.random.default_rng(0).normal(size=(3, 8))
    want = theirs.log_prob(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours.log_prob(it.asarray(x)).numpy(), want, rtol=1e-9)
    picked = theirs.predict(torch.tensor(x)).tolist()
    assert ours.predict(it.asarray(x)).tolist() == picked


def transducer(logits: np.ndarray, labels: list[int], steps: int, blank: int) -> float:
    """The recurrence of the paper, place by place."""
    p = np.exp(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))
    alpha = np.zeros((steps, len(labels) + 1))
    alpha[0, 0] = 1.0
    for t in range(steps):
        for u in range(len(labels) + 1):
            if t:
                alpha[t, u] += alpha[t - 1, u] * p[t - 1, u, blank]
            if u:
                alpha[t, u] += alpha[t, u - 1] * p[t, u - 1, labels[u - 1]]
    return float(-np.log(alpha[-1, -1] * p[steps - 1, len(labels), blank]))


@pytest.mark.slow
@pytest.mark.parametrize("blank", [0, -1])
def test_transducer_is_its_recurrence(blank: int) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 5, 4, 6))
    labels = rng.integers(1, 5, size=(3, 3))
    steps, counts = [5, 3, 4], [3, 1, 2]
    x = it.asarray(logits).require_grad()
    loss = nn.RNNTLoss(blank, "none")
    lengths = it.asarray(steps), it.asarray(counts)
    got = loss(x, it.asarray(labels), *lengths)

    def plain(values: np.ndarray) -> list[float]:
        rows = zip(values, labels, steps, counts, strict=True)
        return [transducer(v, list(y[:u]), t, blank % 6) for v, y, t, u in rows]

    np.testing.assert_allclose(got.numpy(), plain(logits), rtol=1e-9)
    grads = got.sum().backward()[x].numpy()
    assert np.isfinite(grads).all()
    for place in ((0, 0, 0, 1), (1, 2, 1, 0), (2, 1, 2, 5), (1, 4, 0, 0)):
        moved = logits.copy()
        moved[place] += 1e-5
        want = (sum(plain(moved)) - sum(plain(logits))) / 1e-5
        assert grads[place] == pytest.approx(want, abs=1e-4)


def test_bad_input() -> None:
    with pytest.raises(ArgumentError, match="less than n_classes=12, got \\[4, 12\\]"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 12])
    with pytest.raises(ShapeError, match=r"beside a target of \(batch,\)"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4])(it.ones((2, 8)), it.asarray([1]))
    with pytest.raises(ShapeError, match="must be in_features=8"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4]).log_prob(it.ones((2, 7)))
    lengths = it.asarray([2]), it.asarray([1])
    with pytest.raises(ShapeError, match=r"RNNTLoss: logits must be \(batch, steps"):
        nn.RNNTLoss()(it.ones((1, 2, 3, 4)), it.asarray([[1]]), *lengths)
    with pytest.raises(ArgumentError, match="blank=9 is out of range for 4 classes"):
        nn.RNNTLoss(9)(it.ones((1, 2, 2, 4)), it.asarray([[1]]), *lengths)
