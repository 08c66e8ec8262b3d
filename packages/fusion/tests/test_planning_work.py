"""How much work planning is: what it counts must not grow faster than the graph."""

from __future__ import annotations

import random
import sys
from itertools import accumulate

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion.grouping.group import Group
from ingle.fusion.grouping.topological_order import GroupOrder
from ingle.fusion.ir.graph import Graph
from ingle.fusion.runtime import graph_plans, planning_work
from ingle.fusion.runtime.plan_cache import with_donors
from ingle.fusion.schedule import arena
from ingle.fusion.schedule.arena import ALIGNMENT, LiveBuffer, packed
from ingle.fusion.schedule.donation import FOREVER, _Waiting
from ingle.fusion.schedule.peak_memory import PeakTracker
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import float32, int32

MOST_GROWTH = 2.2
"""What twice the graph may cost."""


def drawn(*shape):
    return it.asarray(np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32) * 0.2)


def blocks(layers):
    """Residual blocks with their gradients, and what an optimizer makes of these."""
    weights = [(drawn(32, 16), drawn(32), drawn(16, 32), drawn(16)) for _ in range(layers)]
    state = [it.zeros_like(w) for ws in weights for w in ws]

    def loss(x, *flat):
        for k in range(layers):
            up, bias, down, scale = flat[4 * k : 4 * k + 4]
            h = it.gelu(it.linear(it.layer_norm(x, (16,), scale), up, bias))
            x = x + it.linear(h, down)
        return it.mean(x * x)

    def run():
        old = [w for each in weights for w in each]
        places = tuple(range(1, len(old) + 1))
        value, found = value_and_grad(loss, argnums=places)(drawn(8, 16), *old)
        moments = [m * 0.9 + g * 0.1 for m, g in zip(state, found, strict=True)]
        return [value, *moments, *[w - 0.1 * m for w, m in zip(old, moments, strict=True)]]

    return run


def images(steps):
    """Convolutions over and over, whose results somebody keeps."""
    weights = [drawn(4, 4, 3, 3) for _ in range(3)]
    bias, start = drawn(4, 1, 1), drawn(1, 4, 8, 8)

    def run():
        found = []
        for step in range(steps):
            x = start + float(step)
            for weight in weights:
                x = it.relu(it.conv2d(x, weight, padding=1) + bias)
            found.append(it.sum(x))
        return found

    return run


def chain(steps):
    """A long walk of a value that rows and columns are folded of."""
    x = drawn(8, 8)

    def run():
        y, found = x, []
        for step in range(4 * steps):
            y = it.softmax(y * 1.5 + float(step), axis=step % 2)
            found.append(it.max(y, axis=(step + 1) % 2))
        return found

    return run


def pieces(steps):
    """A buffer that is written into, piece by piece."""
    rows = [drawn(1, 6) for _ in range(8 * steps)]

    def run():
        y = it.zeros((8 * steps, 6))
        for step, row in enumerate(rows):
            y = it.slice_update(y, row * 2.0, (step, 0))
        return [y, *[row + 1.0 for row in rows]]

    return run


def lookups(steps):
    """Sums over all of what is looked up, with their gradients: no kernel has loops for both."""
    table = drawn(64, 8)
    places = [it.asarray(np.arange(16) * (k + 1) % 64) for k in range(6 * steps)]

    def loss(table):
        return sum([it.sum(it.take(table, where, axis=0) ** 2) for where in places], it.zeros(()))

    return lambda: [*value_and_grad(loss)(table)]


def work_of_planning(monkeypatch, run):
    """Calls of functions while a plan is made for the second time, so that its kernels are there.

    Returns:
        The number of calls, and of operations.
    """
    found = []
    planned = planning_work.compile_graph

    def counted(*args):
        planned(*args)
        calls = [0]

        def note(frame, event, arg):
            calls[0] += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            plan = planned(*args)
        finally:
            sys.setprofile(None)
        found.append((calls[0], len(plan.schedule.graph.nodes)))
        return plan

    with it.device("cpu"), monkeypatch.context() as patch:
        patch.setenv("INGLE_PLAN_SLICES", "0")
        patch.setattr(planning_work, "compile_graph", counted)
        patch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
        program = run()
        for _ in range(3):
            kept = program()
            kept[-1].numpy()
    return max(found, key=lambda m: m[1])


PROGRAMS = [(blocks, 4), (images, 3), (chain, 4), (pieces, 3), (lookups, 6)]


@pytest.mark.slow
@pytest.mark.parametrize(("program", "size"), PROGRAMS)
def test_twice_the_graph_takes_twice_the_work(monkeypatch, program, size):
    small = work_of_planning(monkeypatch, lambda: program(size))
    large = work_of_planning(monkeypatch, lambda: program(2 * size))
    assert large[1] >= 1.8 * small[1]
    assert large[0] <= MOST_GROWTH * small[0]
    assert large[0] <= 1400 * large[1]


