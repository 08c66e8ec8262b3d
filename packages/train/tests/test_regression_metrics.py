"""MAE, MSE, RMSE and R2 beside scikit-learn's."""

import numpy as np
import pytest
from metric_batches import gathered
from sklearn import metrics as sk

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.train import MAE, MSE, R2, RMSE

RNG = np.random.default_rng(0)
WANTED = RNG.normal(size=(90, 3))
FOUND = WANTED + RNG.normal(0, 0.5, size=(90, 3))
METRICS = [
    (MAE, sk.mean_absolute_error),
    (MSE, sk.mean_squared_error),
    (R2, sk.r2_score),
]


@pytest.mark.parametrize("columns", [0, slice(0, 1), slice(None)], ids=["one", "column", "three"])
@pytest.mark.parametrize(("metric", "peer"), METRICS)
def test_equals_scikit_learns(metric, peer, columns):
    found, wanted = FOUND[:, columns], WANTED[:, columns]
    assert gathered(metric(), found, wanted) == pytest.approx(peer(wanted, found), rel=1e-12)


def test_rmse_is_the_root_of_the_mean_over_all_elements():
    expected = np.sqrt(((FOUND - WANTED) ** 2).mean())
    assert gathered(RMSE(), FOUND, WANTED) == pytest.approx(expected, rel=1e-13)


def test_r2_of_targets_far_from_zero_loses_no_digits():
    found, wanted = FOUND[:, 0] + 1e8, WANTED[:, 0] + 1e8
    assert gathered(R2(), found, wanted) == pytest.approx(sk.r2_score(wanted, found), rel=1e-9)


def test_r2_of_constant_targets_and_of_nothing():
    same = np.full(90, 2.0)
    assert gathered(R2(), same, same) == sk.r2_score(same, same) == 1.0
    assert gathered(R2(), FOUND[:, 0], same) == sk.r2_score(same, FOUND[:, 0]) == 0.0
    one = R2()
    one.update(it.asarray([1.0]), it.asarray([1.0]), 0.0)
    assert np.isnan(one.compute())
    for metric in (MAE(), MSE(), RMSE(), R2()):
        assert np.isnan(metric.compute())


@pytest.mark.parametrize("metric", [MAE(), MSE(), RMSE(), R2()])
def test_nothing_is_broadcast(metric):
    name = type(metric).__name__
    with pytest.raises(ShapeError, match=rf"^{name}: .*float32\[4, 1\] and float32\[4\]; reshape"):
        metric.update(it.zeros((4, 1)), it.zeros((4,)), 0.0)
    with pytest.raises(ArgumentError, match=rf"^{name}: .*a float and a list"):
        metric.update(1.0, [2.0], 0.0)


def test_r2_of_batches_that_differ():
    metric = R2()
    metric.update(it.zeros((4, 2)), it.zeros((4, 2)), 0.0)
    with pytest.raises(ShapeError, match="had 2 numbers until now, this batch has 3"):
        metric.update(it.zeros((4, 3)), it.zeros((4, 3)), 0.0)
