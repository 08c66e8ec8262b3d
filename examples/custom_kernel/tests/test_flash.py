"""The kernels against attention in float64, alone, with gradients, fused and compiled."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.router import Router
from ingle.tensor import plugins
from ingle.tensor.contract import Aval
from ingle.tensor.device import backend_of
from ingle.tensor.errors import BackendError, ShapeError
from ingle.tensor.operation import OPERATIONS

sys.path.insert(0, str(Path(__file__).parents[1]))
from flash import FLASH, FLASH_KEYS, FLASH_QUERIES, flash_attention
from sources import BODIES, cuda_source, kernel_of

for _operation in (FLASH, FLASH_KEYS, FLASH_QUERIES):
    del OPERATIONS[_operation.name]  # other tests go over all of Ingle's
DEVICES = ["numpy", "cpu", "opencl", "gcc", "cuda"]

# The example of a plugin that compiles plain C.
sys.path.insert(0, str(Path(__file__).parents[2] / "third_party_compiler" / "src"))


@pytest.fixture(scope="module", autouse=True)
def gcc():
    if "gcc" in plugins.discover().backends:
        yield
    else:
        plugins.register("gcc", importlib.import_module("ingle_gcc.plugin"))
        yield
        plugins.unregister("gcc")


def present(device: str) -> str:
    if device not in plugins.discover().backends or not plugins.counted(device):
        pytest.skip(f"there is no device {device}")
    return device


def operands(heads=3, length=10, keys=7, size=8):
    rng = np.random.default_rng(length)
    return [rng.normal(size=(heads, n, size)) for n in (length, keys, keys)]


def reference(arrays, causal):
    """Values and gradients of a sum of sines, in float64 and by other operations."""
    q, k, v = (it.asarray(a, device="numpy").require_grad() for a in arrays)
    out = it.scaled_dot_product_attention(q, k, v, is_causal=causal)
    found = it.sum(it.sin(out)).backward()
    return [out.numpy(), *[found[x].numpy() for x in (q, k, v)]]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_values_and_gradients(device, causal):
    arrays = operands()
    wanted = reference(arrays, causal)

    def function(q, k, v):
        out = flash_attention(q * 1.0, k, v + 0.0, is_causal=causal)
        gradients = it.sum(it.sin(out)).backward()
        return [out, *[gradients[x] for x in (q, k, v)]]

    x = [it.asarray(a, device=present(device)).astype("float32").require_grad() for a in arrays]
    for run in (function, function, compile(function)):
        for found, expected in zip(run(*x), wanted, strict=True):
            np.testing.assert_allclose(found.numpy(), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("device", ["opencl", "gcc", "cuda"])
def test_the_kernels_are_what_runs(device):
    x = [it.asarray(a, device=present(device)).astype("float32") for a in operands()]
    assert backend_of(device).inner.has_custom_kernel(
        FLASH.op(causal=False), [Aval(t.shape, t.dtype) for t in x]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", list(BODIES))
def test_kernels_in_cuda_compile_without_a_gpu(name):
    compiler = pytest.importorskip("ingle_cuda.driver.compiler")
    try:
        code = compiler.machine_code(cuda_source(name), "sm_90")
    except BackendError as error:
        if "is not found" not in str(error):
            raise
        pytest.skip(str(error))
    assert code[:4] == b"\x7fELF"
    assert name.encode() in code


@pytest.mark.slow
def test_halves_of_a_model_on_two_devices():
    """Queries come from one member, attention runs on the other by the kernel."""
    arrays = operands()
    wanted = reference(arrays, False)
    with Router(present("cpu"), present("opencl")):
        where = ("router:0", "router:1", "router:1")
        x = [
            it.asarray(a, device=d).astype("float32").require_grad()
            for a, d in zip(arrays, where, strict=True)
        ]

        def function(q, k, v):
            out = flash_attention(q.to_device("router:1"), k, v)
            gradients = it.sum(it.sin(out)).backward()
            return [out, *[gradients[t] for t in (q, k, v)]]

        for run in (function, compile(function)):
            for found, expected in zip(run(*x), wanted, strict=True):
                np.testing.assert_allclose(found.numpy(), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.slow
def test_other_dtypes_run_the_body():
    x = [it.asarray(a, device=present("opencl")) for a in operands()]
    wanted = reference(operands(), False)[0]
    np.testing.assert_allclose(flash_attention(*x).numpy(), wanted, rtol=1e-12)
    assert kernel_of("opencl")(FLASH.op(causal=False), [Aval(t.shape, t.dtype) for t in x]) is None


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ShapeError, match=r"query must be \(heads, L, E\).*\(2, 3\)"):
        flash_attention(it.ones((2, 3)), it.ones((2, 3)), it.ones((2, 3)))
