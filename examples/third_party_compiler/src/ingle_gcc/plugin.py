"""What Ingle asks this plugin; nothing heavy is imported until a tensor is made."""

import shutil

from ingle.tensor.contract import Backend
from ingle.tensor.device import Device
from ingle.tensor.hooks import hookimpl
from ingle.tensor.plugins import BackendDescription


@hookimpl
def ingle_backends() -> dict[str, str]:
    return {"gcc": "ingle_gcc.plugin:description"}


def _create(index: int) -> Backend:
    from .backend import GccBackend

    return GccBackend(Device("gcc", index)).composition()


description = BackendDescription(
    create=_create,
    count=lambda: 1 if shutil.which("gcc") else 0,
    priority=-10,
    summary="an example: generated C, compiled by gcc",
    missing="there is no gcc on the PATH; install it",
)
