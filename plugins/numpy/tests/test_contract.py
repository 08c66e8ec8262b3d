"""The testkit on the backend."""

import pytest

from ingle.testkit import BackendContract


@pytest.mark.sampled(4)
class TestNumpy(BackendContract):
    device = "numpy"
