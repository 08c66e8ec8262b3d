"""What Ingle asks this plugin; imports nothing heavy."""

import importlib
import importlib.util

from ingle.tensor.contract import Backend
from ingle.tensor.device import Device
from ingle.tensor.errors import BackendError
from ingle.tensor.hooks import hookimpl
from ingle.tensor.plugins import BackendDescription

_REPAIR = "compiles its kernels with llvmlite; try: pip install --force-reinstall llvmlite"


@hookimpl
def ingle_backends() -> dict[str, str]:
    return {"cpu": "ingle_cpu.plugin:description"}


def _count() -> int:
    if importlib.util.find_spec("llvmlite") is None:
        raise BackendError(f"llvmlite is not installed, and the device cpu {_REPAIR}")
    return 1


def _create(index: int) -> Backend:
    from ingle.fusion.device import check_settings, is_fused

    from .backend import Cpu
    from .threads.pool import thread_count

    # Takes no time, unlike LLVM itself, which is loaded when the first kernel is compiled.
    try:
        importlib.import_module("llvmlite")
    except Exception as error:
        raise BackendError(f"llvmlite is broken ({error}), and the device cpu {_REPAIR}") from error
    cpu = Cpu(Device("cpu", index))
    # A wrong setting is an error here, before anything waits for a plan.
    check_settings()
    thread_count()
    return cpu.fusion if is_fused() else cpu


description = BackendDescription(
    create=_create,
    count=_count,
    priority=5,
    summary="kernels compiled by LLVM, fused, on all cores",
)