class AllPairs:
    """What runs before what, found anew at each question."""

    def __init__(self):
        self.needs = {}

    def above(self, name):
        found, waiting = set(), [name]
        while waiting:
            for other in self.needs[waiting.pop()]:
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        return found

    def absorb(self, name, other):
        self.needs[name] = (self.needs[name] | self.needs.pop(other)) - {name, other}
        for needs in self.needs.values():
            if other in needs:
                needs.remove(other)
                needs.add(name)
        self.needs[name].discard(name)


@pytest.mark.parametrize("seed", range(30))
def test_an_order_knows_what_runs_before_what(seed):
    draw, order, plain = random.Random(seed), GroupOrder(), AllPairs()
    groups = {}
    for name in range(40):
        before = draw.sample(sorted(groups), min(len(groups), draw.randint(0, 3)))
        groups[name] = Group("nest", [name])
        order.add(groups[name], [groups[b] for b in before])
        plain.needs[name] = set(before)
        a, b = draw.choice(sorted(groups)), draw.choice(sorted(groups))
        if a == b:
            continue
        free = a not in plain.above(b)
        assert order.reachable(groups[a], [groups[b]]) == free
        assert order.touches(groups[a], {groups[b]}) == (a in plain.needs[b] or b in plain.needs[a])
        if free and draw.random() < 0.4:
            order.depend(groups[a], [groups[b]])
            plain.needs[a].add(b)
        between = any(
            (b in plain.above(c) and c in plain.above(a))
            or (a in plain.above(c) and c in plain.above(b))
            for c in groups
        )
        assert order.connected(groups[a], groups[b]) == between
        if not between and draw.random() < 0.5:
            groups[a].nodes = sorted(groups[a].nodes + groups[b].nodes)
            order.absorb(groups[a], groups[b])
            plain.absorb(a, b)
            del groups[b]
    names = {group: name for name, group in groups.items()}
    done, waiting = set(), sorted(groups, key=lambda n: groups[n].nodes[0])
    for group in order.runnable():
        first = next(n for n in waiting if plain.above(n) <= done)
        assert names[group] == first
        waiting.remove(first)
        done.add(first)
    assert not waiting


@pytest.mark.parametrize("seed", range(20))
def test_a_tide_has_the_most_of_its_prefix_sums(seed):
    draw = random.Random(seed)
    changes = [draw.randint(-9, 9) for _ in range(draw.randint(1, 40))]
    tide = PeakTracker(changes)
    for _ in range(30):
        # Behind the last step is as much as after it.
        assert tide.most == max(accumulate(changes))
        at, change = draw.randrange(len(changes)), draw.randint(-9, 9)
        changes[at] += change
        tide.add(at, change)


def places_one_by_one(spans):
    """Offsets by going through everything that has a place."""
    offsets, placed = {}, []
    for span in sorted(spans, key=lambda s: (-s.nbytes, s.first, s.value)):
        room, at = -(-span.nbytes // ALIGNMENT) * ALIGNMENT, 0
        for start, end, other in sorted(placed):
            if other.last < span.first or span.last < other.first:
                continue
            if at + room <= start:
                break
            at = max(at, end)
        offsets[span.value] = at
        placed.append((at, at + room, span))
    return offsets


@pytest.mark.parametrize("seed", range(40))
def test_values_have_the_lowest_places_that_are_free(seed, monkeypatch):
    """However they are looked for."""
    monkeypatch.setattr(arena, "FEW", 60 if seed % 3 == 0 else 0)
    monkeypatch.setattr(arena, "SOME", 60 if seed % 3 == 1 else 0)
    draw = random.Random(seed)
    steps, spans = draw.randint(1, 40), []
    for value in range(draw.randint(0, 60)):
        first = draw.randrange(steps)
        last = min(steps - 1, first + int(draw.expovariate(0.2)))
        nbytes = draw.choice([0, 1, 64, 100, 256, 4096, draw.randint(1, 9999)])
        spans.append(LiveBuffer(value, nbytes, first, last))
    offsets, size = packed(spans)
    assert offsets == places_one_by_one(spans)
    assert size == max([offsets[s.value] + -(-s.nbytes // 64) * 64 for s in spans], default=0)


@pytest.mark.parametrize("seed", range(20))
def test_inputs_wait_in_order_until_they_are_read_no_more(seed):
    draw = random.Random(seed)
    last = [draw.randrange(30) for _ in range(draw.randint(0, 30))]
    waiting = _Waiting(last)
    for _ in range(20):
        step = draw.randrange(30)
        found = list(waiting.until(step))
        assert found == [k for k, at in enumerate(last) if at <= step]
        if found:
            taken = draw.choice(found)
            waiting.give(taken)
            last[taken] = FOREVER


def test_donors_are_told_by_shape_and_dtype():
    graph = Graph()
    shapes = [((2, 3), float32), ((4,), float32), ((2, 3), float32), ((2, 3), int32)]
    numbers = [graph.input(Aval(*s)) for s in shapes]
    graph.outputs = (numbers[2], numbers[0], numbers[3])
    assert with_donors(graph).donors == (((0, 2), (0, 1)), ((3,), (2,)))
