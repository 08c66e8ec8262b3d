"""Kernels in CUDA C++ give the bits of those of LLVM: the renderers' own tests, on the device."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

import ingle.tensor as it
from ingle.fusion.kernel.functions import short
from ingle.fusion.render.c.cuda import CUDA

pytestmark = pytest.mark.slow

RENDER = Path(__file__).parents[3] / "packages" / "fusion" / "tests" / "render"
_spec = importlib.util.spec_from_file_location("test_c_for_cuda", RENDER / "test_c.py")
assert _spec is not None
assert _spec.loader is not None
c: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(c)

c.LEFT_TO_THE_MACHINE |= {(name, "float32") for name in {*CUDA.functions, *short.EXPANSIONS}}
llvm = c.llvm
globals().update({
    name: function
    for name, function in vars(c).items()
    # Functions of hundreds of kernels, and what they say of C alone, stay there.
    if name.startswith("test_") and "Compiler" not in inspect.getsource(function)
    and name not in ("test_what_c_cannot_say_is_an_error",)
})  # fmt: skip


@pytest.mark.parametrize(
    ("function", "reference", "ulps"), [(it.exp, np.exp, 2.0), (it.erf, special.erf, 2.5)]
)
def test_functions_of_the_machine_are_exact(function: Any, reference: Any, ulps: float) -> None:
    """What kernels leave to the machine: where numbers are normal, and at the ends."""
    rng = np.random.default_rng(0)
    drawn = [rng.uniform(-87, 88.7, 100_000), rng.normal(size=100_000), 2.0 ** -np.arange(40)]
    x = np.concatenate(drawn).astype(np.float32)
    found = function(it.asarray(x, device="cuda")).numpy()
    wanted = reference(x.astype(np.float64))
    assert np.all(np.abs(found - wanted) <= ulps * np.spacing(np.abs(wanted).astype(np.float32)))
    ends = np.array([-np.inf, -200, 0, -0.0, 200, np.inf, np.nan], np.float32)
    found = function(it.asarray(ends, device="cuda")).numpy()
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, reference(ends))
