"""The testkit on a GPU played by the processor: the plugin's own kernels, plans and graphs."""

from __future__ import annotations

import shutil
from collections.abc import Generator

import pytest
from host_gpu import HostGpu, opened

from ingle.testkit import BackendContract

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++"),
    # Complex numbers and what only stores run on the host, which is announced once an operation.
    pytest.mark.filterwarnings("ignore::ingle.tensor.eager.HostFallbackWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def _played(tmp_path_factory: pytest.TempPathFactory) -> Generator[None, None, None]:
    with pytest.MonkeyPatch.context() as patch:
        opened(HostGpu(tmp_path_factory.mktemp("kernels")), "played", patch)
        yield


class TestPlayed(BackendContract):
    device = "played"
    tier = "smoke"
    own_memory = True
