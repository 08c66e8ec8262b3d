"""The testkit on a device with memory of its own, which works later and fails later still."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from far_device import plugin

from ingle.testkit import BackendContract

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc"),
    # Decompositions and what only stores run on the host, which is announced once an operation.
    pytest.mark.filterwarnings("ignore::ingle.tensor.eager.HostFallbackWarning"),
]


@pytest.fixture(scope="class", autouse=True)
def _devices() -> Iterator[None]:
    with plugin.installed():
        yield


@pytest.mark.slow
@pytest.mark.sampled(48, slow=0)
class TestSmoke(BackendContract):
    """One call in so many, since gcc takes a while for each kernel."""

    device = "far"
    tier = "smoke"
    own_memory = True
    several = ("far", "far:1")
    memory_limit = plugin.NBYTES


@pytest.mark.nightly
class TestStandard(BackendContract):
    device = "far"
    tier = "standard"
    own_memory = True
    several = ("far", "far:1")
    memory_limit = plugin.NBYTES
