import math

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.dataset import ArrayDataset, Loader, SampleError
from ingle.optim import NonFiniteError
from ingle.tensor.errors import ArgumentError, GradientError
from ingle.train import (
    Accuracy,
    Callback,
    CheckpointStore,
    ConfusionMatrix,
    EarlyStopping,
    Learner,
    Metric,
    NonFiniteLossError,
    TrainingError,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5)).astype(np.float32)
Y = (X @ RNG.normal(size=(5, 3))).argmax(1).astype(np.int64)


def make(**options):
    it.random.seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = options.pop("optimizer", None) or optim.SGD(model, lr=options.pop("lr", 0.1))
    loss = options.pop("loss", it.cross_entropy)
    return Learner(model, optimizer, loss, **{"progress": False, **options})


def loader(batch_size=10, **options):
    return Loader(ArrayDataset(X, Y), batch_size, **options)


def weights(learner):
    return [p.raw.numpy() for p in learner.model.parameters()]


def test_fit_is_the_loop_that_one_would_write():
    learner = make()
    history = learner.fit(loader(shuffle=True, seed=1), epochs=3)

    by_hand = make()
    losses = []
    for _ in range(3):
        batches = loader(shuffle=True, seed=1)
        batches.epoch = len(losses) // 4
        for x, y in batches:
            loss = it.cross_entropy(by_hand.model(it.asarray(x)), it.asarray(y))
            by_hand.optimizer.step(loss.backward())
            losses.append(float(loss))
    for a, b in zip(weights(learner), weights(by_hand), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [r["train/loss"] for r in history] == pytest.approx(
        [np.mean(losses[i : i + 4]) for i in (0, 4, 8)]
    )
    assert [(r["epoch"], r["step"], r["lr"]) for r in history] == [
        (1, 4, 0.1),
        (2, 8, 0.1),
        (3, 12, 0.1),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("size", [5, 8])
def test_accumulated_batches_equal_one_large_batch(size):
    small = make(accumulate=5)
    small.fit(loader(size), epochs=2)
    large = make()
    large.fit(loader(5 * size), epochs=2)
    assert small.steps == large.steps
    for a, b in zip(weights(small), weights(large), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_the_last_accumulated_step_of_an_epoch_may_be_smaller():
    learner = make(accumulate=3)
    learner.fit(loader(16), epochs=1)  # batches of 16, 16, 8
    assert learner.steps == 1
    learner.fit(loader(10), epochs=2)  # four batches: a step of three, a step of one
    assert learner.steps == 3


def test_max_grad_norm_bounds_the_step():
    learner = make(max_grad_norm=1e-3, lr=1.0)
    before = weights(learner)
    learner.fit(loader(40), epochs=1)
    moved = math.sqrt(
        sum(((a - b) ** 2).sum() for a, b in zip(weights(learner), before, strict=True))
    )
    assert moved == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.slow
def test_validation_and_metrics():
    learner = make(metrics=[Accuracy(), ConfusionMatrix(3)], lr=0.5)
    history = learner.fit(loader(shuffle=True), epochs=30, valid=loader(7))
    last = history[-1]
    logits = learner.model(it.asarray(X)).numpy()
    assert last["valid/accuracy"] == (logits.argmax(1) == Y).mean() > 0.9
    shifted = logits - logits.max(1, keepdims=True)
    expected = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(40), Y]
    assert last["valid/loss"] == pytest.approx(expected.mean(), rel=1e-5)
    assert not any("confusion" in key for key in last)
    result = learner.evaluate(loader(7))
    assert result["confusion"].sum() == 40
    assert np.trace(result["confusion"]) == round(40 * result["accuracy"])


def test_evaluation_draws_no_dropout_and_leaves_the_mode_alone():
    learner = make()
    learner.model.append(nn.Dropout(0.9))
    drawn = it.random.default_generator().state
    first = learner.evaluate(loader())
    assert first == learner.evaluate(loader())
    assert it.random.default_generator().state == drawn
    assert learner.model.training


def test_a_metric_of_ones_own():
    class Largest(Metric):
        name = "largest"
        gathered = ("value",)

        def reset(self):
            self.value = -math.inf

        def update(self, outputs, targets, loss):
            self.value = max(self.value, loss)

        def compute(self):
            return self.value

    history = make(metrics=[Largest()]).fit(loader(), epochs=1)
    assert history[0]["train/largest"] >= history[0]["train/loss"]


def test_callbacks_are_called_in_order_and_the_end_even_after_an_error():
    seen = []

    class Note(Callback):
        def on_fit_start(self, learner):
            seen.append("start")

        def on_step(self, learner, loss):
            seen.append(learner.steps)
            assert loss == learner.last_loss

        def on_epoch(self, learner, record):
            seen.append(f"epoch {record['epoch']}")
            if learner.epoch == 2:
                raise KeyError("enough")

        def on_fit_end(self, learner):
            seen.append("end")

    with pytest.raises(KeyError):
        make(callbacks=[Note()]).fit(loader(20), epochs=9)
    assert seen == ["start", 1, 2, "epoch 1", 3, 4, "epoch 2", "end"]


@pytest.mark.parametrize(
    ("mode", "values", "epochs"),
    [("min", [3, 2, 2, 2, 1], 4), ("max", [1, 2, 1.9, 2.05, 3], 4), ("min", [5, 4, 3, 2, 1], 5),
     ("min", [1, float("nan"), float("nan"), 0, 0], 3)],
)  # fmt: skip
def test_early_stopping(mode, values, epochs):
    class Script(Callback):
        def on_epoch(self, learner, record):
            record["score"] = values[learner.epoch - 1]

    stopping = EarlyStopping("score", patience=2, min_delta=0.1, mode=mode)
    learner = make(callbacks=[Script(), stopping])
    assert len(learner.fit(loader(), epochs=5)) == epochs
    assert (learner.stopped is None) == (epochs == 5)


def test_early_stopping_on_what_is_not_there():
    with pytest.raises(TrainingError, match=r"no 'valid/loss', only .*train/loss.*valid=\.\.\."):
        make(callbacks=[EarlyStopping()]).fit(loader(), epochs=1)
    with pytest.raises(ArgumentError, match="patience"):
        EarlyStopping(patience=0)


def explode_at(step):
    """A loss that is NaN in one step, and finite before."""
    calls = {"count": -1}

    def loss(outputs, targets):
        calls["count"] += 1
        value = it.cross_entropy(outputs, targets)
        return value * float("nan") if calls["count"] == step else value

    return loss


def test_a_nan_loss_names_step_rate_and_last_loss_and_changes_nothing(tmp_path):
    learner = make(loss=explode_at(6), checkpoints=tmp_path)
    learner.model.append(nn.BatchNorm1d(3))
    seen = []

    class Note(Callback):
        def on_step(self, learner, loss):
            seen.append((weights(learner), learner.model[3].running_mean.raw.numpy(), loss))

    learner.callbacks.append(Note())
    with pytest.raises(NonFiniteLossError) as e:
        learner.fit(loader(), epochs=5)
    message = str(e.value)
    assert "the loss is nan at step 6 (epoch 2, learning rate 0.1;" in message
    assert f"last finite loss: {seen[-1][2]:.6g}" in message
    assert f"the last good checkpoint is {tmp_path / 'step-00000004.safetensors'}" in message
    assert "Try a smaller learning rate" in message
    assert isinstance(e.value, NonFiniteError)
    assert (e.value.step, learner.steps) == (6, 6)
    for a, b in zip(weights(learner), seen[-1][0], strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(learner.model[3].running_mean.raw.numpy(), seen[-1][1])


def test_a_batch_with_nan_is_told_apart():
    x = X.copy()
    x[3, 2] = np.nan
    with pytest.raises(NonFiniteLossError, match=r"none yet.*This batch itself holds NaN"):
        make().fit(Loader(ArrayDataset(x, Y), 10), epochs=1)


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    learner = make(checkpoints=tmp_path, checkpoint_every=1)

    class Spoil(Callback):
        def on_step(self, learner, loss):
            if learner.steps == 3:
                weight = learner.model[0].weight
                weight.value = weight.value * float("inf")

    learner.callbacks.append(Spoil())
    with pytest.raises(NonFiniteLossError, match=r"'0\.weight' are NaN or .* after step 3"):
        learner.fit(loader(), epochs=1)
    assert [p.name for p in learner.checkpoints.paths()] == [
        "step-00000002.safetensors", "step-00000001.safetensors",
    ]  # fmt: skip


def test_the_best_checkpoint_can_be_loaded(tmp_path):
    store = CheckpointStore(tmp_path, monitor="valid/accuracy", keep=1)
    learner = make(checkpoints=store, metrics=[Accuracy()], lr=0.5)
    history = learner.fit(loader(shuffle=True), epochs=6, valid=loader())
    best = max(history, key=lambda r: r["valid/accuracy"])
    assert store.best().name == f"step-{best['step']:08}.safetensors"
    other = make(metrics=[Accuracy()])
    store.load(store.best(), {"model": other.model})
    assert other.evaluate(loader())["accuracy"] == best["valid/accuracy"]


def test_errors_of_the_loader_come_through():
    class Broken(list):
        def __getitem__(self, index):
            if index == 25:
                raise OSError("gone")
            return X[index], Y[index]

    with pytest.raises(SampleError, match=r"sample 25 of Broken .*gone"):
        make().fit(Loader(Broken(range(40)), 10), epochs=1)


def test_any_iterable_of_batches_will_do():
    batches = [(X[:20], Y[:20]), (it.asarray(X[20:]), it.asarray(Y[20:]))]
    learner = make()
    learner.fit(batches, epochs=2, valid=batches)
    assert learner.steps == 4


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (X, "must be .inputs, targets., got Tensor"),
        ((X, Y, Y), "got tuple of 3; override Learner.forward"),
        ((X[:0], Y[:0]), "at least one; got ndarray of shape .0, 5."),
        ({}, "must begin with an array"),
    ],
)
def test_batches_of_another_form(batch, message):
    with pytest.raises(TrainingError, match=message):
        make().fit([batch], epochs=1)


def test_forward_can_be_overridden_for_dicts():
    class Dicts(Learner):
        def forward(self, batch):
            outputs = self.model(batch["x"])
            return outputs, it.cross_entropy(outputs, batch["targets"])

    plain = make()
    learner = Dicts(plain.model, plain.optimizer, None, metrics=[Accuracy()], progress=False)
    history = learner.fit(Loader(ArrayDataset(x=X, targets=Y), 10), epochs=1)
    assert 0 <= history[0]["train/accuracy"] <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accumulate": 0}, "accumulate must be at least 1, got 0"),
        ({"checkpoint_every": 5}, "needs checkpoints=FOLDER"),
        ({"checkpoints": "x", "checkpoint_every": 0}, "checkpoint_every must be at least 1"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(ArgumentError, match=message):
        make(**options)


def test_resume_and_save_need_checkpoints():
    with pytest.raises(TrainingError, match="resume needs"):
        make().fit(loader(), epochs=1, resume=True)
    with pytest.raises(TrainingError, match="checkpoints=FOLDER"):
        make().save(loader())


class Lists(Learner):
    """Gives its metrics a list of dicts instead of a tensor."""

    def forward(self, batch):
        outputs, loss = super().forward(batch)
        return [{"logits": outputs[i]} for i in range(len(outputs))], loss


def test_outputs_that_are_no_tensor_reach_the_metrics_without_gradients():
    seen = []

    class Watch(Metric):
        name = "watch"

        def reset(self):
            pass

        def update(self, outputs, targets, loss):
            seen.append(outputs)

        def compute(self):
            return 1.0

    plain = make()
    learner = Lists(plain.model, plain.optimizer, plain.loss, metrics=[Watch()], progress=False)
    history = learner.fit(loader(16), epochs=1)
    assert [len(outputs) for outputs in seen] == [16, 16, 8]
    with pytest.raises(GradientError):
        it.sum(seen[0][3]["logits"]).backward()
    again = make().fit(loader(16), epochs=1)
    assert history[0]["train/loss"] == again[0]["train/loss"]


def test_metrics_of_one_name():
    with pytest.raises(ArgumentError, match="2 metrics are called 'accuracy'"):
        make(metrics=[Accuracy(), Accuracy()])
