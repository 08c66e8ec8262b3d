"""Evaluation by step, early stopping within epochs, the best weights, checkpoints by time."""

import time

import numpy as np
import pytest
from learners import loader, make, weights

import ingle.tensor as it
from ingle import nn
from ingle.tensor.errors import ArgumentError
from ingle.train import (
    Callback,
    CheckpointStore,
    EarlyStopping,
    JSONLLogger,
    Learner,
    NonFiniteLossError,
    TrainingError,
    read_jsonl,
)
from ingle.train.callbacks import better


class Watch(Callback):
    """Notes evaluations, and the weights and the loss at each."""

    def __init__(self):
        self.seen = []

    def on_evaluation(self, learner, record):
        self.seen.append((record["step"], record["valid/loss"], weights(learner)))


@pytest.mark.slow
def test_evaluation_by_step_changes_nothing_of_the_training():
    plain, watch = make(), Watch()
    plain.fit(loader(), epochs=2, valid=loader())
    stepped = make(callbacks=[watch])
    stepped.fit(loader(), epochs=2, valid=loader(), valid_every=2)
    np.testing.assert_array_equal(weights(plain), weights(stepped))
    assert [step for step, _, _ in watch.seen] == [2, 4, 6, 8, 10]
    assert stepped.history[1]["valid/loss"] == watch.seen[-1][1]
    assert [r["valid/loss"] for r in plain.history] == [r["valid/loss"] for r in stepped.history]


def test_an_evaluation_at_the_end_of_an_epoch_is_made_once():
    calls = []

    class Counted(Learner):
        def evaluate(self, batches, metrics=None):
            calls.append(self.steps)
            return super().evaluate(batches, metrics)

    base = make()
    learner = Counted(base.model, base.optimizer, base.loss, progress=False)
    learner.fit(loader(), epochs=2, valid=loader(), valid_every=5)
    assert calls == [5, 10]


class Script(Callback):
    """Puts numbers of one's own into the records of evaluations."""

    def __init__(self, values):
        self.values = values

    def on_evaluation(self, learner, record):
        record["score"] = self.values[learner.steps - 1]


def test_early_stopping_counts_evaluations_and_ends_within_the_epoch(tmp_path):
    stopping = EarlyStopping("score", patience=2, min_delta=0.1, restore_best=True)
    watch = Watch()
    callbacks = [Script([5, 4, 3.95, 3.92, 0, 0]), watch, stopping]
    learner = make(callbacks=callbacks, checkpoints=tmp_path)
    assert learner.fit(loader(), epochs=3, valid=loader(), valid_every=1) == []
    assert (learner.steps, learner.epoch) == (4, 0)
    assert learner.stopped == "score has not improved on 4 for 2 evaluations"
    np.testing.assert_array_equal(weights(learner), watch.seen[1][2])
    # The checkpoint is that of the last step, so that training can go on from it.
    assert learner.checkpoints.latest().name == "step-00000004.safetensors"
    stopping = EarlyStopping("score", restore_best=True)
    again = make(callbacks=[Script([0] * 9), Watch(), stopping], checkpoints=tmp_path)
    again._checkpoints.prepare(again, loader(), True)
    np.testing.assert_array_equal(weights(again), watch.seen[3][2])


@pytest.mark.parametrize("valid_every", [1, None])
def test_a_training_that_ended_early_stays_ended_when_it_is_resumed(tmp_path, valid_every):
    def run(patience):
        script = Script([5, 4, 4.5, 4.5, 4.5, 4.5])
        monitor = "score" if valid_every else "valid/loss"
        least = 0.0 if valid_every else 99.0  # of epochs none is better than the first
        stopping = EarlyStopping(monitor, patience=patience, min_delta=least, restore_best=True)
        learner = make(callbacks=[script, stopping], checkpoints=tmp_path)
        learner.fit(loader(), epochs=9, valid=loader(), valid_every=valid_every, resume=True)
        return learner

    first, again = run(2), run(2)
    assert first.stopped is not None
    assert first.stopped == again.stopped
    assert (first.steps, first.history) == (again.steps, again.history)
    np.testing.assert_array_equal(weights(first), weights(again))
    if valid_every is None:
        assert run(50).steps > first.steps


def test_the_best_weights_come_back_after_a_resumed_training(tmp_path):
    def run(epochs, resume):
        script, stopping = Script([1] * 99), EarlyStopping("valid/loss", restore_best=True)
        stopping.mode = "max"  # the first epoch is the best
        stopping.patience = 50
        watch = Watch()
        learner = make(callbacks=[script, watch, stopping], checkpoints=tmp_path)
        learner.fit(loader(), epochs=epochs, valid=loader(), valid_every=5, resume=resume)
        return learner, watch

    first = run(1, False)[1].seen[0][2]
    learner, watch = run(4, True)
    losses = [loss for _, loss, _ in watch.seen]
    assert max(losses) < learner.history[0]["valid/loss"]
    np.testing.assert_array_equal(weights(learner), first)


