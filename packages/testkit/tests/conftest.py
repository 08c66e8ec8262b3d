"""What several tests of the kit share."""

import sys
import types

import pytest

from ingle.tensor.device import Device
from ingle.tensor.hooks import hookimpl
from ingle.tensor.plugins import BackendDescription, register, unregister
from ingle_numpy.backend import NumpyBackend


@pytest.fixture
def make_device(monkeypatch):
    """Makes a device of a name whose backend is NumPy's, or of a kind derived from it, with some
    kernels replaced."""
    made = []

    def make(name, kind=NumpyBackend, **kernels):
        class Backend(kind):
            pass

        def create(index):
            backend = Backend(Device(name, index))
            backend.name = name
            backend.kernels = {**NumpyBackend.kernels, **kernels}
            return backend

        module = types.ModuleType(f"{name}_backend")
        module.description = BackendDescription(create=create, priority=-9, summary=name)
        monkeypatch.setitem(sys.modules, module.__name__, module)

        class Plugin:
            @hookimpl
            def ingle_backends(self):
                return {name: f"{module.__name__}:description"}

        register(name, Plugin())
        made.append(name)
        return name

    yield make
    for name in made:
        unregister(name)


@pytest.fixture
def other_device(make_device):
    """A second device, where tensors cannot meet those of the first."""
    return make_device("elsewhere")
