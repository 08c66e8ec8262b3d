"""Whatever is computed with sizes and decided by them holds for others exactly if it says so."""

from __future__ import annotations

import math
import random

import pytest

from ingle.fusion.symbolic.inquiry import Inquiry, has_sizes, settled
from ingle.fusion.symbolic.sizes import Size, written
from ingle.tensor.static_values import largest, smallest

NUMBERS = (-3, -1, 0, 1, 2, 3, 7, 32, 64)


class Decisions:
    """A random program of numbers: what it computes depends on what it has decided."""

    def __init__(self, seed, values):
        self.random = random.Random(seed)
        self.known = [*values, *NUMBERS]
        self.answers = []

    def pick(self):
        return self.known[int(self.random.random() ** 2 * len(self.known)) if self.known else 0]

    def ask(self, answer):
        self.answers.append(bool(answer))
        return self.answers[-1]

    def step(self):
        a, b, kind = self.pick(), self.pick(), self.random.randrange(18)
        if kind < 3:
            self.known.insert(0, a + b)
        elif kind < 5:
            self.known.insert(0, a - b)
        elif kind < 8:
            self.known.insert(0, a * b)
        elif kind == 8 and self.ask(b != 0):
            self.known.insert(0, a // b)
        elif kind == 9 and self.ask(b != 0):
            self.known.insert(0, a % b)
        elif kind == 10:
            self.known.insert(0, a + 1 if self.ask(a < b) else b)
        elif kind == 11:
            self.known.insert(0, a if self.ask(a == b) else b - 1)
        elif kind == 12:
            self.known.insert(0, max(a, b) - min(a, 5))
        elif kind == 13:
            self.known.insert(0, -a if self.ask(a >= b) else abs(b))
        elif kind == 14:
            self.known.insert(0, math.prod((a, b, 2)) if self.ask(a) else 4)
        elif kind == 15:
            self.known.insert(0, b if self.ask(a <= b) else (a > 3) + a)
        elif kind == 16:
            self.known.insert(0, largest(a, b, 3) - 1)
        else:
            self.known.insert(0, smallest(b, a + 2) + a)
        self.random.shuffle(self.known)

    def run(self, steps):
        for _ in range(steps):
            self.step()
        return tuple(self.known)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(150))
def test_others_get_what_they_would_have_got(seed):
    draw = random.Random(seed)
    count, steps = draw.randint(1, 3), draw.randint(1, 14)
    example = [draw.randint(1, 70) for _ in range(count)]
    inquiry = Inquiry(example)
    program = Decisions(seed, inquiry.symbols)
    function = inquiry.function(program.run(steps))
    own = Decisions(seed, example)
    assert function(*example) == own.run(steps)
    assert own.answers == program.answers
    same = 0
    for _ in range(60):
        values = [draw.choice([n, draw.randint(1, 70), draw.randint(1, 9)]) for n in example]
        other = Decisions(seed, values)
        want = other.run(steps)
        got = function(*values)
        if got is not None:
            assert (other.answers, got) == (program.answers, want), values
            same += 1
    assert same or steps > 1


def symbol(example, *others):
    return Inquiry([example, *others]).symbols


def test_a_polynomial_has_one_form():
    a, b = symbol(5, 7)
    assert (a + b) * (a - b) == a * a - b * b
    assert (a * 6 + b * a * 2) // 2 == b * a + 3 * a
    assert (a * b * 512) // b == a * 512
    assert (a - a, a * 0, (a + 3) - a) == (0, 0, 3)
    assert written((4 * a * b - b + 7).terms) == "a0*a1*4 - a1 + 7"


def test_the_larger_one_of_two_is_no_question():
    a, b = symbol(5, 7)
    one, other = largest(a * 3, b, 2), smallest(b, a, 9)
    assert (one.example, other.example) == (15, 5)
    assert largest(b, a * 3, 2).terms == one.terms
    function = a.inquiry.function((one, other, largest(1, a * 4), smallest(a, a + 1)))
    assert function(5, 7) == (15, 5, 20, 5)
    assert function(1, 70) == (70, 1, 4, 1)
    assert function(30, 12) == (90, 9, 120, 30)
    assert (largest(3, 8, 5), smallest(3, 8, 5), largest(4)) == (8, 3, 4)


def test_what_holds_for_all_is_no_condition():
    a, b = symbol(5, 7)
    assert (a * b > 0, a + b != 0, a * 2 == a + a, a < a + 1) == (True, True, True, True)
    function = a.inquiry.function((a, b))
    assert function(1, 1000) == (1, 1000)
    assert function(0, 1) is None


def test_comparisons_narrow_a_range():
    (a,) = symbol(100)
    assert a * 4 >= 256
    assert 2 * a < 257
    assert a != 77
    function = a.inquiry.function(a * 3)
    allowed = [n for n in range(300) if function(n) is not None]
    assert allowed == [n for n in range(64, 129) if n != 77]


@pytest.mark.parametrize("ask", [range, int, hex, [0, 1, 2, 3].__getitem__, float])
def test_a_number_that_somebody_needs_is_settled(ask):
    a, b = symbol(3, 4)
    assert ask(a) == ask(3) or list(ask(a)) == list(ask(3))
    function = a.inquiry.function(b)
    assert function(3, 9) == 9
    assert function(2, 9) is None


def test_in_a_dictionary_what_is_the_same_is_found():
    a, b = symbol(3, 4)
    known = {(a, 1): "a", (b, 1): "b"}
    assert known[a, 1] == "a"
    assert known[b - a + a, 1] == "b"
    assert known[3, 1] == "a"  # which holds for the example only
    function = a.inquiry.function(a)
    assert function(3, 9) == 3
    assert function(4, 9) is None


def test_sizes_of_different_inquiries_do_not_meet():
    (a,), (b,) = symbol(3), symbol(3)
    assert a != b
    assert len({a, b}) == 2
    with pytest.raises(TypeError, match="unsupported operand"):
        a + b


def test_zero_divides_nothing():
    (a,) = symbol(3)
    for divide in (lambda: 5 // (a - 3), lambda: a // (a - 3), lambda: a % 0):
        with pytest.raises(ZeroDivisionError):
            divide()


def test_tuples_are_settled_whole():
    a, b = symbol(3, 4)
    assert has_sizes((1, ("x", (a,))))
    assert not has_sizes((1, ("x", (None,))))
    assert settled((a, ("x", a + 1), None)) == (3, ("x", 4), None)
    function = b.inquiry.function((b, None, "text", 0.5, (True,)))
    assert function(3, 5) == (5, None, "text", 0.5, (True,))
    assert function(2, 5) is None


def test_a_size_shows_its_polynomial():
    (a,) = symbol(3)
    assert repr(a * a + 1) == "Size(a0*a0 + 1 = 10)"
    assert isinstance(a, Size)
