"""Numbers that a recording follows: the same values as Python's, and again for new inputs."""

from __future__ import annotations

import math
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.tensor.numbers import Tape, cos, exp, is_followed, log, plain, sqrt

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv,
          operator.mod, operator.pow]  # fmt: skip
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
UNARY = [operator.neg, operator.pos, abs, math.floor, math.ceil, math.trunc, round]

floats = st.floats(0.1, 10)


@given(st.lists(st.tuples(st.sampled_from(BINARY + UNARY), floats, st.booleans()), max_size=8),
       floats, floats)  # fmt: skip
def test_arithmetic_is_repeated_for_other_inputs(steps, first, second):
    def compute(x):
        for function, other, swapped in steps:
            if function in UNARY:
                x = function(x)
            else:
                x = function(other, x) if swapped else function(x, other)
        return x

    def outcome(x):
        try:
            value = compute(x)
        except (OverflowError, ZeroDivisionError, ValueError, TypeError):
            return "error"
        return value if not isinstance(value, complex) else "error"

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
