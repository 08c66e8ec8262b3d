"""Which graphs of a form are examples for a plan for all sizes."""

from __future__ import annotations

import random

from ingle.fusion.symbolic.samples import MOST, Samples


def test_examples_differ_from_one_another_in_the_same_sizes():
    samples, rng = Samples[int](), random.Random(0)
    weights = [(3, 4), (3, 5), (6, 4), (8, 8)]
    found = []
    for length in range(1, 30):
        for weight in rng.sample(weights, 3):
            alike = samples.alike((length, *weight), length)
            found += [[numbers for numbers, _ in alike]] if alike else []
    assert len(found) > 20
    for alike in found:
        for k in range(3):
            pairs = [(0, 1), (0, 2), (1, 2)]
            assert len({alike[a][k] == alike[b][k] for a, b in pairs}) == 1, alike


def test_what_is_known_is_no_second_example():
    samples = Samples[str]()
    assert [bool(samples.alike((n,), "")) for n in (1, 2, 2, 1, 3, 3, 4)] == [
        False, False, False, False, True, False, True,
    ]  # fmt: skip


def test_the_oldest_go():
    samples = Samples[str]()
    for n in range(MOST + 5):
        samples.alike((n, n % 2, 7), "", 1)
    assert len(samples._known) == MOST
    for n in range(9):
        samples.alike((n, 2, 7), "", 10**6)
    assert len(samples._known) == 3
