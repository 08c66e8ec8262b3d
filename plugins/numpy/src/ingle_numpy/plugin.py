"""What Ingle asks this plugin; imports nothing heavy."""

from typing import TYPE_CHECKING

from ingle.tensor.contract import Backend
from ingle.tensor.device import Device
from ingle.tensor.hooks import hookimpl
from ingle.tensor.late_imports import load
from ingle.tensor.plugins import BackendDescription

if TYPE_CHECKING:
    from .backend import NumpyBackend


@hookimpl
def ingle_backends() -> dict[str, str]:
    return {"numpy": "ingle_numpy.plugin:description"}


def _create(index: int) -> Backend:
    backend: type[NumpyBackend] = load("ingle_numpy.backend").NumpyBackend
    return backend(Device("numpy", index))


description = BackendDescription(
    create=_create, priority=0, summary="the reference: eager, on NumPy, plain and obviously right"
)
