"""What Ingle asks this plugin; nothing heavy is imported until a tensor is made."""

from ingle.tensor.contract import Backend
from ingle.tensor.device import Device
from ingle.tensor.hooks import hookimpl
from ingle.tensor.plugins import BackendDescription


@hookimpl
def ingle_backends() -> dict[str, str]:
    return {"toy": "ingle_toy.plugin:description"}


def _create(index: int) -> Backend:
    from .backend import ToyBackend

    return ToyBackend(Device("toy", index))


description = BackendDescription(
    create=_create, priority=-10, summary="an example: the core kernels, the rest composed"
)
