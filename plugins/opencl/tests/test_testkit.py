"""The testkit on the first OpenCL device; PoCL makes a processor one."""

from __future__ import annotations

import pytest

from ingle.testkit import BackendContract

# Complex numbers and what only stores run on the host, which is announced once an operation.
pytestmark = pytest.mark.filterwarnings("ignore::ingle.tensor.eager.HostFallbackWarning")


@pytest.mark.slow
@pytest.mark.sampled(24, slow=0)
class TestFused(BackendContract):
    """One call in so many, since PoCL takes a second to compile: `test_bits.py` checks the code."""

    device = "opencl"
    tier = "smoke"


@pytest.mark.nightly
@pytest.mark.usefixtures("wide_backend")
class TestWide(BackendContract):
    """The kernels of GPUs."""

    device = "opencl_wide"
    tier = "smoke"


@pytest.mark.nightly
@pytest.mark.usefixtures("wide_backend")
class TestWideStandard(BackendContract):
    device = "opencl_wide"
    tier = "standard"


@pytest.mark.nightly
class TestFusedStandard(BackendContract):
    device = "opencl"
    tier = "standard"


@pytest.mark.nightly
class TestFusedFull(BackendContract):
    device = "opencl"
    tier = "full"
