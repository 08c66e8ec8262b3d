"""Tests that take `member` run once for each package and plugin."""

import pytest
from workspace import MEMBERS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "member" in metafunc.fixturenames:
        metafunc.parametrize("member", MEMBERS, ids=str)
