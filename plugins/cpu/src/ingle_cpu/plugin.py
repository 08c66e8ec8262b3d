"""What Ingle asks this plugin; imports nothing heavy."""

import importlib.util
from typing import TYPE_CHECKING

from ingle.tensor import settings
from ingle.tensor.contract import Backend
from ingle.tensor.device import Device
from ingle.tensor.errors import BackendError
from ingle.tensor.hooks import hookimpl
from ingle.tensor.late_imports import late
from ingle.tensor.plugins import BackendDescription

if TYPE_CHECKING:
    from .backend import Cpu

_REPAIR = "compiles its kernels with llvmlite; try: pip install --force-reinstall llvmlite"


@hookimpl
def ingle_backends() -> dict[str, str]:
    return {"cpu": "ingle_cpu.plugin:description"}


def _count() -> int:
    if importlib.util.find_spec("llvmlite") is None:
        raise BackendError(f"llvmlite is not installed, and the device cpu {_REPAIR}")
    return 1


def _create(index: int) -> Backend:
    # Takes no time, unlike LLVM itself, which is loaded when the first kernel is compiled.
    try:
        late("llvmlite")
    except Exception as error:
        raise BackendError(f"llvmlite is broken ({error}), and the device cpu {_REPAIR}") from error
    cpu: Cpu = late("ingle_cpu.backend").Cpu(Device("cpu", index))
    # A wrong setting is an error here, before anything waits for a plan.
    fusion = late("ingle.fusion.device")
    fusion.check_settings()
    late("ingle_cpu.threads.pool").thread_count()
    settings.switch("INGLE_CPU_WINOGRAD", default=True)
    return cpu.fusion if fusion.is_fused() else cpu


description = BackendDescription(
    create=_create,
    count=_count,
    priority=5,
    summary="kernels compiled by LLVM, fused, on all cores",
)
