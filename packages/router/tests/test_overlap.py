"""Several devices work at the same time: what they are asked for, and when somebody waits."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from far_device import Noted, opening

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.router import data_parallel
from ingle.tensor.errors import OutOfRangeError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc"),
]
NAMES = ("far", "other")
Log = list[tuple[str, str]]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """Two devices, and what they are asked for."""
    monkeypatch.setattr(Noted, "log", [])
    with opening(Noted) as make:
        for name in NAMES:
            make(name)
        yield Noted.log


def stepping() -> tuple[Callable[..., float], nn.Module]:
    """A step of training on both, and the model on the first."""
    it.random.seed(0)
    with it.device("far"):
        model = nn.Sequential(nn.Embedding(7, 6), nn.Linear(6, 5))
    optimizer = optim.Adam(model, lr=0.01)

    def step(x: np.ndarray, y: np.ndarray) -> float:
        given = it.asarray(x, device="far"), it.asarray(y, device="far")
        loss, gradients = data_parallel(
            lambda x, y: it.cross_entropy(model(x), y), *given, devices=NAMES
        )
        optimizer.step(gradients)
        return float(loss.item())

    return step, model


WARM = 8
"""Steps until all plans are there, which are made bit by bit."""
X, Y = np.arange(8) % 7, np.arange(8) % 5


def until_both_work(log: Log) -> list[str]:
    """What the devices were asked for between the first launch of the one and of the other."""
    launches = [n for n, (_, what) in enumerate(log) if what == "launch"]
    first = {name: next(n for n in launches if log[n][0] == name) for name in NAMES}
    assert (*NAMES,) == tuple(sorted(first))
    return [what for _, what in log[min(first.values()) : max(first.values())]]


@pytest.mark.parametrize("over", [False, True])
def test_parts_of_a_batch_are_on_their_way_before_anybody_waits(
    log: Log, over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a part wait so that it may write over what it was given."""
    monkeypatch.setattr(Noted, "writes_over", over)
    step, _ = stepping()
    for _ in range(WARM):
        step(X, Y)
    log.clear()
    step(X, Y)
    assert "waits" not in until_both_work(log)


def test_nobody_waits_while_operations_run_one_by_one(log: Log) -> None:
    """As they do until there are plans, each with a check of its own."""
    step, model = stepping()
    for parameter in model.parameters():
        parameter.numpy()
    for _ in range(WARM):
        log.clear()
        step(X, Y)
        assert "waits" not in until_both_work(log)


@pytest.mark.parametrize("warm", [0, WARM])
@pytest.mark.parametrize("bad", [0, 7])
def test_an_index_out_of_range_in_one_part_is_told_by_the_sums(
    log: Log, bad: int, warm: int
) -> None:
    step, model = stepping()
    for _ in range(warm):
        step(X, Y)
    wrong = Y.copy()
    wrong[bad] = 5

    def asked(y: np.ndarray) -> tuple[it.Tensor, it.Gradients]:
        given = it.asarray(X, device="far"), it.asarray(y, device="far")
        return data_parallel(lambda x, y: it.cross_entropy(model(x), y), *given, devices=NAMES)

    def values(asked: tuple[it.Tensor, it.Gradients]) -> list[it.Tensor]:
        return [asked[0], *[asked[1][p] for p in model.parameters()]]

    for _ in range(warm + 1):
        wanted = [value.numpy() for value in values(asked(Y))]
    for _ in range(2):
        with pytest.raises(OutOfRangeError, match=r"cross_entropy: .* outside of 0 to 4") as found:
            [value.numpy() for value in values(asked(wrong))]
        line = asked.__code__.co_firstlineno + 2
        assert re.search(rf"at \S*test_overlap.py:{line}, in <lambda>", str(found.value))
    for value, same in zip(values(asked(Y)), wanted, strict=True):
        np.testing.assert_allclose(value.numpy(), same, rtol=0 if warm else 1e-5, atol=1e-7)


def test_statistics_go_to_the_next_part_before_gradients_are_computed(log: Log) -> None:
    """The second part of a model with batch norm waits for the first one's forward pass alone."""
    it.random.seed(0)
    with it.device("far"):
        model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    norm = model[1]
    x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    given = it.asarray(x, device="far")
    h = x @ model[0].weight.numpy().T + model[0].bias.numpy()
    mean = norm.running_mean.value.numpy()
    for _ in range(3):
        log.clear()
        loss, _ = data_parallel(lambda x: it.mean(model(x) ** 2), given, devices=NAMES)
        loss.item()
        for part in (h[4:], h[:4]):  # that of the batch's own device is the last one
            mean = mean * 0.9 + part.mean(axis=0) * 0.1
        np.testing.assert_allclose(norm.running_mean.value.numpy(), mean, rtol=1e-4, atol=1e-6)
    others = [what for where, what in log if where == "other"]
    before = others[: others.index("read")].count("launch")
    assert 0 < before <= others.count("launch") / 2
    ours = log.index(("far", "launch"))
    assert ("other", "launch") in log[log.index(("other", "read")) : ours]