def test_stopping_now_and_going_on_equals_one_training(tmp_path):
    class Stop(Callback):
        def on_step(self, learner, loss):
            if learner.steps == 7:
                learner.stop("enough", now=True)

    whole = make()
    whole.fit(loader(), epochs=3)
    part = make(checkpoints=tmp_path, callbacks=[Stop()])
    assert len(part.fit(loader(), epochs=3)) == 1
    rest = make(checkpoints=tmp_path)
    rest.fit(loader(), epochs=3, resume=True)
    np.testing.assert_array_equal(weights(whole), weights(rest))
    assert [r["train/loss"] for r in whole.history] == [r["train/loss"] for r in rest.history]


def test_the_best_of_evaluations_by_step_is_kept(tmp_path):
    store = CheckpointStore(tmp_path, keep=1, monitor="valid/loss", mode="min")
    watch = Watch()
    make(checkpoints=store, callbacks=[watch], lr=2.0).fit(
        loader(), epochs=4, valid=loader(), valid_every=1
    )
    best = min(watch.seen, key=lambda seen: seen[1])
    assert store.best().name == f"step-{best[0]:08}.safetensors"
    fresh = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.2), nn.Linear(8, 3))
    nn.load(store.best(), {"model": fresh}, strict=False)
    kept = np.concatenate([p.raw.numpy().ravel() for p in fresh.parameters()])
    np.testing.assert_array_equal(kept, best[2])


def test_checkpoints_by_time(tmp_path, monkeypatch):
    clock = {"now": 0.0}
    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])

    class Tick(Callback):
        def on_step(self, learner, loss):
            clock["now"] += 1.0

    store = CheckpointStore(tmp_path, keep=99)
    make(checkpoints=store, checkpoint_seconds=2.5, callbacks=[Tick()]).fit(loader(), epochs=2)
    # After 3 steps; at the end of an epoch; 3 steps later; at the end.
    assert [int(path.name[5:13]) for path in reversed(store.paths())] == [3, 5, 8, 10]


def test_evaluations_are_in_the_log(tmp_path):
    path = tmp_path / "log.jsonl"
    make(callbacks=[JSONLLogger(path, every=0)]).fit(
        loader(), epochs=1, valid=loader(), valid_every=2
    )
    lines = read_jsonl(path)
    assert [sorted(line) for line in lines[:2]] == [["step", "valid/loss"]] * 2
    assert [line["step"] for line in lines] == [2, 4, 5]


def test_a_nan_names_the_operation_and_the_module():
    class Roots(nn.Module):
        def forward(self, x):
            return it.sqrt(x)

    model = nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.5), Roots())
    learner = make(model=model)
    state = it.random.default_generator().state
    before = weights(learner)
    with pytest.raises(NonFiniteLossError, match=r"the loss is nan at step 0 .*It comes from") as e:
        learner.fit(loader(), epochs=1)
    assert "sqrt: " in str(e.value)
    assert "Roots" in str(e.value)
    assert e.value.step == 0
    assert it.random.default_generator().state == state
    np.testing.assert_array_equal(weights(learner), before)


def test_what_makes_no_sense():
    with pytest.raises(ArgumentError, match="valid_every must be at least 1"):
        make().fit(loader(), epochs=1, valid=loader(), valid_every=0)
    with pytest.raises(ArgumentError, match=r"valid_every needs fit\(..., valid=...\)"):
        make().fit(loader(), epochs=1, valid_every=2)
    with pytest.raises(ArgumentError, match="checkpoint_seconds needs checkpoints"):
        make(checkpoint_seconds=1.0)
    with pytest.raises(ArgumentError, match="checkpoint_seconds must be positive"):
        make(checkpoint_seconds=0.0, checkpoints="nowhere")
    with pytest.raises(TrainingError, match="no 'valid/loss'"):
        make(callbacks=[EarlyStopping()]).fit(loader(), epochs=1)


def test_an_infinite_loss_is_located_too():
    def loss(outputs, targets):
        return it.exp(it.mean(outputs) * 0.0 + 200.0)

    with pytest.raises(NonFiniteLossError, match=r"the loss is inf .*It comes from exp: ") as e:
        make(loss=loss).fit(loader(), epochs=1)
    assert e.value.value == float("inf")


def test_weights_that_a_gradient_spoilt_are_named():
    def loss(outputs, targets):
        return it.mean(it.sqrt(outputs * 0.0))  # 0, with a gradient of infinity times 0

    learner = make(loss=loss)
    with pytest.raises(NonFiniteLossError, match=r"at step 1 .*'0\.weight' are NaN .* already"):
        learner.fit(loader(), epochs=1)


def test_a_checkpoint_of_another_model_is_named(tmp_path):
    make(checkpoints=tmp_path).fit(loader(), epochs=1)
    other = nn.Linear(5, 3)
    before = other.weight.numpy()
    resumed = make(model=other, checkpoints=tmp_path)
    with pytest.raises(nn.StateError, match=r"cannot resume from .*step-00000005.*another model"):
        resumed.fit(loader(), epochs=2, resume=True)
    assert (other.weight.numpy() == before).all()
    assert resumed.steps == 0


@pytest.mark.parametrize("mode", ["min", "max"])
def test_nothing_is_worse_than_nan_and_equal_is_not_better(mode):
    nan = float("nan")
    assert better(1.0, nan, mode)
    assert not better(nan, 1.0, mode)
    assert not better(nan, nan, mode)
    assert not better(1.0, 1.0, mode)
