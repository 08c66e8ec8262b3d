"""Slips in what a learner or a loader is given are named at once."""

import copy
from functools import partial

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim, train
from ingle.dataset import ArrayDataset, Loader, MemoryDataset
from ingle.tensor.errors import ArgumentError, OperandError
from ingle.train import Accuracy, CheckpointStore, EarlyStopping, Learner, TrainingError

X, Y = np.ones((8, 3), np.float32), np.zeros(8, np.int64)


def batches():
    return Loader(ArrayDataset(X, Y), 4)


def learner(loss=it.cross_entropy, **options):
    model = nn.Linear(3, 2)
    return Learner(model, optim.SGD(model, lr=0.1), loss, progress=False, **options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"loss": nn.CrossEntropyLoss}, r"loss is the class CrossEntropyLoss; write CrossEntropy"),
        ({"loss": "mse"}, r"loss must be a function of outputs and targets.* got 'mse'"),
        ({"metrics": [Accuracy]}, r"one of metrics is the class Accuracy; write Accuracy\("),
        ({"metrics": "accuracy"}, r"metrics must be a list, got 'accuracy'"),
        ({"metrics": ["accuracy"]}, "one of metrics must be a metric.* got 'accuracy'"),
        ({"callbacks": [EarlyStopping]}, "one of callbacks is the class EarlyStopping"),
        ({"callbacks": [print]}, "one of callbacks must be a callback"),
        ({"metrics": Accuracy()}, r"metrics must be a list, got <.*Accuracy.*; write \[\.\.\.\]"),
        ({"callbacks": EarlyStopping()}, "callbacks must be a list"),
    ],
)
def test_classes_and_names_where_objects_are_meant(options, told):
    with pytest.raises(ArgumentError, match=told):
        learner(**options)


def test_a_model_and_an_optimizer():
    model = nn.Linear(3, 2)
    with pytest.raises(ArgumentError, match="optimizer is the class SGD"):
        Learner(model, optim.SGD, it.cross_entropy)
    with pytest.raises(ArgumentError, match="optimizer must be an optimizer"):
        Learner(model, 0.1, it.cross_entropy)
    with pytest.raises(ArgumentError, match="model is the class Linear"):
        Learner(nn.Linear, optim.SGD(model, lr=0.1), it.cross_entropy)


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (lambda o, t: it.cross_entropy(o, t).item(), r"got float; leave out \.item\(\)"),
        (lambda o, t: it.cross_entropy(o, t, reduction="none"), r"got shape \(4,\)"),
    ],
)
def test_a_loss_that_is_no_number_of_a_tensor(loss, told):
    with pytest.raises(TrainingError, match=told):
        learner(loss).fit(batches(), epochs=1)


@pytest.mark.parametrize("epochs", ["3", None, [1], True, it.ones(2), 1.5, -1, float("nan")])
def test_epochs_that_are_no_number(epochs):
    with pytest.raises(
        ArgumentError, match="fit: epochs must be a whole number of at least 0, got"
    ):
        learner().fit(batches(), epochs=epochs)


DATA = ArrayDataset(X, Y)
TO_WRITE = r"arrays become batches in Loader\(ArrayDataset\(x, y\), 32, shuffle=True\)"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (DATA, r"a dataset \(ArrayDataset\) gives one sample at a time: write Loader\(dataset"),
        (DATA.subset([0, 1]), r"a dataset \(Subset\) gives one sample"),
        ((X, Y), TO_WRITE),
        (X, TO_WRITE),
        (it.asarray(X), TO_WRITE),
        ([(X[0], Y[0])], r"the targets of a batch must have an axis .* got shape \(\)"),
    ],
)
def test_samples_where_batches_are_meant(given, told):
    made = learner()
    for call in (
        lambda: made.fit(given, epochs=1),
        lambda: made.evaluate(given),
        lambda: made.fit(batches(), epochs=1, valid=given),
    ):
        with pytest.raises(TrainingError, match=told):
            call()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda m: m.fit(X, Y, epochs=1), r"got 2 arguments; arrays become batches in fit\(Loader"),
        (lambda m: m.fit(X, y=Y), "there is no y=; here: Loader"),
        (lambda m: m.fit(batches(), max_epochs=2), "fit: there is no max_epochs=; here: epochs=3"),
        (lambda m: m.fit(X, validation_data=(X, Y)), "here: valid=Loader"),
        (lambda m: m.evaluate(X, Y), r"targets are in batches .* evaluate\(Loader"),
        (lambda m: m.evaluate(batches(), Accuracy()), "evaluate: metrics must be a list"),
        (lambda m: m.evaluate(batches(), [Accuracy]), "evaluate: one of metrics is the class"),
        (lambda m: m.evaluate(batches(), [], Y), r"evaluate: .* got 3 arguments"),
        (lambda m: m.evaluate(X, batch_size=4), "there is no batch_size=; here: it is the loader"),
        (lambda m: learner(loss_fn=it.mse_loss), "Learner: there is no loss_fn=; here: loss="),
        (lambda m: learner(max_epochs=3), r"Learner: there is no max_epochs=; here: fit\(batches"),
    ],
)
def test_calls_as_others_write_them(call, told):
    with pytest.raises(ArgumentError, match=told):
        call(learner())


