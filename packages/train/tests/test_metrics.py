import itertools
import json

import numpy as np
import pytest
from sklearn import metrics as sk

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.train import Accuracy, ConfusionMatrix, MeanLoss, TopKAccuracy

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(90, 7)).astype(np.float32)
LABELS = RNG.integers(0, 7, 90)


def gathered(metric, parts=(0, 10, 11, 90)):
    for a, b in itertools.pairwise(parts):
        metric.update(it.asarray(SCORES[a:b]), it.asarray(LABELS[a:b]), float(a))
    return metric.compute()


def test_accuracy_equals_scikit_learns():
    assert gathered(Accuracy()) == sk.accuracy_score(LABELS, SCORES.argmax(1))


@pytest.mark.parametrize("k", [1, 2, 5, 7, 9])
def test_top_k_equals_scikit_learns(k):
    expected = 1.0
    if k < 7:
        expected = sk.top_k_accuracy_score(LABELS, SCORES, k=k, labels=range(7))
    assert gathered(TopKAccuracy(k)) == pytest.approx(expected, abs=0)


def test_top_1_is_accuracy_even_with_ties():
    scores, labels = it.zeros((7, 7)), it.arange(7)
    for metric in (Accuracy(), TopKAccuracy(1)):
        metric.update(scores, labels, 0.0)
        assert metric.compute() == 1 / 7


def test_confusion_matrix_equals_scikit_learns():
    expected = sk.confusion_matrix(LABELS, SCORES.argmax(1))
    np.testing.assert_array_equal(gathered(ConfusionMatrix(7)), expected)


def test_mean_loss_weighs_by_samples():
    assert gathered(MeanLoss()) == pytest.approx((0 * 10 + 10 * 1 + 11 * 79) / 90)


def test_a_metric_of_nothing():
    assert np.isnan(Accuracy().compute())
    assert ConfusionMatrix(2).compute().tolist() == [[0, 0], [0, 0]]


def test_classes_on_the_last_axis_of_any_rank():
    accuracy = Accuracy()
    accuracy.update(it.asarray(SCORES.reshape(9, 10, 7)), it.asarray(LABELS.reshape(9, 10)), 0.0)
    assert accuracy.compute() == gathered(Accuracy())


@pytest.mark.parametrize("metric", [MeanLoss(), Accuracy(), TopKAccuracy(3), ConfusionMatrix(7)])
def test_state_goes_on_where_it_was(metric):
    half = metric.fresh()
    gathered(half, (0, 40))
    other = metric.fresh()
    other.load_state(json.loads(json.dumps(half.state())))
    np.testing.assert_array_equal(gathered(other, (40, 90)), gathered(half, (40, 90)))
    np.testing.assert_array_equal(metric.compute(), metric.fresh().compute())


def test_shapes_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"integer targets of shape \(...\), got float32\[2, 3\]"):
        Accuracy().update(it.zeros((2, 3)), it.zeros((2,), dtype="float32"), 0.0)
    for shape in ((4,), (4, 1)):
        with pytest.raises(ShapeError, match=r"one score says yes or no, 1 - HammingLoss"):
            Accuracy().update(it.zeros(shape), it.zeros(shape, dtype="int64"), 0.0)
    with pytest.raises(ShapeError, match="turn one-hot targets into class numbers"):
        Accuracy().update(it.zeros((4, 3)), it.zeros((4, 3)), 0.0)
    with pytest.raises(ShapeError, match=r"int64\[3\]"):
        ConfusionMatrix(3).update(it.zeros((2, 3)), it.arange(3), 0.0)
    with pytest.raises(ShapeError, match=r"ConfusionMatrix\(3\)"):
        ConfusionMatrix(4).update(it.zeros((2, 3)), it.arange(2), 0.0)
    with pytest.raises(ArgumentError, match="at least 1"):
        TopKAccuracy(0)
