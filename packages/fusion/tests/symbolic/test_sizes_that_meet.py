"""Symbols that differ in the examples and are equal elsewhere, and the other way round.

A dictionary with sizes as keys notes what it finds, and not what it misses: `Size.__hash__` is that
of the example. So a plan may hold for sizes at which a key would have been found. These are asked
for here: each result has the bits that the plan of these sizes alone gives.
"""

from __future__ import annotations

import random
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import PlanWarning, compile, pipeline
from ingle.fusion.symbolic import families
from ingle.fusion.symbolic.sequences import FilledSequence
from ingle.fusion.symbolic.sizes import Size
from ingle.tensor.pytree import flatten
from ingle.testkit.bits import same_bits

A_MISS_IS_SAFE = {
    ("fusion/ir/broadcast_axes.py", "axes_seen"): (
        "an axis that is not found has no loop to share: two kernels in place of one. Axes longer "
        "than 1 differ in their steps, so that a key has one axis"
    ),
    ("fusion/ir/graph.py", "Graph.emptied"): "equal constants stay two values of the graph",
    ("fusion/kernel/code.py", "bits_of"): (
        "what is not found is turned into bits, and a size of which that is asked is settled"
    ),
    ("fusion/lowering/nests.py", "NestBuilder._steps"): (
        "it looks up what `choose_axes` has put there under the same strides"
    ),
    ("fusion/lowering/operands.py", "Operands.choose_axes"): (
        "steps follow from their key: two keys that are equal elsewhere have equal steps there"
    ),
    ("fusion/schedule/recompute_cost.py", "Recomputation._reads"): (
        "a read that counts twice changes what a recomputation is taken to cost, and no bit"
    ),
    ("fusion/schedule/recompute_cost.py", "Recomputation.way"): (
        "a read that counts twice changes what a recomputation is taken to cost, and no bit"
    ),
    ("fusion/schedule/recompute_cost.py", "Recomputation._under"): (
        "a view whose axes are not found is stored, not recomputed. Keys meet only where an axis "
        "is of size 1, which is never looked up"
    ),
    ("fusion/lowering/row_lengths.py", "with_strides"): "each operand computes where rows begin",
    ("fusion/symbolic/form.py", "with_numbers"): "equal operations stay two objects",
    ("tensor/operation.py", "Operation.op"): "as in `_intern`, which is asked next",
    ("tensor/operation.py", "_intern"): (
        "equal operations stay two objects. A size has a type of its own in a key, so that no "
        "operation with a number is taken for one with a symbol"
    ),
}
"""Functions that put sizes, or what holds sizes, in a dictionary or set: why a miss harms none."""


@pytest.fixture
def sites(monkeypatch):
    """The functions that take the hash of a size."""
    found, taken = set(), Size.__hash__

    def noted(size):
        code = sys._getframe(1).f_code  # dictionaries and tuples have no frames
        path = Path(code.co_filename).as_posix().rpartition("/ingle/")[2]
        found.add((path, code.co_qualname.split(".<locals>")[0]))
        return taken(size)

    monkeypatch.setattr(Size, "__hash__", noted)
    return found


class Compared:
    """Runs functions by plans of all sizes, and by plans of the sizes at hand alone."""

    def __init__(self, monkeypatch):
        self.alone, self.served = False, []
        filled_sequence = pipeline.filled_sequence
        monkeypatch.setattr(families, "_of", type(families._of)())

        def chosen(device, graph, pairs, layers=None):
            if self.alone:
                return FilledSequence(pipeline.kernel_sequence(device, graph, pairs))
            got = filled_sequence(device, graph, pairs, layers)
            self.served.append(got.sources is not None)
            return got

        monkeypatch.setattr(pipeline, "filled_sequence", chosen)

    def results(self, quick, arguments, alone):
        self.alone = alone
        try:
            quick(*arguments)  # recorded; planned from the second time on
            return [np.asarray(x) for x in flatten(quick(*arguments))]
        except Exception as error:
            return type(error)

    def check(self, function, arguments_of, examples, asked):
        quick, single = compile(function), compile(function)
        for sizes in (*examples, *asked):
            arguments = arguments_of(sizes)
            got = self.results(quick, arguments, False)
            want = self.results(single, arguments, True)
            if isinstance(want, type):
                assert got is want, sizes
                continue
            assert not isinstance(got, type), (sizes, got)
            for a, b in zip(got, want, strict=True):
                assert (a.shape, a.dtype) == (b.shape, b.dtype), sizes
                assert same_bits(a, b), (sizes, np.abs(a - b).max(initial=0))


