"""Precision, recall, F, Dice, IoU and Hamming beside scikit-learn's."""

import numpy as np
import pytest
from metric_batches import gathered
from sklearn import metrics as sk

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.train import Dice, FBeta, HammingLoss, IoU, Precision, Recall

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(90, 5)).astype(np.float32)
CLASSES = RNG.integers(0, 5, 90)
LABELS = RNG.integers(0, 2, (90, 5))
AVERAGES = ["macro", "micro", "weighted", None]
METRICS = [
    (Precision, sk.precision_score),
    (Recall, sk.recall_score),
    (FBeta, sk.f1_score),
    (Dice, sk.f1_score),
    (IoU, sk.jaccard_score),
]


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize(("metric", "peer"), METRICS)
def test_classes_equal_scikit_learns(metric, peer, average):
    found = gathered(metric(average=average), SCORES, CLASSES)
    expected = peer(CLASSES, SCORES.argmax(1), average=average)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize(("metric", "peer"), METRICS)
def test_labels_equal_scikit_learns(metric, peer, average):
    found = gathered(metric(average=average, threshold=0.3), SCORES, LABELS)
    expected = peer(LABELS, SCORES > 0.3, average=average)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize(("metric", "peer"), METRICS)
def test_one_label_equals_scikit_learns(metric, peer):
    found = gathered(metric(threshold=0.0), SCORES[:, 0], LABELS[:, 0].astype(bool))
    assert found == pytest.approx(peer(LABELS[:, 0], SCORES[:, 0] > 0), rel=1e-14)


@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_f_beta_equals_scikit_learns(beta):
    expected = sk.fbeta_score(CLASSES, SCORES.argmax(1), beta=beta, average="macro")
    assert gathered(FBeta(beta), SCORES, CLASSES) == pytest.approx(expected, rel=1e-14)
    assert FBeta(beta).name == f"f{beta:g}"


@pytest.mark.parametrize(("metric", "peer"), METRICS)
def test_a_class_that_is_neither_there_nor_guessed_has_no_part_in_the_mean(metric, peer):
    scores = np.concatenate([SCORES, np.full((90, 1), -9, np.float32)], axis=1)
    expected = peer(CLASSES, SCORES.argmax(1), average="macro")
    assert gathered(metric(), scores, CLASSES) == pytest.approx(expected, rel=1e-14)


def test_images_with_channels_first_and_pixels_to_ignore():
    images = RNG.normal(size=(7, 4, 3, 5)).astype(np.float32)
    masks = RNG.integers(0, 4, (7, 3, 5))
    masks[:, 0] = 255
    found = gathered(IoU(axis=1, ignore=255), images, masks, (0, 2, 7))
    kept = masks != 255
    expected = sk.jaccard_score(masks[kept], images.argmax(1)[kept], average="macro")
    assert found == pytest.approx(expected, rel=1e-14)


def test_hamming_loss_equals_scikit_learns():
    found = gathered(HammingLoss(0.3), SCORES, LABELS)
    assert found == pytest.approx(sk.hamming_loss(LABELS, SCORES > 0.3), rel=1e-14)


def test_of_nothing():
    assert np.isnan(Precision().compute())
    assert np.isnan(Precision(average="micro").compute())
    assert Precision(average=None).compute().tolist() == []
    assert np.isnan(HammingLoss().compute())


def test_what_does_not_fit_is_named():
    with pytest.raises(ShapeError, match=r"^Recall: .* got float32\[2, 3\] and int64\[2, 3\];"):
        Recall().update(it.zeros((2, 3)), it.zeros((2, 3), dtype="int64"), 0.0)
    with pytest.raises(ShapeError, match=r"^IoU: needs .* axis 1 .* got float32\[2\]"):
        IoU(axis=1).update(it.zeros((2,)), it.zeros((2,), dtype="int64"), 0.0)
    with pytest.raises(ShapeError, match=r"^Dice: .*same shape, .*reshape\(targets, \(2, 1\)\)"):
        Dice(threshold=0.5).update(it.zeros((2, 1)), it.zeros((2,)), 0.0)
    with pytest.raises(ArgumentError, match=r"^IoU: a target is class 255.*ignore=255"):
        IoU().update(it.zeros((2, 3)), it.asarray([0, 255]), 0.0)
    with pytest.raises(ArgumentError, match=r"^FBeta: targets must be bool, or 0 and 1.*with 0\.5"):
        FBeta(threshold=0.5).update(it.zeros((2,)), it.asarray([0.0, 0.5]), 0.0)
    with pytest.raises(ArgumentError, match="must be tensors, got a list"):
        FBeta().update([1], [2], 0.0)
    with pytest.raises(ArgumentError, match="average"):
        Precision(average="mean")
    with pytest.raises(ArgumentError, match="beta must be positive"):
        FBeta(0.0)


def test_an_error_leaves_the_counts_alone():
    metric = Precision()
    metric.update(it.asarray(SCORES), it.asarray(CLASSES), 0.0)
    before = metric.compute()
    with pytest.raises(ShapeError, match="there were 5 classes until now"):
        metric.update(it.zeros((2, 3)), it.zeros((2,), dtype="int64"), 0.0)
    assert metric.compute() == before
