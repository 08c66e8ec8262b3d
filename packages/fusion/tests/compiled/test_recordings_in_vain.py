"""Recordings that never come again: said once, and objects that are no more are forgotten."""

from __future__ import annotations

import gc
import importlib
import math

import numpy as np
import pytest
from small_values import values

import ingle.nn as nn
import ingle.tensor as it
from ingle.fusion import PlanWarning, compile

compiling = importlib.import_module("ingle.fusion.compiled.compile")


class Options:
    """Something that changes at each call."""

    def __init__(self):
        self.names = []


class Plain:
    """Something that a function reads an attribute of."""

    def __init__(self, factor):
        self.factor = factor


def repeat(call, times):
    for i in range(times):
        call(i)


def test_a_function_that_records_at_each_call_says_so_once_and_goes_on_plainly():
    count = it.Cell(0)

    def f(x):
        count.value = count.value + 1
        return x * math.cos(count.value)  # here

    f = compile(f)
    with pytest.warns(PlanWarning, match=r"test_recordings_in_vain\.py:\d+, in f.*numbers") as told:
        got = [f(values(1)).item() for _ in range(100)]
    np.testing.assert_allclose(got, np.cos(np.arange(1, 101)), rtol=1e-5, atol=1e-7)
    assert len(told) == 1
    assert f.recordings < 30
    assert sum(len(kept.entries) for kept in f._kept.values()) < 30


def test_recordings_in_vain_of_one_object_alone_are_enough_to_go_on_plainly(monkeypatch):
    """Other objects of the kind, whose recordings come again, keep the count of all of them low."""
    monkeypatch.setattr(compiling, "MOST_IN_VAIN_ALIKE", 10**6)
    f = compile(lambda x, o: x * len(o.names))
    o = Options()

    def call(i):
        o.names.append(i)
        assert f(values(2), o).item() == 2 * len(o.names)

    with pytest.warns(PlanWarning, match="It runs without compile from here"):
        repeat(call, 60)
    assert f.recordings < 30


def test_what_was_recorded_in_vain_is_counted_for_as_many_kinds_as_are_kept(monkeypatch):
    monkeypatch.setattr(compiling, "MOST_RECORDED", 8)
    f = compile(lambda x: x + 1)
    for n in range(1, 40):
        assert f(values(*range(n))).shape == (n,)
        assert len(f._in_vain) <= 8 + 2
        assert len(f._kept) <= 8


def test_objects_may_live_longer_than_a_function_that_was_compiled_for_them():
    f, o = compile(lambda x, o: x * o.factor), Plain(3.0)
    assert f(values(2), o).item() == 6
    del f
    gc.collect()
    del o  # an error here would reach nobody: pytest makes a failure of the warning
    gc.collect()


def test_a_function_forgets_the_objects_that_are_no_more():
    f, alive = compile(lambda x, o: x * o.factor), Plain(3.0)
    for _ in range(3):
        assert f(values(2), alive).item() == 6
        assert f(values(2), Plain(5.0)).item() == 10
    gc.collect()
    assert len(f._kept) == 1
    assert f(values(2), alive).item() == 6


def test_what_is_said_names_modules():
    net = nn.Linear(1, 1)
    f = compile(lambda x: net(x))

    def call(i):
        net.step = object()
        f(values(i)[None])

    with pytest.warns(PlanWarning, match="attributes of modules differs"):
        repeat(call, 40)


def test_recordings_that_are_used_may_be_many():
    f = compile(lambda x, n: x[:n].sum())
    x = values(*[1.0] * 60)
    for _ in range(2):
        for n in range(1, 13):
            assert f(x, n).item() == n
    assert f.recordings == 24
    for n in range(1, 13):
        assert f(x, n).item() == n
    assert f.recordings == 24
