"""Drivers that are missing, broken or too old, and GPUs that do not exist, played by stubs."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ingle.tensor import plugins
from ingle.tensor.device import Device
from ingle.tensor.errors import BackendError, IngleError, LostDeviceError, OutOfMemoryError
from ingle_cuda import plugin
from ingle_cuda.driver import devices, errors, libraries


class Driver:
    """As much of a driver as is asked before a GPU is opened.

    Args:
        status: what `cuInit` answers.
        version: the CUDA that it supports, as 13000 for 13.0.
        gpus: how many there are.
    """

    def __init__(self, status: int = 0, version: int = 13000, gpus: int = 1) -> None:
        self.status, self.version, self.gpus = status, version, gpus

    def cuInit(self, flags: int) -> int:  # noqa: N802 - the driver's name
        return self.status

    def cuGetErrorName(self, status: int, name: Any) -> int:  # noqa: N802
        name._obj.value = b"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" if status == 803 else None
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        version._obj.value = self.version
        return 0

    def cuDeviceGetCount(self, number: Any) -> int:  # noqa: N802
        number._obj.value = self.gpus
        return 0


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a driver, and a CuPy of a version of CUDA, in the place of what is installed."""

    def put(found: Driver | None, cuda: int | None = 13) -> None:
        monkeypatch.setattr(libraries, "driver", lambda: found)
        monkeypatch.setattr(devices, "driver", lambda: found)
        libraries.cupy.cache_clear()
        runtime = SimpleNamespace(runtimeGetVersion=lambda: 1000 * (cuda or 0))
        made = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)) if cuda else None
        monkeypatch.setitem(sys.modules, "cupy", made)

    yield put
    libraries.cupy.cache_clear()


def test_a_driver_that_finds_no_gpu_is_none() -> None:
    assert libraries.started(Driver(status=100)) is None  # type: ignore[arg-type]
    working = Driver()
    assert libraries.started(working) is working  # type: ignore[arg-type,comparison-overlap]


def test_a_driver_that_does_not_start_says_why() -> None:
    match = r"does not start \(error 803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH\).*start anew"
    with pytest.raises(BackendError, match=match):
        libraries.started(Driver(status=803))  # type: ignore[arg-type]
    with pytest.raises(BackendError, match=r"\(error 999, unknown\)"):
        libraries.started(Driver(status=999))  # type: ignore[arg-type]


def test_without_a_driver_there_are_no_devices(install: Any) -> None:
    install(None)
    assert devices.count() == 0
    with pytest.raises(BackendError, match="there is no device cuda:0; there are 0 GPUs"):
        devices.limits_of(0)


def test_a_driver_too_old_for_cupy_is_an_error_that_says_both_ways_out(install: Any) -> None:
    install(Driver(version=12040), cuda=13)
    match = (
        r"CuPy is for CUDA 13, but the driver supports at most 12\.4; either update the driver, "
        r'or: pip uninstall cupy-cuda13x && pip install "ingle-cuda\[cuda12\]"'
    )
    with pytest.raises(BackendError, match=match):
        devices.count()


def test_a_newer_driver_runs_an_older_cupy(install: Any) -> None:
    install(Driver(version=13010), cuda=12)
    assert devices.count() == 1


def test_without_cupy_the_extra_for_the_driver_is_named(install: Any) -> None:
    install(Driver(version=12060), cuda=None)
    with pytest.raises(BackendError, match=r'CUDA 12\.6: pip install "ingle-cuda\[cuda12\]"'):
        devices.count()


def test_a_number_that_no_gpu_has(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(Driver(gpus=2))
    monkeypatch.setitem(plugins._descriptions, "cuda", plugin.description)
    with pytest.raises(BackendError, match=r"no device 'cuda:7': it has 2 devices, numbered from"):
        plugins.load_backend(Device("cuda", 7))


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (errors.CudaError("CUDA_ERROR_ILLEGAL_ADDRESS"), LostDeviceError),
        (RuntimeError("cudaErrorIllegalAddress: an illegal memory access"), LostDeviceError),
        (RuntimeError("cudaErrorMemoryAllocation: out of memory"), OutOfMemoryError),
        (errors.CudaError("CUDA_ERROR_INVALID_VALUE"), BackendError),
    ],
)
def test_what_the_driver_reports_names_the_device(raised: Exception, kind: type) -> None:
    tried = errors.told(Device("cuda", 1), "it was tried")
    with pytest.raises(kind, match=r"cuda:1: .* while it was tried"), tried:
        raise raised


@pytest.mark.parametrize(("free", "kind"), [(1 << 20, OutOfMemoryError), (1 << 30, BackendError)])
def test_a_library_that_cannot_be_opened_on_a_full_gpu_is_want_of_memory(
    free: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = SimpleNamespace(memGetInfo=lambda: (free, 1 << 34))
    monkeypatch.setattr(
        errors, "cupy", lambda: SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    )
    tried = errors.told(Device("cuda", 1), "svd was computed")
    with pytest.raises(IngleError, match="while svd was computed") as raised, tried:
        raise RuntimeError("CUSOLVER_STATUS_INTERNAL_ERROR")
    assert type(raised.value) is kind


def test_the_extras_bring_the_libraries_of_their_cuda() -> None:
    """Each extra has a CuPy of its CUDA with the toolkit's libraries, and one of them is enough."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    for version in ("12", "13"):
        assert any(r.startswith(f"cupy-cuda{version}x[ctk]") for r in extras[f"cuda{version}"])
        assert f"[cuda{version}]" in libraries.INSTALL
