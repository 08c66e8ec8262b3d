"""What Ingle asks this plugin; no driver is loaded until somebody asks for its devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingle.tensor.contract import Backend
from ingle.tensor.device import Device
from ingle.tensor.hooks import hookimpl
from ingle.tensor.late_imports import load
from ingle.tensor.plugins import BackendDescription

if TYPE_CHECKING:
    from .backend import CudaBackend


@hookimpl
def ingle_backends() -> dict[str, str]:
    return {"cuda": "ingle_cuda.plugin:description"}


def _count() -> int:
    from .driver.devices import count

    return count()


def _create(index: int) -> Backend:
    backend: type[CudaBackend] = load("ingle_cuda.backend").CudaBackend
    from .driver.devices import limits_of

    return backend(Device("cuda", index), limits_of(index)).composition()


description = BackendDescription(
    create=_create,
    count=_count,
    priority=-4,
    summary="generated CUDA C++, fused, cuBLAS and CUDA graphs, on NVIDIA GPUs",
    missing="no NVIDIA GPU was found: `nvidia-smi` lists those that the driver knows",
)
