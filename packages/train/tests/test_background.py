"""Checkpoints that a thread writes are those of their step; errors and ends are waited for."""

import threading

import numpy as np
import pytest
from learners import loader, make, weights

from ingle import nn
from ingle.nn import FileWriteError, load
from ingle.train import CheckpointStore


def test_the_file_has_the_weights_of_its_step_while_training_goes_on(tmp_path, monkeypatch):
    gate, written = threading.Event(), threading.Event()
    real = CheckpointStore._saved

    def slow(self, step, parts, state, record):
        gate.wait(10)
        path = real(self, step, parts, state, record)
        written.set()
        return path

    monkeypatch.setattr(CheckpointStore, "_saved", slow)
    store = CheckpointStore(tmp_path, background=True)
    learner = make(checkpoints=store)
    batches = list(loader())
    learner.step(batches[:1])
    before = weights(learner)
    path = learner.save(batches)
    for batch in batches:
        learner.step([batch])
    assert not path.exists()
    gate.set()
    store.wait()
    assert written.is_set()
    other = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.2), nn.Linear(8, 3))
    other.load_state_dict(load(path).section("model"))
    kept = np.concatenate([p.raw.numpy().ravel() for p in other.parameters()])
    np.testing.assert_array_equal(kept, before)
    assert not np.array_equal(weights(learner), before)


def test_a_resumed_training_ends_alike(tmp_path):
    whole = make()
    whole.fit(loader(), epochs=3)
    first = make(checkpoints=CheckpointStore(tmp_path, background=True), checkpoint_every=2)
    first.fit(loader(), epochs=2)
    again = make(checkpoints=CheckpointStore(tmp_path, background=True), checkpoint_every=2)
    again.fit(loader(), epochs=3, resume=True)
    np.testing.assert_array_equal(weights(again), weights(whole))


def test_a_full_disk_is_told_and_the_last_good_one_stays(tmp_path, monkeypatch):
    store = CheckpointStore(tmp_path, background=True)
    learner = make(checkpoints=store)
    learner.fit(loader(), epochs=1)
    good = store.latest()

    def full(path, *arguments, **options):
        raise FileWriteError(f"{path}: no space left on device")

    monkeypatch.setattr("ingle.train.store.save", full)
    with pytest.raises(FileWriteError, match=r"no space left.*last good checkpoint is .*00005"):
        learner.fit(loader(), epochs=2)
    assert store.latest() == good
    monkeypatch.undo()
    store.wait()
    again = make(checkpoints=CheckpointStore(tmp_path))
    again.fit(loader(), epochs=1, resume=True)
    assert again.steps == 5
