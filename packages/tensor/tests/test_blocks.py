"""Blocks against `contextlib`'s managers: what they set, take back, commit and refuse."""

import contextlib
import gc
import os
import subprocess
import sys
from contextvars import ContextVar

import pytest

import ingle.tensor as it
from ingle.tensor.blocks import block, call_holding, holding
from ingle.tensor.kept_contexts import idle, kept

DEPTH = ContextVar("DEPTH", default=0)


def test_a_variable_has_the_value_inside_and_what_it_had_behind():
    with holding(DEPTH, 1) as named:
        with holding(DEPTH, 2):
            assert (named, DEPTH.get()) == (1, 2)
        assert DEPTH.get() == 1
    assert DEPTH.get() == 0


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, StopIteration, GeneratorExit])
def test_what_the_block_raises_goes_on(error):
    with pytest.raises(error), holding(DEPTH, 1):
        raise error
    assert DEPTH.get() == 0
    with pytest.raises(error):
        call_holding(DEPTH, 1, next, iter(()) if error is StopIteration else raising(error))
    assert DEPTH.get() == 0


def raising(error):
    yield from ()
    raise error


def test_the_end_is_known_to_be_good_or_bad():
    ends = []

    @block
    def noted(name):
        yield name
        return lambda: ends.append(name)

    with noted("good"):
        pass
    with contextlib.suppress(ZeroDivisionError), noted("bad"):
        raise ZeroDivisionError
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        with noted("in a handler"):
            pass
        with contextlib.suppress(ZeroDivisionError), noted("raised again"):
            raise
    with contextlib.ExitStack() as stack:
        stack.enter_context(noted("of a stack"))
    with contextlib.suppress(ZeroDivisionError), contextlib.ExitStack() as stack:
        stack.enter_context(noted("of a bad stack"))
        raise ZeroDivisionError
    assert ends == ["good", "in a handler", "of a stack"]


def test_what_the_end_raises_is_raised_and_nothing_stays():
    @block
    def failing():
        with holding(DEPTH, 5):
            yield
        return lambda: 1 / 0

    with pytest.raises(ZeroDivisionError), failing():
        assert DEPTH.get() == 5
    assert DEPTH.get() == 0


@pytest.mark.parametrize("made", [lambda: holding(DEPTH, 1), it.transaction], ids=["one", "more"])
def test_a_block_is_entered_once(made):
    used = made()
    with used:
        pass
    with pytest.raises(RuntimeError, match="make a new one"), used:
        pass
    used = made()
    with pytest.raises(RuntimeError, match="make a new one"), used, used:
        pass
    assert DEPTH.get() == 0


def test_a_function_runs_in_a_block_of_its_own_each_time():
    @it.device("numpy")
    def where(again):
        """Told."""
        return (it.zeros(1).device.name, where(False)) if again else it.zeros(1).device.name

    before = it.zeros(1).device
    assert where(True) == ("numpy", "numpy")
    assert where(True) == ("numpy", "numpy")
    assert where.__doc__ == "Told."
    assert it.zeros(1).device == before


def test_a_transaction_of_a_generator_lands_whoever_goes_on_with_it():
    cell = it.Cell(0)

    def steps():
        with it.transaction():
            cell.value = 1
            yield

    running = steps()
    next(running)
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        assert sys.exc_info()[0] is ZeroDivisionError
        next(running, None)
    assert cell.value == 1


FINALIZERS = """
import gc, sys
from contextvars import ContextVar
import numpy as np
import ingle.tensor as it
from ingle.tensor.blocks import call_holding, holding

variables = [ContextVar(f"v{i}", default=None) for i in range(400)]
for variable in variables:
    variable.set([variable])

class Dying:
    def __init__(self):
        self.me = self

    def __del__(self):
        if alive:
            Dying()
            for variable in variables[:200]:
                with holding(variable, [0]):
                    pass
            with np.errstate(divide="raise"):
                pass

def inside(way, variable):
    if way == "held":
        with holding(variable, [1]):
            assert variable.get() == [1]
    elif way == "another's":
        with np.errstate(over="raise"):
            variable.reset(variable.set([1]))
    elif way == "called":
        assert call_holding(variable, [1], variable.get) == [1]
    else:
        with it.transaction():
            pass

alive = [True]
grown = []
gc.set_threshold(20, 2, 2)
Dying()
for turn in range(4000):
    grown.append([turn])  # the collector counts what stays
    variable = variables[turn % 400]
    inside(sys.argv[1], variable)
    assert variable.get() == [variable], variable
alive.clear()
print("well")
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["held", "called", "transaction", "another's"])
def test_a_finalizer_may_set_variables_while_one_is_set(way):
    """The collector runs in the middle of `ContextVar.set` up to Python 3.11."""
    command = [sys.executable, "-X", "faulthandler", "-c", FINALIZERS, way]
    memory = {**os.environ, "PYTHONMALLOC": "debug"}  # what is free holds no old content
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=memory)
    assert done.stdout == "well\n", done.stderr


def test_what_is_kept_for_a_collection_goes_behind_it():
    """Else the last contexts of a thread, and all that they hold, would live for ever."""
    variable = ContextVar("variable", default=0)
    gc.disable()
    try:
        gc.collect()
        assert idle
        with holding(variable, 1):
            pass
        assert not kept
    finally:
        gc.enable()
