"""How often threads take turns, and who has the last word."""

from __future__ import annotations

import os
import sys

import pytest

from ingle.fusion.support.switching import OFTEN, Switching, switching


@pytest.fixture(autouse=True)
def before():
    """The interval of this process, which it has again at the end."""
    interval = sys.getswitchinterval()
    yield interval
    sys.setswitchinterval(interval)


def test_turns_are_often_until_the_last_one_ends(before):
    turns = Switching()
    turns.begin()
    turns.begin()
    assert sys.getswitchinterval() == pytest.approx(OFTEN, rel=0.1)
    turns.end()
    assert sys.getswitchinterval() == pytest.approx(OFTEN, rel=0.1)
    turns.end()
    assert sys.getswitchinterval() == before


def test_who_sets_the_interval_meanwhile_has_the_last_word():
    turns = Switching()
    turns.begin()
    sys.setswitchinterval(0.5)
    turns.end()
    assert sys.getswitchinterval() == 0.5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_takes_turns_as_before(before):
    switching.begin()
    try:
        child = os.fork()
        if not child:
            os._exit(0 if sys.getswitchinterval() == before else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        switching.end()
