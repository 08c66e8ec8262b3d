"""What the tests of examples share."""

import importlib.util
import sys

import pytest


@pytest.fixture(scope="module")
def script(request):
    """The `train.py` or `run.py` of the example whose tests ask for it, as a module."""
    folder = request.path.parents[1]
    (file,) = (f for f in (folder / "train.py", folder / "run.py") if f.exists())
    spec = importlib.util.spec_from_file_location(f"{folder.name}_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their annotations up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]
