"""The device that tests run on: without a GPU those that need none are left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nest_machine import Machine

from ingle.tensor.device import backend_of
from ingle.tensor.errors import BackendError

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of what only a GPU can do are in files that say so."""
    reason = missing()
    if reason:
        for item in items:
            if item.path.is_relative_to(HERE) and "without_a_gpu" not in item.path.name:
                item.add_marker(pytest.mark.skip(reason=reason))


def missing() -> str:
    """Why there is no device; empty if there is one."""
    try:
        from ingle_cuda.driver.devices import count

        return "" if count() else "there is no NVIDIA GPU"
    except (ImportError, BackendError) as error:
        return str(error)


@pytest.fixture(scope="session")
def backend() -> Any:
    """The backend of the first device, without fusion."""
    return backend_of("cuda").inner


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the kernels of a played GPU are compiled."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="session")
def machine(backend: Any) -> Machine:
    return Machine(backend)
