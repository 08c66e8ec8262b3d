"""Kernels in OpenCL C give the bits of those of LLVM: the renderers' own tests, on the device."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.sampled(4, slow=0)]

RENDER = Path(__file__).parents[3] / "packages" / "fusion" / "tests" / "render"
_spec = importlib.util.spec_from_file_location("test_c_for_opencl", RENDER / "test_c.py")
assert _spec is not None
assert _spec.loader is not None
c: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(c)

llvm = c.llvm
globals().update({
    name: function
    for name, function in vars(c).items()
    # Functions of hundreds of kernels, and what they say of C alone, stay there.
    if name.startswith("test_") and "Compiler" not in inspect.getsource(function)
    and name not in ("test_what_c_cannot_say_is_an_error",)
})  # fmt: skip
