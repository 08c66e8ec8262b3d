"""Work that can wait takes a part of the time at most."""

from __future__ import annotations

import pytest

from ingle.fusion.support import share_of_time
from ingle.fusion.support.share_of_time import ShareOfTime


@pytest.fixture
def clock(monkeypatch):
    """What the time is; tests set it."""
    now = [1000.0]
    monkeypatch.setattr(share_of_time.time, "perf_counter", lambda: now[0])
    return now


def test_the_pause_is_in_proportion_to_the_work(clock):
    share = ShareOfTime(0.25)
    assert share.is_due
    with share.taken():
        clock[0] += 2.0
    assert not share.is_due
    clock[0] += 5.9
    assert not share.is_due
    clock[0] += 0.2
    assert share.is_due


def test_work_that_fails_has_taken_time_too(clock):
    share = ShareOfTime(0.5)

    def work():
        clock[0] += 1.0
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), share.taken():
        work()
    assert not share.is_due


def test_the_whole_time_is_no_limit(clock):
    share = ShareOfTime(1.0)
    with share.taken():
        clock[0] += 1.0
        assert share.is_due
    assert share.is_due
