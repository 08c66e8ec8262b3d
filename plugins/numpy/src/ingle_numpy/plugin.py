"""What Ingle asks this plugin; imports nothing heavy."""

from ingle.tensor.contract import Backend
from ingle.tensor.device import Device
from ingle.tensor.hooks import hookimpl
from ingle.tensor.plugins import BackendDescription


@hookimpl
def ingle_backends() -> dict[str, str]:
    return {"numpy": "ingle_numpy.plugin:description"}


def _create(index: int) -> Backend:
    from .backend import NumpyBackend

    return NumpyBackend(Device("numpy", index))


description = BackendDescription(
    create=_create, priority=0, summary="the reference: eager, on NumPy, plain and obviously right"
)
