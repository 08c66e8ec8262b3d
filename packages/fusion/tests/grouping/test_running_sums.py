"""Sums of folds that grow term by term are added to where each term is folded."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import explain


def given(count, shape=(8, 16)):
    draw = np.random.default_rng(count)
    return [it.asarray(draw.normal(size=shape).astype("f")) for _ in range(count)]


def kernels(function, arrays):
    found = explain(function, *arrays)
    return len(found.steps)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_each_turn_has_a_kernel_of_its_own(axis):
    def total(*arrays):
        found = it.sum(arrays[0], axis=axis)
        for x in arrays[1:]:
            found = found + it.sum(x, axis=axis)
        return found

    def in_turns(*arrays):
        return total(*[x[1:] for x in arrays])

    with it.device("cpu"):
        arrays = given(9)
        assert kernels(in_turns, arrays) >= 8
        assert kernels(total, arrays) < 8  # which takes no pieces, and so is no loop
        want = sum(x.numpy()[1:].astype("d").sum(axis=axis) for x in arrays)
        np.testing.assert_allclose(in_turns(*arrays).numpy(), want, rtol=1e-4, atol=1e-4)


def test_a_few_folds_are_one_kernel():
    def total(*arrays):
        found = it.sum(arrays[0], axis=0)
        for x in arrays[1:]:
            found = found + it.sum(x, axis=0)
        return found

    with it.device("cpu"):
        assert kernels(total, given(4)) == 1
        assert kernels(lambda *arrays: total(*[x[1:] for x in arrays]), given(4)) == 1


def test_sums_of_what_is_no_fold_stay_one_kernel():
    def total(*arrays):
        found = arrays[0]
        for x in arrays[1:]:
            found = found + x
        return found

    with it.device("cpu"):
        assert kernels(total, given(9)) == 1
        assert kernels(lambda *arrays: total(*[x[1:] for x in arrays]), given(9)) == 1
