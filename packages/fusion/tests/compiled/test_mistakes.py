"""What a function may not do while it is compiled: each error names the line."""

from __future__ import annotations

import pytest
from small_values import values

import ingle.tensor as it
from ingle.fusion import CompileError, LeakError, compile


@pytest.fixture(autouse=True)
def device(on_each_device):
    return on_each_device


def test_a_constant_that_changes_names_its_line():
    box = {"t": 0}

    @compile
    def f(x):
        box["t"] += 1
        return x * box["t"]  # here

    f(values(1))
    with pytest.raises(CompileError, match=r"test_mistakes\.py:\d+, in f: the number 1 was 2"):
        f(values(1))


def test_a_tensor_that_changes_from_outside_is_noticed():
    box = {"t": values(1)}

    @compile
    def f(x):
        return x * box["t"]

    f(values(1))
    box["t"] = values(2)
    with pytest.raises(CompileError, match="took tensors from elsewhere"):
        f(values(1))


def test_a_generator_made_at_each_call_is_named():
    f = compile(lambda x: x + it.random.normal((2,), generator=it.random.Generator(3)))
    f(it.ones(2))
    with pytest.raises(CompileError, match=r"another Generator .* outside of the function"):
        f(it.ones(2))


def test_another_cell_that_is_written_to_is_named():
    cells = [it.Cell(it.ones(2)), it.Cell(it.ones(2))]

    @compile
    def f(x):
        cells[0].value = x * 2.0
        cells.reverse()
        return x

    f(it.ones(2))
    with pytest.raises(CompileError, match=r"another Cell .* outside of the function"):
        f(it.ones(2))


def test_a_value_inside_is_an_error_with_the_line():
    @compile
    def f(x):
        if x.sum() > 0:  # here
            return x
        return -x

    with pytest.raises(CompileError, match=r"test_mistakes\.py:\d+, in f: .*where"):
        f(values(1, 2))


def test_shapes_that_depend_on_values_are_an_error_with_the_line():
    @compile
    def f(x):
        return it.nonzero(x)  # here

    with pytest.raises(CompileError, match=r"test_mistakes\.py:\d+, in f: nonzero"):
        f(values(1, 0))


def test_a_tensor_that_leaks_says_so():
    leaked = []

    @compile
    def f(x):
        leaked.append(x * 2.0)
        return x

    f(values(1))
    with pytest.raises(LeakError, match="promise of a compiled function"):
        leaked[0].numpy()
    with pytest.raises(LeakError):
        (leaked[0] + 1.0).numpy()


def test_an_exception_while_recording_changes_nothing():
    cell, fail = it.Cell(values(1)), [True]

    @compile
    def f(x):
        cell.value = x
        if fail[0]:
            raise KeyError("stop")
        return x

    with pytest.raises(KeyError):
        f(values(7))
    assert cell.value.item() == 1
    fail[0] = False
    f(values(7))
    assert cell.value.item() == 7
