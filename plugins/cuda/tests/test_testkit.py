"""The testkit on the first GPU."""

from __future__ import annotations

import pytest

from ingle.testkit import BackendContract

# Complex numbers and what only stores run on the host, which is announced once an operation.
pytestmark = pytest.mark.filterwarnings("ignore::ingle.tensor.eager.HostFallbackWarning")


@pytest.mark.slow
class TestFused(BackendContract):
    device = "cuda"
    tier = "smoke"
    own_memory = True
    memory_limit = 1 << 40


@pytest.mark.nightly
class TestFusedStandard(BackendContract):
    device = "cuda"
    tier = "standard"
