"""What kernels touch: a plan whose kernels leave their operands is refused."""

from __future__ import annotations

import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.schedule.reach import Reach, Reaches
from ingle.fusion.schedule.schedule import laid_out
from ingle.fusion.schedule.scheduler import Scheduler


@pytest.fixture
def planned(monkeypatch):
    """Returns the sequence of kernels of a function."""
    found, sequence = [], Scheduler.sequence

    def noting(self):
        found.append(sequence(self))
        return found[-1]

    monkeypatch.setattr(Scheduler, "sequence", noting)
    monkeypatch.setenv("INGLE_CACHE", "0")

    def of(function, *args):
        with it.device("cpu"):
            compile(function)(*args)
        return found[-1]

    return of


def two_rows(x, y):
    return it.cumulative_sum(x, axis=1), it.cumulative_sum(y, axis=1)


@pytest.mark.parametrize("by", [-1, 1])
def test_a_kernel_that_leaves_its_operands_is_refused_though_one_like_it_does_not(planned, by):
    sequence = planned(two_rows, it.ones((3, 8)), it.ones((3, 8)))
    calls = list(sequence.calls)
    assert len(calls) == 2
    # The second kernel has its loops and strides in common with the first, as layers have.
    moved = [a._replace(offset=a.offset + by * a.output) for a in calls[1].arguments]
    calls[1] = calls[0]._replace(arguments=tuple(moved))
    laid_out(sequence)
    with pytest.raises(RuntimeError, match="outside of"):
        laid_out(sequence._replace(calls=calls))


def test_reach_is_the_lowest_and_the_highest_element(planned):
    sequence = planned(lambda x: it.flip(x, axis=1) + 1.0, it.ones((3, 8)))
    (call,) = sequence.calls
    read, written = Reaches().of(call, (False, False))
    assert call.arguments[0].offset + read.first >= 0
    assert (read.last - read.first, read.anywhere) == (23, False)
    assert written == Reach(0, 23, anywhere=False)
