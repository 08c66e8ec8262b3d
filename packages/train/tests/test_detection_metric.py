"""Mean average precision beside an evaluation written out in plain loops."""

import json

import numpy as np
import pytest
from metric_batches import gathered

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.train import MeanAveragePrecision

THRESHOLDS = [0.5 + 0.05 * i for i in range(10)]


def images(count, seed=0):
    """True boxes, and found ones: some shifted, some twice, some missed, some invented."""
    rng = np.random.default_rng(seed)
    found, true = [], []
    for _ in range(count):
        n = rng.integers(0, 6)
        corner = rng.uniform(0, 60, (n, 2))
        boxes = np.concatenate([corner, corner + rng.uniform(5, 40, (n, 2))], axis=1)
        labels = rng.integers(0, 3, n)
        picked = rng.integers(0, n, rng.integers(0, 9)) if n else np.zeros(0, int)
        invented = rng.uniform(0, 50, (2, 2))
        seen = np.concatenate(
            [
                boxes[picked] + rng.normal(0, 1.5, (len(picked), 4)),
                np.concatenate([invented, invented + 20], axis=1),
            ]
        )
        names = np.concatenate([labels[picked], rng.integers(0, 4, 2)])
        found.append({"boxes": seen, "scores": rng.uniform(size=len(seen)), "labels": names})
        true.append({"boxes": boxes, "labels": labels})
    return found, true


def overlap(a, b):
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    common = max(wide, 0) * max(high, 0)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def average_precision(found, true, label, threshold, most=100):
    marks, total = [], 0
    for one, other in zip(found, true, strict=True):
        boxes = [*other["boxes"][other["labels"] == label]]
        total += len(boxes)
        rows = zip(one["scores"], one["boxes"], one["labels"], strict=True)
        mine = sorted(((s, b) for s, b, name in rows if name == label), key=lambda r: -r[0])
        for score, box in mine[:most]:
            best = max(boxes, key=lambda other, box=box: overlap(box, other), default=None)
            hit = best is not None and overlap(box, best) >= threshold
            if hit:
                boxes = [b for b in boxes if b is not best]
            marks.append((score, hit))
    hits = [hit for _, hit in sorted(marks, key=lambda m: -m[0])]
    curve = [(sum(hits[:k]) / total, sum(hits[:k]) / k) for k in range(1, len(hits) + 1)]
    levels = [
        max((p for r, p in curve if r >= level), default=0.0) for level in np.linspace(0, 1, 101)
    ]
    return sum(levels) / 101


def expected(found, true, thresholds, most=100):
    labels = {name for image in true for name in image["labels"]}
    return np.mean([average_precision(found, true, c, t, most) for c in labels for t in thresholds])


@pytest.mark.parametrize(("thresholds", "most"), [(None, 100), ([0.5], 100), ([0.75], 1)])
def test_map_equals_the_evaluation_in_loops(thresholds, most):
    found, true = images(14)
    metric = MeanAveragePrecision(thresholds, most=most)
    value = gathered(metric, found, true, (0, 1, 9, 14))
    assert value == pytest.approx(expected(found, true, thresholds or THRESHOLDS, most), rel=1e-12)
    assert 0.05 < value < 0.95


def test_tensors_are_read_as_arrays_are():
    found, true = images(3, seed=1)
    tensors = [
        [{key: it.asarray(value) for key, value in image.items()} for image in side]
        for side in (found, true)
    ]
    metric = MeanAveragePrecision()
    metric.update(*tensors, 0.0)
    assert metric.compute() == gathered(MeanAveragePrecision(), found, true, (0, 3))


def test_all_found_none_found_and_nothing_there():
    _, true = images(5)
    perfect = [image | {"scores": np.ones(len(image["labels"]))} for image in true]
    assert gathered(MeanAveragePrecision(), perfect, true, (0, 5)) == pytest.approx(1.0)
    nothing = {"boxes": np.zeros((0, 4)), "scores": np.zeros(0), "labels": np.zeros(0, int)}
    assert gathered(MeanAveragePrecision(), [nothing] * 5, true, (0, 5)) == 0.0
    assert np.isnan(gathered(MeanAveragePrecision(), [nothing], [nothing], (0, 1)))


def test_what_does_not_fit_is_named():
    found, true = images(2)
    metric = MeanAveragePrecision()
    with pytest.raises(ShapeError, match="outputs of 2 images and targets of 1"):
        metric.update(found, true[:1], 0.0)
    with pytest.raises(ShapeError, match=r"must be lists .* got Tensor"):
        metric.update(it.zeros((2, 4)), true, 0.0)
    flat = {"boxes": np.zeros(4), "scores": np.ones(1), "labels": np.ones(1)}
    with pytest.raises(ShapeError, match=r"image 1 .* got boxes \[4\], scores \[1\], labels"):
        metric.update([found[0], flat], true, 0.0)
    with pytest.raises(ShapeError, match=r"outputs of image 0 .* got \['boxes', 'labels'\]"):
        metric.update(true, true, 0.0)
    turned = {"boxes": np.array([[5.0, 5.0, 2.0, 9.0]]), "labels": np.ones(1)}
    with pytest.raises(ArgumentError, match="left, top, right, bottom"):
        metric.update(found[:1], [turned], 0.0)
    with pytest.raises(ArgumentError, match="thresholds"):
        MeanAveragePrecision([1.5])
    with pytest.raises(ArgumentError, match="most"):
        MeanAveragePrecision(most=0)
    assert metric.images == []


def test_a_box_of_an_untrained_net_hits_nothing():
    box = np.array([[0.0, 0.0, 10.0, 10.0]])
    for crossed in ([[10.0, 0.0, 0.0, 10.0]], [[10.0, 10.0, 0.0, 0.0]], [[5.0, 5.0, 5.0, 5.0]]):
        boxes = np.concatenate([np.array(crossed), box])
        metric = MeanAveragePrecision()
        found = {"boxes": boxes, "scores": np.array([0.9, 0.8]), "labels": np.zeros(2)}
        metric.update([found], [{"boxes": box, "labels": np.zeros(1)}], 0.0)
        assert metric.compute() == 0.5


def test_a_crowd_is_not_asked_for_and_boxes_within_it_do_not_count():
    """The numbers are those of COCO's own evaluation, too."""
    boxes = np.array([[0.0, 0.0, 10.0, 10.0], [20.0, 20.0, 60.0, 60.0]])
    true = {"boxes": boxes, "labels": np.zeros(2), "crowd": np.array([False, True])}
    inside, outside = [22.0, 22.0, 30.0, 30.0], [50.0, 50.0, 90.0, 90.0]

    def of(*found):
        metric = MeanAveragePrecision([0.5])
        scores = np.linspace(0.9, 0.5, len(found))
        rows = {"boxes": np.array(found), "scores": scores, "labels": np.zeros(len(found))}
        metric.update([rows], [true], 0.0)
        again = MeanAveragePrecision([0.5])
        again.load_state(json.loads(json.dumps(metric.state())))
        assert again.compute() == metric.compute()
        return metric.compute()

    assert of(inside, inside, boxes[0]) == 1.0
    assert of(outside, boxes[0]) == 0.5
    only = {"boxes": boxes[1:], "labels": np.zeros(1), "crowd": np.ones(1)}
    metric = MeanAveragePrecision()
    metric.update([{"boxes": boxes, "scores": np.ones(2), "labels": np.zeros(2)}], [only], 0.0)
    assert np.isnan(metric.compute())
