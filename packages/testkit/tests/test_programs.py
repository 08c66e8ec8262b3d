"""Random programs: drawn alike each time, judged as strictly as is sound, printed as code."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.testkit.error_bounds import Wrong, check, errors, judge, shrink
from ingle.testkit.program_generator import random_program
from ingle.testkit.programs import Call, Input, Program, execute


def chain(*calls, outputs=None, inputs=((4, 5),), dtype="float32"):
    """A program of calls that each take the value before."""
    made = [Call(text, function, (i,)) for i, (text, function) in enumerate(calls, len(inputs) - 1)]
    count = len(inputs) + len(calls)
    given = tuple([Input(shape, dtype, (1, i)) for i, shape in enumerate(inputs)])
    return Program(given, (), tuple(made), outputs or (count - 1,))


EXP = ("it.exp({0})", lambda world, a: it.exp(a))
SUM = ("it.sum({0}, axis=0)", lambda world, a: it.sum(a, axis=0))
TWICE = ("{0} * 2.0", lambda world, a: a * 2.0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("seed", range(8))
def test_plain_execution_is_right(seed, dtype):
    gradient = seed % 4 == 3 and "float" in dtype
    program = random_program(
        seed, dtype=dtype, gradient=gradient, calls=(5, 25), pieces=seed % 2 == 1
    )
    assert judge(program, execute(program, "numpy", times=2), times=2) in ([], None)


def test_a_seed_is_a_program():
    assert str(random_program(5)) == str(random_program(5)) != str(random_program(6))
    a, b = (execute(random_program(5), "numpy") for _ in range(2))
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_printed_runs(seed):
    program = random_program(seed, calls=(5, 40), pieces=seed % 2 == 1)
    with it.device("numpy"):
        names = {"it": it, "np": np}
        exec(str(program), names)
        inputs = [names[f"v{i}"] for i in range(len(program.inputs))]
        got = names["program"](0.5, *inputs)
    for one, other in zip(got, execute(program, "numpy"), strict=False):
        np.testing.assert_array_equal(one.numpy(), other)


@pytest.mark.slow
def test_programs_have_something_of_everything():
    text = "\n".join(str(random_program(seed)) for seed in range(150))
    for part in (
        "matmul", "softmax", "dropout", "c0.value", "count.value", "number", "broadcast_to",
        "permute_dims", "reshape", "flip", "take", "concat", "where", "max(", "var(", "arange",
    ):  # fmt: skip
        assert part in text, part
    assert any(len(random_program(seed).outputs) > 2 for seed in range(20))
    text = "\n".join(str(random_program(seed, pieces=True)) for seed in range(30))
    for part in (
        "stack", "pad", "roll", "slice_update", "it.slice(", "scatter_add", "scatter_set",
        "it.asarray(", "+ count.value %",
    ):  # fmt: skip
        assert part in text, part


def test_errors_count_units_in_the_last_place():
    want = np.array([1.0, 2.0, 0.0])
    got = np.array([1.0, 2.0 + 2**-21, 0.0], np.float32)
    assert errors([got], [want], "float32") == [2.0]
    assert errors([got], [want[:2]], "float32") == [np.inf]
    assert errors([np.array([np.nan])], [np.array([1.0])], "float32") == [np.inf]
    assert errors([np.array([np.nan, np.inf])], [np.array([np.nan, np.inf])], "float32") == [0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_three_units_off_is_wrong_where_plain_execution_is_right(dtype):
    program = chain(TWICE, dtype=dtype)
    right = execute(program, "numpy")
    assert judge(program, right) == []
    units = it.finfo(dtype).eps
    off = [(a.astype(np.float64) * (1 + 6 * units)).astype(a.dtype) for a in right]
    assert judge(program, off) != []


def test_integers_are_equal_or_wrong():
    program = chain(TWICE_INTEGER, dtype="int32")
    right = execute(program, "numpy")
    assert judge(program, right) == []
    off = right[0].copy()
    off[0, 0] += 1
    assert judge(program, [off]) == [Wrong(0, 1.0, 0.0)]


TWICE_INTEGER = ("{0} * 2", lambda world, a: a * 2)


def broken_sum(f):
    """A way of executing whose sums over many elements lose some."""

    def run(*args):
        return [x * (1 + 1e-4) if x.ndim == 1 else x for x in f(*args)]

    return run


def test_shrinking_leaves_what_fails():
    program = chain(EXP, TWICE, SUM, TWICE, EXP)
    least = shrink(program, lambda p: any("sum" in c.text for c in p.calls))
    assert [c.text for c in least.calls] == [SUM[0]]


@pytest.mark.slow
def test_a_failure_shows_the_least_program():
    program = chain(EXP, TWICE, SUM, TWICE, outputs=(1, 4))
    with pytest.raises(AssertionError) as caught:
        check(program, "numpy", broken_sum)
    text = str(caught.value)
    assert "Wrong(place=0" in text
    assert "it.exp" not in text
    assert "def program(number, v0):" in text


def test_a_failure_that_raises_is_shown_too():
    def way(f):
        def run(*args):
            raise KeyError("lost")

        return run

    with pytest.raises(AssertionError, match=r"KeyError|lost") as caught:
        check(chain(EXP, SUM), "numpy", way)
    assert isinstance(caught.value.__cause__, KeyError)


def test_what_has_no_truth_is_not_judged():
    program = chain(("it.log({0})", lambda world, a: it.log(a)))
    assert judge(program, execute(program, "numpy")) is None
