"""Where elements of a value lie in another one, by a look at each element."""

from __future__ import annotations

import numpy as np
import pytest

from ingle.fusion.ir.places import Box, place_of


def elements(sizes, strides, offset):
    """The places of all elements, in C order."""
    found = np.full((), offset)
    for size, stride in zip(sizes, strides, strict=True):
        found = found[..., None] + np.arange(size) * stride
    return found


def some_box(rng):
    rank = int(rng.integers(1, 4))
    sizes = tuple([int(n) for n in rng.integers(1, 5, rank)])
    strides = tuple([int(s) for s in rng.choice([1, 2, 4, 6, 8, 12, 24], rank)])
    if rng.integers(4) == 0:
        strides = (*strides[:-1], -1)
    return Box(sizes, strides, int(rng.integers(12, 40)))


def test_boxes_that_do_not_meet_have_no_element_in_common():
    rng, apart = np.random.default_rng(0), 0
    for _ in range(200):
        one, other = some_box(rng), some_box(rng)
        common = set(elements(*one).ravel()) & set(elements(*other).ravel())
        assert one.meets(other) == other.meets(one)
        assert one.meets(other) or not common, (one, other)
        apart += not one.meets(other)
    assert apart > 20


@pytest.mark.parametrize("first", [0, 16, 32])
def test_parts_of_rows_are_apart(first):
    """Heads of queries, keys and values in rows of all three."""
    parts = [Box((2, 2, 8, 8), (384, 8, 48, 1), at) for at in (0, 16, 32)]
    assert [p.offset for p in parts if p.meets(parts[first // 16])] == [first]


def test_views_of_a_value_are_found_in_its_place():
    rng, known = np.random.default_rng(1), 0
    for _ in range(200):
        shape = [int(n) for n in rng.integers(1, 5, 3)]
        order = rng.permutation(3)
        wide = np.zeros([shape[a] for a in order] + [2], np.int64)
        wide[...] = np.arange(wide.size).reshape(wide.shape)
        part = wide[..., 1].transpose(np.argsort(order))  # a value, and where its elements are
        source = [int(s) for s in np.array([shape[1] * shape[2], shape[2], 1])]
        strides = [s // 8 for s in part.strides]
        loops = rng.permutation(3)
        place = place_of(
            9, *[[x[a] for a in loops] for x in (shape, source, strides)], int(part.flat[0])
        )
        assert place is not None
        memory = part.ravel()
        size = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        steps = tuple([int(s) for s in rng.choice([0, 1, *source, 2 * source[1]], 2)])
        offset = int(rng.integers(memory.size))
        there = elements(size, steps, offset)
        if there.max() >= memory.size:
            continue
        found = place.of(size, steps, offset)
        if found is not None:
            known += 1
            np.testing.assert_array_equal(elements(size, *found), memory[there])
    assert known > 60


def test_loops_that_skip_or_repeat_have_no_place():
    assert place_of(9, (2, 3), (4, 1), (3, 1), 0) is None
    assert place_of(9, (2, 3), (0, 1), (3, 1), 0) is None
    assert place_of(9, (2, 3), (3, 1), (0, 1), 0) is None
