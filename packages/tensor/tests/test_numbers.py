"""Numbers that a recording follows: the same values as Python's, and again for new inputs."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ingle.tensor as it
from ingle.tensor import numbers, tape
from ingle.tensor.followed import is_followed, leave, plain
from ingle.tensor.numbers import cos, exp, log, sqrt
from ingle.tensor.tape import Tape

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv,
          operator.mod, operator.pow]  # fmt: skip
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
UNARY = [operator.neg, operator.pos, abs, math.floor, math.ceil, math.trunc, round]

floats = st.floats(0.1, 10)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(BINARY + UNARY), floats, st.booleans()), max_size=8),
       floats, floats)  # fmt: skip
def test_arithmetic_is_repeated_for_other_inputs(steps, first, second):
    def compute(x):
        for function, other, swapped in steps:
            if function in UNARY:
                x = function(x)
            else:
                x = function(other, x) if swapped else function(x, other)
            if isinstance(plain(x), complex):
                raise ValueError("a number whose type changes is recorded anew")
        return x

    def outcome(x):
        try:
            value = compute(x)
        except (OverflowError, ZeroDivisionError, ValueError, TypeError):
            return "error"
        return value

    if "error" in (outcome(first), outcome(second)):
        return
    tape = Tape()
    x = tape.input(first)
    got = compute(x)
    assert plain(got) == outcome(first)
    assert type(plain(got)) is type(outcome(first))
    assert tape.program([got])(second) == (outcome(second),)


@given(st.sampled_from(BITS), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_bits(function, a, b, other):
    tape = Tape()
    left, right = function(tape.input(a), other), function(other, tape.input(b))
    assert (plain(left), plain(right)) == (function(a, other), function(other, b))
    run = tape.program([left, right, ~tape.input(1)])
    assert run(b, a, 7) == (function(b, other), function(other, a), ~7)


def test_it_is_a_number_to_everyone_else():
    tape = Tape()
    n, x = tape.input(3), tape.input(0.5)
    assert isinstance(n, int)
    assert isinstance(x, float)
    assert not isinstance(n, float)
    assert is_followed(n)
    assert not is_followed(3)
    assert is_followed(2.0**n)
    assert is_followed(1 - x)
    assert is_followed(divmod(n, 2)[1])


@pytest.mark.parametrize("leave", [
    int, float, str, repr, hash, operator.index, math.cos, range, lambda n: f"{n:5d}",
    lambda n: {n: 1}, lambda n: [0, 1, 2, 3, 4][n], lambda n: n == 3, lambda n: bool(n - 3),
])  # fmt: skip
def test_where_it_leaves_it_is_guarded(leave):
    tape = Tape()
    leave(tape.input(3))
    run = tape.program([])
    assert run(3) == ()
    assert run(4) is None


def test_comparisons_guard_their_outcome_only():
    tape = Tape()
    n = tape.input(3)
    assert n < 10
    assert not n > 5
    assert n != 7
    run = tape.program([n + 1])
    assert [run(k) for k in (3, 4, 6, 7, 11)] == [(4,), (5,), None, None, None]


def test_functions():
    tape = Tape()
    x = tape.input(2.0)
    run = tape.program([sqrt(x), cos(x), exp(x), log(x)])
    assert run(0.5) == (math.sqrt(0.5), math.cos(0.5), math.exp(0.5), math.log(0.5))
    assert sqrt(4.0) == 2.0


def test_what_is_not_finite_is_spelled():
    tape = Tape()
    x = tape.input(1.0)
    run = tape.program([x * math.inf, x - math.nan, math.inf])
    got = run(-1.0)
    assert got[0] == -math.inf
    assert math.isnan(got[1])
    assert got[2] == math.inf


def test_a_guard_tells_all_floats_apart():
    values = [0.0, -0.0, math.nan, 1.0, -1.0, math.inf, -math.inf, 5e-324]
    for recorded in values:
        tape = Tape()
        repr(tape.input(recorded))
        run = tape.program([])
        held = [repr(v) for v in values if run(v) is not None]
        assert held == [repr(recorded)]


@pytest.mark.parametrize(
    ("compute", "recorded", "given"),
    [
        (lambda x: 2**x, 2, -1),  # an int, then a float
        (lambda x: 2**x, -1, 2),
        (lambda x: x**0.5, 4.0, -4.0),  # a float, then a complex number
        (lambda x: x**0.5, -4.0, -9.0),
        (lambda x: (x * 1j).imag, 2.0, 3.0),
        (lambda x: pow(x, 5, 7), 3, 4),
        (lambda x: divmod(20, x)[1], 7, 6),
    ],
)
def test_results_are_python_s_or_recorded_anew(compute, recorded, given):
    tape = Tape()
    result = compute(tape.input(recorded))
    assert plain(result) == compute(recorded)
    constant = not isinstance(plain(result), (int, float))
    got = tape.program([0 if constant else result])(given)
    want = compute(given)
    assert got is None or (not constant and got == (want,) and type(got[0]) is type(want))


def test_what_raised_holds_for_these_numbers_alone():
    tape = Tape()
    x = tape.input(0.0)
    try:
        y = 1 / x
    except ZeroDivisionError:
        y = -1.0
    run = tape.program([y])
    assert run(0.0) == (-1.0,)
    assert run(2.0) is None
    assert run(-0.0) is None


SCALARS = [np.float64(2.5), np.float32(0.1), np.float16(0.1), np.int64(7), np.int16(200)]


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x * 3.0, lambda x: 3.0 * x, lambda x: x + x, lambda x: -x, abs,
        lambda x: np.float32(2) * x, lambda x: x / np.int64(3), np.cos, np.sqrt,
        lambda x: np.maximum(x, 1), lambda x: x.item() * 2, math.floor, round, lambda x: x**2,
        numbers.sin, lambda x: numbers.atan2(x, 2), lambda x: np.power(x, 2),
    ],
)  # fmt: skip
def test_numbers_of_numpy_stay_such(compute, scalar):
    """The same type and bits as NumPy, whose narrow types round."""
    tape = Tape()
    x = tape.input(type(scalar)(1))
    result = compute(x)
    want = compute(scalar)
    assert is_followed(result)
    assert type(plain(result)) is type(compute(type(scalar)(1)))
    (got,) = tape.program([result])(scalar)
    assert type(got) is type(want)
    assert got == want


def test_comparisons_with_numbers_of_numpy():
    tape = Tape()
    x = tape.input(3)
    assert np.float64(5) > x
    assert not x > np.float32(5)
    run = tape.program([])
    assert [run(k) for k in (1, 4, 6)] == [(), (), None]


def test_arrays_take_the_value():
    tape = Tape()
    x = tape.input(3.0)
    np.testing.assert_array_equal(np.arange(3) * x, [0, 3, 6])
    assert np.asarray(x).shape == ()
    assert tape.program([])(4.0) is None


MATHEMATICAL = sorted(set(tape.MATHEMATICAL))


@pytest.mark.parametrize("name", MATHEMATICAL)
def test_functions_are_those_of_math(name):
    function, ours = getattr(math, name), getattr(numbers, name)
    more = {"pow": (2.5,), "atan2": (0.3,), "hypot": (2.0, 3.0), "fmod": (0.3,),
            "remainder": (0.3,), "copysign": (-1.0,), "ldexp": (3,)}.get(name, ())  # fmt: skip
    first, second = (2.0, 1.5) if name == "acosh" else (0.25, 0.75)
    tape = Tape()
    got = ours(tape.input(first), *more)
    assert plain(got) == function(first, *more)
    assert tape.program([got])(second) == (function(second, *more),)
    assert ours(first, *more) == function(first, *more)


@pytest.mark.parametrize("kind", [float, np.float32, np.float64])
def test_the_sign_of_zero_is_part_of_a_number_that_leaves(kind):
    tape = Tape()
    leave(tape.input(kind(0.0)))
    assert [tape.program([])(kind(v)) for v in (0.0, -0.0, 1.0)] == [(), None, None]


def test_a_guard_stands_once():
    tape = Tape()
    x = tape.input(1.0)
    assert x < 2.0
    assert x < 2.0
    assert len(tape.lines) == 1


def test_what_else_numbers_have_is_asked_of_the_value():
    tape = Tape()
    single, plain_float = tape.input(np.float32(0.5)), tape.input(0.5)
    assert single.dtype == np.float32
    assert single.item() == 0.5
    assert plain_float.hex() == (0.5).hex()
    with pytest.raises(AttributeError, match="item"):
        _ = plain_float.item
    # Who asked for the dtype or the digits saw these values; `item` is followed.
    assert tape.program([])(np.float32(0.5), 0.5) == ()
    assert tape.program([])(np.float32(0.25), 0.5) is None
    assert tape.program([])(np.float32(0.5), 0.25) is None


def test_functions_that_ask_guard_the_answer():
    tape = Tape()
    assert numbers.isfinite(tape.input(1.0))
    run = tape.program([])
    assert [run(v) for v in (2.0, math.inf)] == [(), None]


def test_functions_on_the_host_are_called_again():
    calls = []

    @it.on_host
    def rate(step):
        calls.append(step)
        return [0.5, 0.25, 0.125][step] if step < 3 else math.cos(step)

    tape = Tape()
    run = tape.program([rate(tape.input(0))])
    assert [run(k) for k in range(5)] == [(0.5,), (0.25,), (0.125,), (math.cos(3),), (math.cos(4),)]
    assert calls == [0, 0, 1, 2, 3, 4]
    assert rate(1) == 0.25


def test_functions_on_the_host_keep_their_type_of_number():
    tape = Tape()
    run = tape.program([it.on_host(lambda n: n if n < 3 else 0.5)(tape.input(1))])
    assert [run(1), run(2), run(3)] == [(1,), (2,), None]


def test_the_guard_that_fails_is_found():
    tape = Tape(where=lambda: "here")
    x = tape.input(3)
    assert x < 10
    assert hash(x * 2) == 6
    guard = tape.failing([4])
    assert guard == "y0 == 6"
    assert tape.guarded[guard] == "here"
    assert tape.failing([3]) is None
