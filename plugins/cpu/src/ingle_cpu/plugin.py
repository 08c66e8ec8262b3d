"""What Ingle asks this plugin; imports nothing heavy."""

import os

from ingle.tensor.contract import Backend
from ingle.tensor.device import Device
from ingle.tensor.hooks import hookimpl
from ingle.tensor.plugins import BackendDescription


@hookimpl
def ingle_backends() -> dict[str, str]:
    return {"cpu": "ingle_cpu.plugin:description"}


def _create(index: int) -> Backend:
    from .backend import Cpu

    cpu = Cpu(Device("cpu", index))
    return cpu if os.environ.get("INGLE_FUSION") == "0" else cpu.fusion


description = BackendDescription(
    create=_create, priority=-1, summary="kernels compiled by LLVM, fused, on all cores"
)
