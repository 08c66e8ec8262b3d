"""Mixed precision in a learner: what it trains in, and what it leaves out and resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.dataset import ArrayDataset, Loader
from ingle.tensor.errors import DTypeError
from ingle.testkit.bits import same_bits
from ingle.train import Learner

X = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


class Net(nn.Module):
    def __init__(self) -> None:
        it.random.seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        self.seen: list[Any] = []

    def forward(self, x: it.Tensor) -> it.Tensor:
        out: it.Tensor = self.layers(x)
        return out


def learner(precision: str | None, folder: Path | None = None) -> Learner:
    model = Net()
    optimizer = optim.Adam(model, lr=0.02)
    return Learner(
        model, optimizer, it.cross_entropy, precision=precision, checkpoints=folder, progress=False
    )


def batches() -> Loader:
    return Loader(ArrayDataset(X, Y), 16, shuffle=True)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_it_trains_like_float32(precision: str) -> None:
    plain, mixed = learner(None), learner(precision)
    dtypes = set()
    mixed.model.layers[0].register_forward_hook(lambda m, args, y: dtypes.add(y.dtype.name))
    want = plain.fit(batches(), epochs=4)[-1]["train/loss"]
    found = mixed.fit(batches(), epochs=4, valid=batches())[-1]["train/loss"]
    np.testing.assert_allclose(found, want, rtol=0.05)
    assert dtypes == {precision}
    assert {p.dtype for p in mixed.model.parameters()} == {it.float32}
    assert mixed.scaler.enabled == (precision == "float16")


@pytest.mark.slow
def test_steps_that_overflow_are_left_out_and_the_scale_is_resumed(tmp_path: Path) -> None:
    trained = learner("float16", tmp_path)
    trained.scaler = optim.LossScaler(2.0**40)
    before = trained.model.layers[0].weight.numpy()
    batch = (X[:16], Y[:16])
    trained.step([batch])
    assert trained.scaler.get_scale() == 2.0**39
    np.testing.assert_array_equal(trained.model.layers[0].weight.numpy(), before)
    trained.fit(batches(), epochs=1)
    again = learner("float16", tmp_path)
    again.fit(batches(), epochs=1, resume=True)
    assert again.scaler.get_scale() == trained.scaler.get_scale()


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(DTypeError, match="precision: dtype must be"):
        learner("int8")


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_resumed_run_has_the_same_bits_where_each_operation_rounds(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGLE_FUSION_EXACT", "1")

    def tanh_learner(folder: Path) -> Learner:
        """Of other steps than those of other tests, whose plans do not round."""
        made = learner(precision, folder)
        made.model.layers[1] = nn.Tanh()
        return made

    whole = tanh_learner(tmp_path / "whole")
    data = [Loader(ArrayDataset(X, Y), 12, shuffle=True, drop_last=True) for _ in range(3)]
    history = whole.fit(data[0], epochs=3)
    tanh_learner(tmp_path / "parts").fit(data[1], epochs=1)
    resumed = tanh_learner(tmp_path / "parts")
    again = resumed.fit(data[2], epochs=3, resume=True)
    assert [line["train/loss"] for line in again] == [line["train/loss"] for line in history]
    for a, b in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert same_bits(a.value, b.value)
