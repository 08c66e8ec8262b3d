"""Operations on few elements are called straight, where the backend below has calls ready."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion.runtime.at_once import READ
from ingle.fusion.runtime.ready_calls import ASKED, MOST, ReadyCalls, key_of
from ingle.tensor.contract import Scalar
from ingle.tensor.operation import OPERATIONS
from ingle_numpy.backend import NumpyBackend


class Prepared(NumpyBackend):
    """Has calls ready that take what `takes` says; notes what runs, and how."""

    def __init__(self, device):
        super().__init__(device)
        self.ran, self.called, self.asked = [], [], []
        self.takes = lambda inputs: True
        self.has = True

    def execute(self, op, inputs):
        self.ran.append(op.operation.name)
        return super().execute(op, inputs)

    def ready(self, op, inputs):
        self.asked.append(op.operation.name)
        return self.call if self.has else None

    def call(self, op, inputs):
        if not self.takes(inputs):
            return None
        self.called.append(op.operation.name)
        return super().execute(op, inputs)


@pytest.fixture
def below(fused):
    made = fused(Prepared)
    x = it.asarray([1.0, 2.0])
    for _ in range(READ):
        (x - x).numpy()
    for noted in (made.ran, made.called, made.asked):
        noted.clear()
    return made


def test_the_second_one_is_called_straight(below):
    x = it.asarray([1.0, 2.0])
    for _ in range(3):
        assert it.exp(x).numpy() == pytest.approx(np.exp([1.0, 2.0]))
    assert below.ran == ["exp"]
    assert below.called == ["exp", "exp"]


def test_shapes_dtypes_and_numbers_have_calls_of_their_own(below):
    x, scalar = it.asarray([1.0, 2.0]), it.asarray(3.0)
    operands = [x, scalar, 3.0, it.asarray([[1.0], [2.0]]), it.asarray([1.0, 2.0], dtype="float64")]
    for other in operands:
        for _ in range(2):
            np.testing.assert_array_equal((x + other).numpy(), x.numpy() + np.asarray(other))
    assert below.called.count("add") == len(operands)


def test_more_operations_than_a_few_are_recorded_where_one_of_them_has_no_call(below):
    """By itself it goes the long way, and all together have a plan."""

    def asked():
        y = x
        for n in range(3):
            y = it.tanh(y * 0.5 + float(n))
        return y

    x = it.asarray([1.0, 2.0])
    call = below.ready
    for has, recorded in (True, 0), (False, 4 * ASKED):
        below.ready = lambda op, inputs, has=has: (
            call(op, inputs) if has or op.operation.name != "tanh" else None
        )
        x = it.asarray([1.0, 2.0] if has else [1.0, 2.0, 3.0])
        for _ in range(READ + 3 * ASKED):
            asked().numpy()
        waited = 0
        for _ in range(5 * ASKED):
            y = asked()
            waited += y._handle.pending_in is not None
            expected = x.numpy()
            for n in range(3):
                expected = np.tanh(expected * np.float32(0.5) + np.float32(n))
            np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)
        assert waited >= recorded if recorded else not waited


def test_a_call_that_is_asked_for_again_and_stays_makes_no_other_ready_anew(below):
    x, y = it.asarray([1.0, 2.0]), it.asarray([3.0, 4.0])
    for _ in range(3):
        it.exp(x).numpy()
    refused, calls = y._handle.value, x.backend._at_once.calls
    below.takes = lambda inputs: inputs[0] is not refused
    version = calls.version
    for _ in range(3):
        it.exp(y).numpy()
    assert calls.version is version


def test_operands_that_a_call_does_not_take_go_the_long_way(below):
    x, y = it.asarray([1.0, 2.0]), it.asarray([3.0, 4.0])
    it.exp(x).numpy()
    refused = y._handle.value
    below.takes = lambda inputs: inputs[0] is not refused
    assert it.exp(y).numpy() == pytest.approx(np.exp([3.0, 4.0]))
    assert it.exp(x).numpy() == pytest.approx(np.exp([1.0, 2.0]))
    assert below.ran == ["exp", "exp"]
    assert below.called == ["exp"]


def test_what_has_no_call_is_not_asked_for_for_ever(below):
    below.has = False
    x = it.asarray([1.0, 2.0])
    for _ in range(2 * ASKED):
        it.exp(x).numpy()
    assert below.asked == ["exp"] * ASKED
    assert below.ran == ["exp"] * 2 * ASKED


def test_errors_of_a_call_come_when_the_value_is_read(below):
    x = it.asarray([1.0, 2.0])
    it.exp(x).numpy()

    def fail(inputs):
        raise RuntimeError("no power")

    below.takes = fail
    result = it.exp(x)
    assert result.numpy() == pytest.approx(np.exp([1.0, 2.0])), "it is tried again the long way"


def test_a_value_that_failed_is_no_operand(below):
    x = it.asarray([[1.0, 2.0], [2.0, 4.0]])
    it.exp(x).numpy()
    wrong = it.linalg.inv(x)
    for _ in range(2):
        with pytest.raises(it.errors.LinearAlgebraError):
            it.exp(wrong).numpy()


def test_few_calls_are_kept():
    calls = ReadyCalls(Prepared(it.Device("numpy")))
    op = OPERATIONS["negative"].op()
    for n in range(MOST + 2):
        calls._ask(op, (Scalar(1.0, it.float32),), (op, n))
    assert len(calls.known) <= MOST


@pytest.mark.parametrize("count", range(5))
def test_keys_tell_numbers_from_tensors_without_axes(count):
    op, x = OPERATIONS["concat"].op(axis=0), it.asarray(1.0)._handle
    number = Scalar(1.0, x.dtype)
    given = [x] * count
    keys = {key_of(op, given)}
    for place in range(count):
        keys.add(key_of(op, [*given[:place], number, *given[place + 1 :]]))
    assert len(keys) == count + 1
