"""The parts of planning, each against what it promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingle.fusion.ir.graph import Graph
from ingle.fusion.ir.merge_axes import merged
from ingle.fusion.ir.views import View, strides_of, views_of
from ingle.fusion.passes.simplify import simplify
from ingle.fusion.schedule.arena import LiveBuffer, packed
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import float32, int64
from ingle.tensor.operation import OPERATIONS


def elements(view, root):
    flat = root.reshape(-1)[view.offset :]
    steps = [s * flat.itemsize for s in view.strides]
    return np.lib.stride_tricks.as_strided(flat, view.shape, steps)


def factors(total, draw):
    """A shape of `total` elements."""
    shape = []
    rest = total
    while rest > 1:
        size = draw(st.sampled_from([d for d in range(2, rest + 1) if rest % d == 0]))
        shape.append(size)
        rest //= size
    for _ in range(draw(st.integers(0, 2))):
        shape.insert(draw(st.integers(0, len(shape))), 1)
    return tuple(shape)


@settings(suppress_health_check=[HealthCheck.too_slow])  # of a busy machine, not of the test
@given(st.data())
def test_views_show_what_numpy_shows(data):
    draw = data.draw
    shape = factors(draw(st.sampled_from([1, 6, 12, 24])), draw)
    root = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    graph = Graph()
    value = graph.input(Aval(shape, float32))
    want = root
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["reshape", "permute_dims", "broadcast_to", "slice"]))
        if kind == "reshape" and want.size:
            to = factors(want.size, draw)
            op = OPERATIONS[kind].op(shape=to)
            args, want = (value,), want.reshape(to)
        elif kind == "permute_dims":
            axes = tuple(draw(st.permutations(range(want.ndim))))
            op = OPERATIONS[kind].op(axes=axes)
            args, want = (value,), want.transpose(axes)
        elif kind == "broadcast_to":
            to = (draw(st.integers(1, 2)), *[n if n > 1 else 2 for n in want.shape])
            op = OPERATIONS[kind].op(shape=to)
            args, want = (value,), np.broadcast_to(want, to)
        else:
            starts, sizes, steps, key = [], [], [], []
            for n in want.shape:
                size = draw(st.integers(1, n))
                step = draw(st.sampled_from([1, -1, 2])) if size * 2 <= n + 1 else 1
                first = draw(st.integers(0, n - 1 - (size - 1) * step)) if step > 0 else n - 1
                starts.append(graph.constant(first, int64))
                sizes.append(size)
                steps.append(step)
                key.append([first + i * step for i in range(size)])
            op = OPERATIONS[kind].op(sizes=tuple(sizes), steps=tuple(steps))
            args = (value, *starts)
            want = want[np.ix_(*key)] if key else want
        if want.ndim > 6 or want.size > 4096:
            return
        (value,) = graph.node(op, args)
    view = views_of(graph).of(value)
    assert view.shape == want.shape
    if view.root == 0:
        np.testing.assert_array_equal(elements(view, root), want)
    else:
        # A reshape that strides cannot express is where a new root begins.
        made = next(n for n in graph.nodes if view.root in n.results)
        assert made.op.operation.name == "reshape"


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_values_that_live_together_do_not_overlap(raw):
    spans = [LiveBuffer(i, n, min(a, b), max(a, b)) for i, (n, a, b) in enumerate(raw)]
    offsets, size = packed(spans)
    for s in spans:
        assert offsets[s.value] % 64 == 0
        assert offsets[s.value] + s.nbytes <= size
        for t in spans:
            alive = s.first <= t.last and t.first <= s.last
            if s is not t and alive and s.nbytes and t.nbytes:
                a, b = offsets[s.value], offsets[t.value]
                assert a + s.nbytes <= b or b + t.nbytes <= a


def test_memory_is_used_again():
    _, size = packed([LiveBuffer(i, 1000, i, i + 1) for i in range(50)])
    assert size == 2048


@settings(suppress_health_check=[HealthCheck.too_slow])  # of a busy machine, not of the test
@given(st.data())
def test_merged_axes_walk_the_same_places(data):
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), max_size=4)))
    order = data.draw(st.permutations(range(len(sizes))))
    whole = strides_of(sizes)
    swapped = [0] * len(sizes)
    step = 1
    for axis in order:
        swapped[axis] = step
        step *= sizes[axis]
    operands = [whole, tuple(swapped), tuple([0] * len(sizes))]
    axes = merged(sizes, operands)
    assert 1 not in axes.sizes

    def places(sizes, strides):
        grid = np.indices(sizes).reshape(len(sizes), math.prod(sizes))
        return (grid * np.array(strides).reshape(-1, 1)).sum(0).tolist()

    for before, after in zip(operands, axes.strides, strict=True):
        assert places(sizes, before) == places(axes.sizes, after)


def test_dead_and_repeated_work_is_left_out():
    graph = Graph()
    x = graph.input(Aval((3,), float32))
    add, neg = OPERATIONS["add"].op(), OPERATIONS["negative"].op()
    (a,) = graph.node(add, (x, x))
    (b,) = graph.node(add, (x, x))
    graph.node(neg, (a,))
    (c,) = graph.node(OPERATIONS["multiply"].op(), (a, b))
    (same,) = graph.node(OPERATIONS["reshape"].op(shape=(3,)), (c,))
    graph.outputs = (same,)
    small = simplify(graph)
    assert [n.op.operation.name for n in small.nodes] == ["add", "multiply"]
    assert small.nodes[1].args == (1, 1)
    assert small.outputs == (2,)


def test_a_view_is_contiguous_only_in_c_order():
    assert View(0, (2, 3), (3, 1)).contiguous
    assert View(0, (2, 1, 3), (3, 77, 1)).contiguous
    assert not View(0, (3, 2), (1, 3)).contiguous


@pytest.mark.parametrize(
    ("start", "size", "step"), [(-3, 3, 1), (-1, 3, -2), (-5, 2, 4), (-3, 4, 1), (5, 1, 1)]
)
def test_pieces_that_count_from_the_end(start, size, step):
    root = np.arange(10, dtype=np.float32).reshape(2, 5)
    graph = Graph()
    x = graph.input(Aval((2, 5), float32))
    starts = [graph.constant(n, int64) for n in (-2, start)]
    op = OPERATIONS["slice"].op(sizes=(2, size), steps=(1, step))
    (piece,) = graph.node(op, (x, *starts))
    views = views_of(graph)
    picked = [start % 5 + step * n for n in range(size)] if start < 5 else [5]
    if max(picked) < 5:
        np.testing.assert_array_equal(elements(views.of(piece), root), root[:, picked])
    else:  # the operation itself says that it does not lie inside
        assert not views.is_view(piece)
