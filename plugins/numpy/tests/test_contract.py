"""The testkit on the backend."""

import pytest

from ingle.testkit import BackendContract


@pytest.mark.sampled(6)
class TestNumpy(BackendContract):
    device = "numpy"
