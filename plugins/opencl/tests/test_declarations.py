"""Generated kernels are built without the driver's header, and mean what they mean with it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion.device.opencl import PREAMBLE
from ingle.tensor.errors import BackendError

BY_HAND = PREAMBLE + "__kernel void by_hand(__global {kind} *x) {{ *x = {value}; }}"


def stored_by(backend: Any, kernel: Any, dtype: str) -> Any:
    memory = backend.allocate(8)
    backend.launch(kernel, [memory.address], [], 0, 1)
    found = np.empty(1, dtype)
    backend.read(memory.address, found)
    return found[0]


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
def test_kernels_are_built_once(request: Any, wide: bool, dtype: str) -> None:
    """What is declared here is all that they call."""
    backend = request.getfixturevalue("wide_backend" if wide else "backend")
    before = backend.programs.rebuilt
    x = it.asarray(np.arange(40).reshape(2, 20).astype(dtype), device=str(backend.device))
    np.testing.assert_array_equal(it.floor(x).sum(axis=1).numpy(), [190, 590])
    assert it.sqrt(it.abs(x.astype("float32") - 1))[0, 10].item() == 3
    if dtype.startswith("float"):
        assert it.exp(x)[0, 0].item() == 1
    assert backend.programs.rebuilt == before


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
def test_products_are_built_once(request: Any, capfd: Any, wide: bool, dtype: str) -> None:
    """Tiles of products, and windows and queries of attention, call what is declared as well; else
    the compiler writes errors to a user's terminal."""
    backend = request.getfixturevalue("wide_backend" if wide else "backend")
    before = backend.programs.rebuilt
    device, numbers = str(backend.device), np.arange(2 * 3 * 8 * 8).reshape(2, 3, 8, 8) % 5
    x = it.asarray(numbers.astype(dtype), device=device)
    np.testing.assert_array_equal((x @ x).numpy(), numbers @ numbers)
    ones = it.ones((4, 3, 3, 3), dtype=dtype, device=device)
    want = numbers[:, :, :3, :3].sum((1, 2, 3))
    np.testing.assert_array_equal(it.conv2d(x, ones)[:, 0, 0, 0].numpy(), want)
    mixed = it.scaled_dot_product_attention(x, x, it.ones_like(x)).numpy()
    np.testing.assert_allclose(mixed, np.ones_like(mixed), rtol=2e-3)
    assert backend.programs.rebuilt == before
    assert "error" not in capfd.readouterr().err


def test_what_is_not_declared_takes_the_header(backend: Any) -> None:
    """A kernel by hand that begins as generated ones do may call all of OpenCL C."""
    before = backend.programs.rebuilt
    kernel = backend.compile_source(BY_HAND.format(kind="int", value="popcount(255)"), "by_hand")
    assert stored_by(backend, kernel, "int32") == 8
    assert backend.programs.rebuilt in (before, before + 1)  # not on drivers other than PoCL


@pytest.mark.parametrize(
    ("kind", "value", "want"),
    [
        ("float", "min(1.5f, 2.5f)", 1.5),
        ("double", "sqrt(2.0)", 2**0.5),
        ("uchar", "max((uchar)200, (uchar)3)", 200),
    ],
)
def test_no_call_takes_another_type(backend: Any, kind: str, value: str, want: float) -> None:
    """With one form of a function alone, C would convert what is given to it in silence."""
    dtype = {"float": "float32", "double": "float64", "uchar": "uint8"}[kind]
    kernel = backend.compile_source(BY_HAND.format(kind=kind, value=value), "by_hand")
    assert stored_by(backend, kernel, dtype) == want


def test_what_is_wrong_is_told_with_its_source(backend: Any) -> None:
    with pytest.raises(BackendError, match="nothing_of_the_kind"):
        backend.compile_source(BY_HAND.format(kind="int", value="nothing_of_the_kind(1)"), "x")


def test_what_a_compiler_remarks_is_no_warning(backend: Any, monkeypatch: Any) -> None:
    """Else where warnings are errors no kernel is built by a driver that remarks on each."""
    import pyopencl as cl

    build = cl.Program.build

    def remarking(program: Any, *args: Any, **options: Any) -> Any:
        warnings.warn("Non-empty compiler output encountered.", cl.CompilerWarning, stacklevel=2)
        return build(program, *args, **options)

    monkeypatch.setattr(cl.Program, "build", remarking)
    kernel = backend.compile_source(BY_HAND.format(kind="int", value="7"), "by_hand")
    assert stored_by(backend, kernel, "int32") == 7