def test_what_nobody_has_is_pythons_own_error():
    for call in (
        lambda m: m.fit(batches()),
        lambda m: m.fit(batches(), epochs=1, colour=3),
        lambda m: learner(colour=3),
    ):
        with pytest.raises(TypeError, match=r"epochs|colour"):
            call(learner())


def test_batches_in_a_list_or_a_dataset_of_batches():
    pair = (X[:4], Y[:4])
    for given in (
        [pair, pair],
        (pair,),
        [[*pair]],
        [*MemoryDataset([pair])],
        [(it.asarray(X), it.asarray(Y))],
    ):
        assert np.isfinite(learner().fit(given, epochs=1)[0]["train/loss"])


def test_the_batches_of_pytorchs_loader():
    torch = pytest.importorskip("torch")
    given = torch.utils.data.DataLoader([*zip(X, Y, strict=True)], 4)
    ours, theirs = learner(), learner()
    theirs.model.load_state_dict(ours.model.state_dict())
    found, wanted = ours.fit(given, epochs=2), theirs.fit(batches(), epochs=2)
    assert [r["train/loss"] for r in found] == [r["train/loss"] for r in wanted]
    assert ours.evaluate(given) == theirs.evaluate(batches())


def test_an_iterator_that_is_used_up():
    made = learner()
    with pytest.raises(TrainingError, match="no batches in epoch 2; an iterator is used up"):
        made.fit(iter(list(batches())), epochs=2)
    assert made.epoch == 1
    assert len(learner().fit(list(batches()), epochs=2)) == 2


def test_an_evaluation_without_batches():
    once = iter([(X[:8], Y[:8])])
    made = learner()
    with pytest.raises(TrainingError, match="evaluate: there were no batches; an iterator is used"):
        made.fit(batches(), epochs=2, valid=once)
    assert made.epoch == 1
    with pytest.raises(TrainingError, match="evaluate: there were no batches"):
        made.evaluate([])


def test_a_name_that_no_record_has():
    for callback in (EarlyStopping("valid/los"), EarlyStopping("valid/loss")):
        told = "did you mean 'valid/loss'" if callback.monitor == "valid/los" else "give fit"
        made = learner(callbacks=[callback])
        with pytest.raises(TrainingError, match=told):
            made.fit(batches(), epochs=1, valid=batches() if "mean" in told else None)


def test_options_of_pytorchs_loader():
    for options, told in (
        ({"num_workers": 4}, "write workers=4"),
        ({"collate_fn": list}, "write collate="),
        ({"pin_memory": True}, 'write device="cuda"'),
        ({"sampler": [1, 2]}, "write shuffle=True, weights="),
        ({"bacth_size": 3}, "there is no argument bacth_size=3$"),
    ):
        with pytest.raises(TypeError, match=told):
            Loader(ArrayDataset(X, Y), **options)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: train.TopKAccuracy("5"), "TopKAccuracy: k must be an integer, got '5'"),
        (lambda: train.TopKAccuracy(0), "TopKAccuracy: k must be at least 1, got 0"),
        (lambda: train.FBeta(None), "FBeta: beta must be a number, got None"),
        (lambda: train.BLEU(1.5), "BLEU: most must be an integer, got 1.5"),
        (lambda: train.CalibrationError(bins=()), "CalibrationError: bins must be an integer"),
        (lambda: train.EarlyStopping(patience="3"), "EarlyStopping: patience must be an integer"),
        (lambda: train.PSNR("a"), "PSNR: data_range must be a number, got 'a'"),
        (lambda: train.MultiScaleSSIM(weights=0.5), "MultiScaleSSIM: weights must be a list"),
        (lambda: train.MeanAveragePrecision(0.5), "MeanAveragePrecision: thresholds must be a li"),
        (lambda: train.MeanAveragePrecision(["a"]), "each of thresholds must be a number"),
        (lambda: train.WeightAverage(nn.Linear(2, 2), every=None), "every must be an integer"),
        (lambda: train.WeightAverage(3), "AveragedModel: model must be a module, got 3"),
        (lambda: train.MLflowLogger(parameters=[1]), "parameters must be values by name, got"),
        (lambda: learner(accumulate="2"), "Learner: accumulate must be an integer, got '2'"),
    ],
)
def test_numbers_that_are_none(make, told):
    with pytest.raises((ArgumentError, OperandError), match=told):
        make()


