"""The suite that `pytest --pyargs ingle.testkit --backend=NAME` runs."""

from __future__ import annotations

import pytest

# Not relative: pytest may import this file under a shorter name than the package has.
from ingle.testkit.contract import BackendContract


class TestBackend(BackendContract):
    """The contract, on the device named with `--backend`."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        type(self).device = metafunc.config.getoption("--backend")
        given = metafunc.config.getoption("--unsupported").split(",")
        type(self).unsupported = {name: "said on the command line" for name in given if name}
        super().pytest_generate_tests(metafunc)
