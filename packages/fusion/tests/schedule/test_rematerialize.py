"""What kernels compute again instead of reading it: when, and that no bit depends on it."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import ingle.nn as nn
import ingle.tensor as it
from ingle.autodiff import checkpoint, value_and_grad
from ingle.fusion import compile, explain
from ingle.fusion.explanation.buffers import Buffers
from ingle.fusion.explanation.steps import steps_of
from ingle.fusion.schedule import scheduler
from ingle.fusion.schedule.arena import ALIGNMENT
from ingle.fusion.schedule.schedule import laid_out
from ingle.testkit.bits import same_bits
from ingle.testkit.program_generator import random_program
from ingle.testkit.programs import execute


def nothing_again(plan):
    return {group: list(values) for group, values in plan.stored.items()}


@pytest.fixture(autouse=True)
def on_cpu():
    with it.device("cpu"):
        yield


@pytest.fixture
def storing():
    """Has a function run where every value that another kernel needs is stored."""

    def run(function, *args):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scheduler, "rematerialized", nothing_again)
            return function(*args)

    return run


def numbers(*shape, seed=0, dtype="float32"):
    drawn = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    return it.asarray(drawn).astype(dtype)


def again(function, *args):
    """What each kernel of a function computes again."""
    return [step.again for step in explain(function, *args, runs=0).steps if step.again]


def moved(function, *args):
    """The bytes that the kernels of a function move, and those of memory between them."""
    found = explain(function, *args, runs=0)
    return sum(step.nbytes for step in found.steps), found.arena


def flat(results):
    if isinstance(results, it.Tensor):
        return [results.numpy()]
    return [array for part in results for array in flat(part)]


def alike(storing, function, *args):
    """Asserts that a function gives the same bits with and without."""
    got, want = flat(compile(function)(*args)), flat(storing(compile(function), *args))
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        assert same_bits(a, b)


def both_ways(x):
    """A value that two kernels need, since they walk it along different axes."""
    y = it.maximum(x * 2.0 + 1.0, 0.25)
    return it.max(y, axis=1), it.max(y, axis=0)


class TestChains:
    def test_are_computed_by_each_reader(self, storing):
        x = numbers(100, 64)
        (names,) = again(both_ways, x)
        assert names == ("multiply", "add", "maximum")
        (less, none), (more, between) = moved(both_ways, x), storing(moved, both_ways, x)
        assert more - less == between == x.shape[0] * x.shape[1] * 4
        assert none == 0
        alike(storing, both_ways, x)
        y = np.maximum(x.numpy() * 2 + 1, 0.25)
        for got, want in zip(compile(both_ways)(x), (y.max(1), y.max(0)), strict=True):
            np.testing.assert_array_equal(got.numpy(), want)

    def test_through_views(self, storing):
        def f(x, row, c):
            y = x * row - 1.0
            repeated = it.expand_dims(y, 0) * it.reshape(c, (2, 1, 1))
            return it.max(y, axis=1), it.max(repeated, axis=1)

        x, row, c = numbers(100, 64), numbers(64, seed=1), numbers(2, seed=2)
        assert ("multiply", "subtract") in again(f, x, row, c)
        alike(storing, f, x, row, c)

    def test_not_across_the_lanes(self, storing):
        def f(x, row):
            y = x * row - 1.0
            return it.max(y, axis=0), it.max(it.permute_dims(y, (1, 0)) + 1.0, axis=0)

        x, row = numbers(100, 64), numbers(64, seed=1)
        assert again(f, x, row) == []
        alike(storing, f, x, row)

    def test_not_parts(self, storing):
        def f(x):
            y = x * 2.0 + 1.0
            return it.max(y, axis=1), it.max(y[10:, 3:] * 2.0, axis=0)

        alike(storing, f, numbers(100, 64))

    def test_of_half_types_are_rounded_as_if_stored(self, storing):
        x = numbers(100, 64, dtype="bfloat16")

        def f(x):
            y = x * 1.1
            return it.sum(y * 3.0, axis=1), it.sum(y * 5.0 + x, axis=0)

        assert again(f, x) == [("multiply",)]
        alike(storing, f, x)
        alike(storing, both_ways, x)

    def test_casts(self, storing):
        def f(x):
            y = x.astype("float32") * 0.5
            return it.sum(y, axis=1), it.sum(y, axis=0)

        x = it.asarray(np.arange(6400, dtype=np.uint8).reshape(100, 64))
        assert again(f, x) == [("astype", "multiply")]
        alike(storing, f, x)

    def test_no_dear_ones(self):
        for function in (it.exp, it.tanh, it.erf, lambda x: x**1.5):

            def f(x, function=function):
                y = function(x)
                return it.max(y, axis=1), it.max(y, axis=0)

            assert again(f, numbers(100, 64)) == []

    def test_no_long_ones(self):
        def f(x):
            y = x
            for _ in range(40):
                y = it.maximum(y * 1.01, 0.1)
            return it.max(y, axis=1), it.max(y, axis=0)

        assert again(f, numbers(100, 64)) == []

    def test_no_masks_from_random_numbers(self):
        net = nn.Dropout(0.5)

        def f(x):
            y = net(x)
            return it.max(y, axis=1), it.max(y, axis=0)

        assert not any("random" in name for names in again(f, numbers(100, 64)) for name in names)

    def test_not_from_more_than_is_stored(self):
        def f(a, b, c):
            y = a + b * c
            return it.max(y, axis=1), it.max(y, axis=0)

        assert again(f, *[numbers(100, 64, seed=i) for i in range(3)]) == []

    def test_not_what_a_product_needs_in_memory(self):
        def f(x, w):
            y = x * 2.0 + 1.0
            return it.max(y, axis=1), y @ w

        assert again(f, numbers(100, 64), numbers(64, 8)) == []

    def test_by_a_product_behind_it(self, storing):
        def f(a, b, x, row):
            y = x * row - 1.0
            return it.max(y, axis=1), a @ b + y

        arrays = numbers(4, 32, 16), numbers(4, 16, 24, seed=1), numbers(4, 32, 24, seed=2)
        assert again(f, *arrays, numbers(24, seed=3)) == [("multiply", "subtract")]
        alike(storing, f, *arrays, numbers(24, seed=3))

    def test_not_along_a_batch_that_a_product_does_not_walk(self, storing):
        def f(a, b, x, each):
            y = x * each - 1.0
            return it.max(y, axis=1), a @ b + y

        arrays = numbers(4, 32, 16), numbers(4, 16, 24, seed=1), numbers(4, 32, 24, seed=2)
        assert again(f, *arrays, numbers(4, 1, 1, seed=3)) == []
        alike(storing, f, *arrays, numbers(4, 1, 1, seed=3))

    def test_not_where_a_product_has_no_one_stride_along_its_rows(self, storing):
        def f(a, w, x):
            y = it.permute_dims(x, (0, 2, 1)) * 2.0 + 1.0
            product = it.reshape(it.einsum("bij,jkl->bikl", a, w), (4, 8, 24))
            return it.max(y, axis=0), product + y

        arrays = numbers(4, 8, 16), numbers(16, 4, 6, seed=1), numbers(4, 24, 8, seed=2)
        assert again(f, *arrays) == []
        alike(storing, f, *arrays)

    def test_not_where_a_product_has_no_one_stride_along_its_columns(self, storing):
        def f(x, k, z, row):
            y = z * row + 1.0
            return it.max(y, axis=1), it.conv(x, k) + y

        arrays = numbers(2, 8, 10, 10), numbers(16, 8, 3, 3, seed=1), numbers(2, 16, 8, 8, seed=2)
        assert again(f, *arrays, numbers(8, seed=4)) == []
        assert again(lambda x, k, z: f(x, k, z, 2.0), *arrays) == [("multiply", "add")]
        alike(storing, f, *arrays, numbers(8, seed=4))

    def test_not_what_is_returned(self, storing):
        def f(x):
            y = x * 2.0 + 1.0
            return y, it.max(y, axis=0)

        x = numbers(100, 64)
        assert moved(f, x)[0] == storing(moved, f, x)[0]
        alike(storing, f, x)

    def test_dead_ends_are_dropped(self, storing):
        def f(x):
            y = x * 2.0 + 1.0
            it.depend(x, it.sum(y))
            return it.max(y, axis=1), it.max(y, axis=0)

        alike(storing, f, numbers(100, 64))


class TestRows:
    """Rows that follow from what belongs to a whole row, such as a mean."""

    def given(self):
        x, w, b = numbers(256, 64), numbers(64, seed=1), numbers(64, seed=2)
        return x, w, b, numbers(64, 64, seed=3)

    @staticmethod
    def step(x, w, b, m):
        def loss(x, w, b, m):
            return it.sum(it.layer_norm(x, 64, w, b) @ m * x)

        return value_and_grad(loss, argnums=(0, 1, 2, 3))(x, w, b, m)

    def test_their_numbers_are_stored_instead(self, storing):
        args = self.given()
        assert any(names[:2] == ("subtract", "multiply") for names in again(self.step, *args))
        (less, now), (more, before) = moved(self.step, *args), storing(moved, self.step, *args)
        assert less < more
        assert now <= before - args[0].shape[0] * args[0].shape[1] * 4 + 4096
        alike(storing, self.step, *args)

    def test_half_types(self, storing):
        alike(storing, self.step, *[x.astype("bfloat16") for x in self.given()])

    @pytest.mark.slow
    def test_layers_and_checkpoints_keep_less(self, storing):
        x, w, b, m = self.given()

        def block(x, w, b, m):
            return it.tanh(it.layer_norm(x, 64, w, b) @ m)

        def step(block):
            def loss(x, w, b, m):
                for _ in range(5):
                    x = block(x, w, b, m)
                return it.sum(x * x)

            return value_and_grad(loss, argnums=(1, 2, 3))

        plain, kept = step(block), step(checkpoint(block))
        args = x, w, b, m
        now, before = moved(plain, *args), storing(moved, plain, *args)
        assert now[0] < before[0] * 0.9
        assert now[1] < before[1] * 0.75
        assert moved(kept, *args)[1] < storing(moved, kept, *args)[1]
        assert moved(kept, *args)[1] < now[1]
        alike(storing, kept, *args)


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="references are not counted")
@pytest.mark.parametrize("first", [True, False])
def test_what_is_written_over_is_not_read_later(storing, first):
    """The new state is made before or behind the second reader of what follows from the old."""

    def run():
        cell, places = it.Cell(numbers(100, 64)), []

        @compile
        def step(x):
            w = cell.value
            y = it.maximum(w * 2.0 + 1.0, 0.25)
            rows = it.max(y, axis=1)
            if first:
                cell.value = y - it.expand_dims(rows, 1) * 0.5
            columns = it.max(y, axis=0)
            if not first:
                cell.value = w * 0.5 + columns
            return rows, columns

        results = []
        for _ in range(6):
            results += flat(step(numbers(1)))
            places.append(cell._value._handle.computed().address)
        return [*results, cell.value.numpy()], places

    (got, places), (want, before) = run(), storing(run)
    for a, b in zip(got, want, strict=True):
        assert same_bits(a, b)
    assert len(set(places[3:])) <= len(set(before[3:]))


def test_explain_shows_it(tmp_path):
    found = explain(both_ways, numbers(100, 64), runs=0)
    assert "(again: multiply add maximum)" in str(found)
    found.save(tmp_path / "plan.svg")
    text = (tmp_path / "plan.svg").read_text()
    assert text.count("dasharray") == 1
    assert "computes again" in text


DTYPES = ("float32", "bfloat16", "float64", "float16", "int32", "uint8")


def compare(storing, seed):
    dtype = DTYPES[seed % len(DTYPES)]
    gradient = "float" in dtype and seed % 4 < 2
    program = random_program(
        seed, dtype=dtype, gradient=gradient, calls=(3, 30) if gradient else (5, 60)
    )
    got = execute(program, "cpu", compile, times=3)
    want = storing(lambda: execute(program, "cpu", compile, times=3))
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b, err_msg=f"{seed} {dtype} {gradient}")


@pytest.mark.slow
@pytest.mark.parametrize("start", range(5000, 5120, 20))
def test_random_programs_have_the_same_bits(storing, start):
    for seed in range(start, start + 20):
        compare(storing, seed)


@pytest.mark.slow
def test_plans_move_and_keep_no_more(storing, monkeypatch):
    """Plans of random programs, with and without."""
    sequence, pairs = scheduler.Scheduler.sequence, []

    def both(self):
        other = scheduler.Scheduler(self._graph, self._legality, self._donors)
        sequences = storing(sequence, other), sequence(self)
        plans = [laid_out(o) for o in sequences]
        told = [steps_of(p, Buffers(p.graph, p.views), {}) for p in plans]
        moved = [sum(s.nbytes for s in steps) for steps in told]
        pairs.append([(n, p.arena) for n, p in zip(moved, plans, strict=True)])
        return sequences[1]

    monkeypatch.setattr(scheduler.Scheduler, "sequence", both)
    for seed in range(7000, 7040):
        program = random_program(seed, dtype="float32", gradient=seed % 3 == 0)
        execute(program, "cpu", compile, times=1)
    before, now = [np.array(p) for p in zip(*pairs, strict=True)]
    assert (now[:, 0] <= before[:, 0] * 1.02).all()
    assert (now[:, 1] <= before[:, 1] * 1.02 + 4 * ALIGNMENT).all()
    assert (now.sum(axis=0) < before.sum(axis=0)).all()


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(30_000, 32_000, 100))
def test_many_random_programs_have_the_same_bits(storing, start):
    for seed in range(start, start + 100):
        compare(storing, seed)