@pytest.mark.parametrize(
    "make", [partial(EarlyStopping, "train/loss"), partial(CheckpointStore, "kept")]
)
def test_a_mode_that_is_none(make):
    with pytest.raises(ArgumentError, match="mode must be 'min' or 'max', got 'maximum'"):
        make(mode="maximum")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, r"got NoneType; write Loader"),
        (8, "got int; write Loader"),
        (batches, "got function; call it"),
        (Loader, "got type; call it"),
        (nn.Linear(3, 2), "got Linear; write Loader"),
    ],
)
def test_what_cannot_be_gone_through(given, told):
    made = learner()
    for call in (lambda: made.fit(given, epochs=1), lambda: made.evaluate(given)):
        with pytest.raises(TrainingError, match=told):
            call()
    if given is not None:
        with pytest.raises(TrainingError, match=told):
            made.fit(batches(), epochs=1, valid=given)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: learner(transform=3), "Learner: transform must be a function of a batch, got 3"),
        (lambda: learner(augment="flip"), "augment must be a function of a batch, got 'flip'"),
        (lambda: learner(max_grad_norm="1"), "max_grad_norm must be a number, got '1'"),
        (lambda: learner(checkpoints=3), "folder must be text or a path, got 3"),
        (lambda: learner(checkpoints="f", checkpoint_seconds="3"), "checkpoint_seconds must be a"),
        (lambda: CheckpointStore("f", keep="3"), "CheckpointStore: keep must be an integer"),
        (lambda: train.CSVLogger(0.5), "CSVLogger: path must be text or a path, got 0.5"),
        (lambda: train.JSONLLogger(None), "JSONLLogger: path must be text or a path"),
        (lambda: train.JSONLLogger("f", every="1"), "JSONLLogger: every must be an integer"),
        (lambda: train.read_jsonl(3), "read_jsonl: path must be text or a path"),
        (lambda: train.TensorBoardLogger(3), "EventWriter: folder must be text or a path"),
        (lambda: train.Profiler(3), "Profiler: path must be text or a path"),
        (lambda: train.Profiler("f", steps="3"), "Profiler: steps must be an integer"),
        (lambda: train.ConfusionMatrix("3"), "ConfusionMatrix: classes must be an integer"),
        (lambda: train.LPIPS(None, low="a"), "LPIPS: low must be a number"),
    ],
)
def test_values_of_another_kind(make, told):
    with pytest.raises(ArgumentError, match=told):
        make()


def test_a_metric_that_is_called():
    with pytest.raises(OperandError, match=r"Accuracy: .*write metric\.update\(outputs, targets"):
        Accuracy()(it.ones((8, 2)), it.asarray(Y))


def test_methods_of_others():
    made = learner()
    with pytest.raises(AttributeError, match=r"no attribute 'predict'; write model\.eval\(\)\(x\)"):
        made.predict(X)
    with pytest.raises(AttributeError, match=r"no attribute 'colour'$"):
        made.colour  # noqa: B018
    assert copy.copy(made).steps == 0


class _Plain(train.Metric):
    name = "plain"

    def reset(self):
        pass


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (partial(Accuracy, task="multiclass", num_classes=10), "^Accuracy: .*'task'.*last axis"),
        (partial(train.AUROC, 5), r"^AUROC: too many .* it is AUROC\(\)"),
        (partial(train.Precision, top_k=2), r"^Precision: .*average='macro'.*TopKAccuracy\(k\)"),
        (partial(train.ConfusionMatrix, 3, 4), r"^ConfusionMatrix: .*ConfusionMatrix\(classes\)"),
        (partial(_Plain, 3), r"^_Plain: too many .* it is _Plain\(\)"),
    ],
)
def test_arguments_that_a_metric_does_not_take(make, told):
    with pytest.raises(ArgumentError, match=told):
        make()


def test_metrics_that_take_what_they_take():
    assert train.ConfusionMatrix(classes=3).classes == 3
    assert copy.deepcopy(train.TopKAccuracy(2)).k == 2
    with pytest.raises(TypeError, match="classes"):
        train.ConfusionMatrix()
