"""AUROC and average precision beside scikit-learn's, calibration beside its formula."""

import itertools

import numpy as np
import pytest
from metric_batches import gathered
from sklearn import metrics as sk

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.train import AUROC, AveragePrecision, CalibrationError, TopKAccuracy

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(90, 4)).astype(np.float32)
SHARES = np.exp(SCORES) / np.exp(SCORES).sum(1, keepdims=True)
CLASSES = RNG.integers(0, 4, 90)
LABELS = RNG.integers(0, 2, (90, 4))
METRICS = [(AUROC, sk.roc_auc_score), (AveragePrecision, sk.average_precision_score)]


@pytest.mark.parametrize("scores", [SCORES[:, 0], SCORES[:, 0].round()], ids=["all", "ties"])
@pytest.mark.parametrize(("metric", "peer"), METRICS)
def test_one_label_equals_scikit_learns(metric, peer, scores):
    expected = peer(LABELS[:, 0], scores)
    assert gathered(metric(), scores, LABELS[:, 0]) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("metric", "peer"), METRICS)
def test_labels_equal_scikit_learns(metric, peer):
    expected = peer(LABELS, SCORES, average="macro")
    assert gathered(metric(), SCORES, LABELS) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("metric", "peer"), METRICS)
def test_classes_against_the_rest_equal_scikit_learns(metric, peer):
    expected = peer(np.eye(4)[CLASSES], SCORES, average="macro")
    assert gathered(metric(), SCORES, CLASSES) == pytest.approx(expected, rel=1e-13)


def test_classes_that_have_no_curve_are_left_out():
    classes = np.minimum(CLASSES, 2)
    expected = sk.roc_auc_score(np.eye(3)[classes], SCORES[:, :3], average="macro")
    assert gathered(AUROC(), SCORES, classes) == pytest.approx(expected, rel=1e-13)
    assert np.isnan(gathered(AUROC(), SCORES[:, 0], np.ones(90, bool)))
    assert gathered(AveragePrecision(), SCORES[:, 0], np.ones(90, bool)) == 1.0
    assert np.isnan(gathered(AveragePrecision(), SCORES[:, 0], np.zeros(90, bool)))
    assert np.isnan(AUROC().compute())


def calibration(shares, classes, bins):
    """The gaps of bins and how many samples each has, one sample after another."""
    edges = np.linspace(0, 1, bins + 1)
    found = []
    for low, high in itertools.pairwise(edges):
        rows = [
            (row.max(), row.argmax() == c)
            for row, c in zip(shares, classes, strict=True)
            if low < row.max() <= high
        ]
        if rows:
            found.append((abs(np.mean([r[0] for r in rows]) - np.mean([r[1] for r in rows])), rows))
    return [(gap, len(rows)) for gap, rows in found]


@pytest.mark.parametrize("bins", [1, 7, 15])
@pytest.mark.parametrize("logits", [True, False])
def test_calibration_error_is_guos(bins, logits):
    gaps = calibration(SHARES, CLASSES, bins)
    given = SCORES if logits else SHARES
    found = gathered(CalibrationError(bins, logits=logits), given, CLASSES)
    assert found == pytest.approx(sum(gap * n for gap, n in gaps) / 90, rel=1e-5)
    largest = gathered(CalibrationError(bins, logits=logits, largest=True), given, CLASSES)
    assert largest == pytest.approx(max(gap for gap, _ in gaps), rel=1e-5)


def test_what_does_not_fit_is_named():
    with pytest.raises(ShapeError, match=r"^AUROC: .*same shape, got float32\[3\] and int64\[2\]"):
        AUROC().update(it.zeros((3,)), it.asarray([0, 1]), 0.0)
    with pytest.raises(ArgumentError, match=r"^AUROC: 1 of 2 scores are NaN"):
        AUROC().update(it.asarray([0.0, float("nan")]), it.asarray([0, 1]), 0.0)
    with pytest.raises(ArgumentError, match=r"^AveragePrecision: targets must be bool.*with 2"):
        AveragePrecision().update(it.zeros((2,)), it.asarray([0, 2]), 0.0)
    with pytest.raises(ArgumentError, match=r"^AUROC: a target is class 3"):
        AUROC().update(it.zeros((2, 3)), it.asarray([0, 3]), 0.0)
    with pytest.raises(ArgumentError, match=r"within 0 and 1, got -1 to 2; give logits=True"):
        CalibrationError(logits=False).update(it.asarray([[2.0, -1.0]]), it.asarray([0]), 0.0)
    with pytest.raises(ShapeError, match=r"^CalibrationError: .*argmax\(targets, axis=-1\)"):
        CalibrationError().update(it.zeros((2, 3)), it.zeros((2, 3)), 0.0)
    with pytest.raises(ArgumentError, match="bins"):
        CalibrationError(0)
    metric = AUROC()
    metric.update(it.zeros((2, 3)), it.asarray([0, 1]), 0.0)
    with pytest.raises(ShapeError, match="there were 3 classes until now"):
        metric.update(it.zeros((2, 4)), it.asarray([0, 1]), 0.0)


@pytest.mark.parametrize("wrong", [-1, 4, 255])
@pytest.mark.parametrize("count", [1, 2])
def test_a_single_target_that_is_no_class_is_named(wrong, count):
    targets = np.zeros(5, np.int64)
    targets[5 - count :] = wrong
    for metric in (TopKAccuracy(2), CalibrationError()):
        said = rf"{type(metric).__name__}: a target is class {wrong}, but the outputs have the 4"
        with pytest.raises(ArgumentError, match=said):
            metric.update(it.ones((5, 4)), it.asarray(targets), 0.0)
