"""What holds for every test of the repository."""

from __future__ import annotations

import gc

import pytest

MARKERS = (
    "slow: takes seconds; `.ci/run slow` runs it on every change, apart from the rest",
    "nightly: too long for every change; `nox -f nox.py -s nightly` runs it",
)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Takes what collecting left, some million objects, out of the collector's sight.

    A full collection looked at all of them each time: a second, in every test that asks for one.
    """
    gc.collect()
    gc.freeze()
