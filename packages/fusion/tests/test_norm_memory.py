"""Norms of images keep statistics between their kernels, and nothing of the images' size."""

from __future__ import annotations

import pytest

import ingle.tensor as it
from ingle.fusion import explain

GROUPS = 4


@pytest.fixture(scope="module")
def operands():
    with it.device("cpu"):
        return it.random.normal(shape=(4, 32, 16, 16)), it.ones(32), it.zeros(32)


def normed(x, weight, bias):
    return it.group_norm(x, GROUPS, weight, bias)


def gradients(*operands):
    leaves = [v.require_grad() for v in operands]
    grads = it.sum(normed(*leaves) ** 3).backward()
    return [grads[v] for v in leaves]


def test_group_norm_goes_over_images_again_instead_of_keeping_them_normalized(operands):
    found = explain(normed, *operands, runs=0)
    assert 0 < found.arena < operands[0].nbytes // 8


def test_its_gradient_keeps_no_more_than_the_cotangent(operands):
    found = explain(gradients, *operands, runs=0)
    assert found.arena < operands[0].nbytes * 5 // 4


def test_the_gradient_of_batch_norm_goes_over_its_images_for_two_sums(operands):
    x, weight, bias = operands

    def gradients(x, weight, bias):
        leaves = [v.require_grad() for v in (x, weight, bias)]
        grads = it.sum(it.batch_norm_training(*leaves)[0] ** 3).backward()
        return [grads[v] for v in leaves]

    found = explain(gradients, x, weight, bias, runs=0)
    images = [s for s in found.steps if s.nbytes > x.nbytes and "multiply" in s.operations]
    assert [s.operations.count("sum") for s in images if "sum" in s.operations] == [2]
