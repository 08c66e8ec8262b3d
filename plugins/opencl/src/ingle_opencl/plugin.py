"""What Ingle asks this plugin; no driver is loaded until somebody asks for its devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingle.tensor.contract import Backend
from ingle.tensor.device import Device
from ingle.tensor.hooks import hookimpl
from ingle.tensor.late_imports import load
from ingle.tensor.plugins import BackendDescription

if TYPE_CHECKING:
    from .backend import OpenCLBackend


@hookimpl
def ingle_backends() -> dict[str, str]:
    return {"opencl": "ingle_opencl.plugin:description"}


def _count() -> int:
    from .devices import found

    return len(found())


def _create(index: int) -> Backend:
    backend: type[OpenCLBackend] = load("ingle_opencl.backend").OpenCLBackend
    from .devices import device_of

    return backend(Device("opencl", index), device_of(index)).composition()


description = BackendDescription(
    create=_create,
    count=_count,
    priority=-5,
    summary="generated OpenCL C, fused, on any device with an OpenCL driver",
    missing=(
        "no OpenCL device was found; install a driver: that of your GPU, or for processors PoCL "
        "(Debian: apt install pocl-opencl-icd ocl-icd-libopencl1)"
    ),
)