@pytest.fixture
def compared(monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        yield Compared(monkeypatch)


def numbers(seed, *shape):
    drawn = np.random.default_rng(seed).normal(size=shape)
    return it.asarray(drawn.astype("float32"), device="cpu")


PAIRS = ((5, 7), (6, 10), (9, 11), (13, 21))
EQUAL = ((5, 5), (6, 6), (9, 9), (13, 13))
MEETING = (
    (9, 9), (21, 13), (8, 16), (16, 8), (64, 64), (1, 9), (9, 1), (1, 1), (2, 2), (4, 2), (7, 49),
    (0, 9), (9, 0), (33, 32), (6, 10),
)  # fmt: skip
"""Sizes that are equal, swapped, multiples, 1, squares, none, and next to each other."""

FUNCTIONS = {
    "softmax": lambda x, y: it.softmax(x + y, axis=-1),
    "softmax of columns": lambda x, y: it.softmax(x * y, axis=0),
    "standardised": lambda x, y: (x - it.mean(x, axis=0)) / (it.std(y, axis=1, keepdims=True) + 1),
    "transposed": lambda x, y: it.permute_dims(x, (1, 0)) @ y,
    "product": lambda x, y: it.relu(x @ it.permute_dims(y, (1, 0))) * 0.5,
    "both ways": lambda x, y: (
        it.exp(it.permute_dims(x, (1, 0))) + it.reshape(x * y, y.shape[::-1])
    ),
    "flat": lambda x, y: it.cumulative_sum(it.reshape(x, (-1,))) + it.reshape(y, (-1,)),
    "halves": lambda x, y: it.concat([x[: x.shape[0] // 2], y[x.shape[0] // 2 :]], axis=0),
    "side by side": lambda x, y: it.sum(it.concat([it.exp(x), it.permute_dims(y, (0, 1))], axis=1)),
    "stepped": lambda x, y: it.concat([x[::2], y[1::2] * 2], axis=0),
    "padded": lambda x, y: it.pad(x * y, ((1, 2), (0, 1))),
    "placed": lambda x, y: x.at[x.shape[0] // 2 :].set(y[x.shape[0] // 2 :] * x.shape[0] // 3),
    "written": lambda x, y: it.exp(x).at[x.shape[0] // 2].set(y[x.shape[1] // 2 % x.shape[0]]),
    "rolled": lambda x, y: it.roll(x + y, 1, axis=0),
    "triangle": lambda x, y: it.tril(x @ it.permute_dims(y, (1, 0))),
    "places": lambda x, y: it.arange(x.shape[0], dtype="float32", device=x.device) @ (x + y),
    "outer": lambda x, y: x[:, :, None] * it.permute_dims(y, (1, 0))[None] + x[:, :, None],
    "sums": lambda x, y: (it.sum(x, axis=0), it.sum(y, axis=1), it.mean(x * y)),
    "scaled": lambda x, y: x * (1.0 / (1 + x.shape[0])) + y * x.shape[1] ** 0.5 - x.shape[0],
    "running": lambda x, y: it.cumulative_sum(x, axis=0) * it.cumulative_prod(y, axis=1),
    "recomputed": lambda x, y: (
        it.softmax(it.exp(x) * y, axis=0), it.softmax(it.exp(x) * y, axis=1)
    ),
}  # fmt: skip


@pytest.mark.sampled(3, slow=1)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "examples",
    [pytest.param(PAIRS, id="pairs"), pytest.param(EQUAL, id="equal", marks=pytest.mark.slow)],
)
def test_each_size_gets_the_bits_of_its_own_plan(compared, sites, name, examples):
    def arguments(sizes):
        return numbers(1, *sizes), numbers(2, *sizes)

    compared.check(FUNCTIONS[name], arguments, examples, MEETING)
    assert any(compared.served[len(examples) :])
    assert sites <= set(A_MISS_IS_SAFE), "say why a miss is safe there"


INPUTS = (("a",), ("b", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("a", "b", "c"), ("c", "c"))
"""Shapes of what a random program takes, of three sizes."""


def written(seed, steps):
    """A random program that is defined whatever its sizes are.

    Shapes are tuples of names: of a size, of several whose product it is (`ab`), of something else.
    """

    def program(*arguments):
        draw = random.Random(seed)
        known = list(zip(arguments, INPUTS, strict=True))
        made = []

        def alike(names):
            found = [x for x, others in known if others == names]
            return draw.choice(found)

        for step in range(steps):
            x, names = draw.choice(known[-6:] if draw.random() < 0.7 else known)
            axis, kind = draw.randrange(len(names)), draw.randrange(12)
            rest = names[:axis] + names[axis + 1 :]
            own = (*names[:axis], f"step {step}", *names[axis + 1 :])
            if kind < 3:
                y = alike(names)
                x = draw.choice((it.add, it.multiply, it.subtract))(it.tanh(x), y)
            elif kind == 3:
                x = it.exp(it.tanh(x)) * 0.5
            elif kind == 4 and rest:
                x, names = it.sum(x, axis=axis), rest
            elif kind == 5:
                order = draw.sample(range(len(names)), len(names))
                x, names = it.permute_dims(x, order), tuple([names[k] for k in order])
            elif kind == 6 and len(names) > 1:
                x = it.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))
                names = (names[0] + names[1], *names[2:])
            elif kind == 7 and len(names) == 2:
                others = [v for v in known if len(v[1]) == 2 and v[1][0] == names[1]]
                if others:
                    y, more = draw.choice(others)
                    x, names = x @ y, (names[0], more[1])
            elif kind == 8:
                y = alike(names)
                x, names = it.concat([it.tanh(x), y], axis=axis), own
            elif kind == 9:
                cut = [slice(None)] * len(names)
                cut[axis] = draw.choice((slice(x.shape[axis] // 2), slice(None, None, 2)))
                x, names = x[tuple(cut)], own
            elif kind == 10:
                x = draw.choice((it.cumulative_sum, it.flip))(it.tanh(x), axis=axis)
            elif len(names) < 4:
                x = x - it.mean(x, axis=axis, keepdims=True)
            known.append((x, names))
            made.append(x)
        return tuple(made[-4:])

    return program


TRIPLES = ((3, 5, 7), (4, 6, 11), (5, 9, 8), (6, 11, 13))
TRIPLES_MEETING = (
    (4, 4, 4), (5, 5, 8), (8, 5, 5), (5, 8, 5), (1, 6, 6), (6, 1, 6), (1, 1, 1), (2, 4, 8),
    (8, 4, 2), (3, 5, 15), (6, 2, 3), (7, 8, 9),
)  # fmt: skip


def inputs(sizes):
    of = dict(zip("abc", sizes, strict=True))
    return [numbers(k, *[of[n] for n in names]) for k, names in enumerate(INPUTS)]


@pytest.mark.sampled(3, slow=0)
@pytest.mark.parametrize(
    "seed",
    [pytest.param(s, marks=[pytest.mark.slow] if s >= 3 else []) for s in range(40)],
)
def test_random_programs_of_sizes_that_meet(compared, sites, seed):
    program = written(seed, random.Random(seed).randint(3, 14))
    compared.check(program, inputs, TRIPLES, TRIPLES_MEETING)
    assert any(compared.served)
    assert sites <= set(A_MISS_IS_SAFE), "say why a miss is safe there"


@pytest.mark.slow
def test_each_reason_is_of_a_function_that_puts_sizes_in_dictionaries(compared, sites):
    for name in ("recomputed", "standardised", "padded", "placed", "rolled"):
        compared.check(FUNCTIONS[name], lambda s: (numbers(1, *s), numbers(2, *s)), PAIRS, MEETING)
    # Rows that are split are written anew with a reshape of symbols.
    compared.check(written(10, random.Random(10).randint(3, 14)), inputs, TRIPLES, [(5, 5, 8)])
    assert sites == set(A_MISS_IS_SAFE)
