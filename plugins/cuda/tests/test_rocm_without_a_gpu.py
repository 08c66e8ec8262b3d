"""AMD's GPUs, none of which was there when this was written: stubs of ROCm's libraries are held
against the calls that the plugin makes of CUDA's."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ingle_cuda
from ingle.tensor.device import Device
from ingle.tensor.errors import BackendError, OutOfMemoryError
from ingle_cuda.driver import compiler, devices, errors, libraries, rocm
from ingle_cuda.products import cublas
from ingle_cuda.products.cublas import Operand, Product

SOURCES = sorted(Path(ingle_cuda.__file__).parent.rglob("*.py"))


class Library:
    """Notes what is called by which name, and answers that all is well."""

    def __init__(self, **answers: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answers = answers

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("hip"):
            raise AttributeError(name)

        def call(*args: Any) -> int:
            self.calls.append((name, *args))
            return int(self.answers.get(name, lambda *_: 0)(*args))

        return call


def test_all_that_the_plugin_calls_has_a_name_there() -> None:
    """But for what `devices` asks of the driver in another way, and cuBLASLt: nobody asks it."""
    others = [f for f in SOURCES if f.name not in ("rocm.py", "cublas_lt.py")]
    text = "\n".join(f.read_text("utf-8") for f in others)
    called = set(re.findall(r"\b((?:cu|nvrtc)[A-Z]\w+)(?=\()|nvrtc\.(nvrtc\w+)", text))
    asked = {name for pair in called for name in pair if name}
    asked |= set(re.findall(r'"(cublas[A-Z]\w+)"', text))
    asked -= {"cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem_v2", "cuDeviceGetAttribute"}
    assert {"cuLaunchKernelEx", "nvrtcGetCUBIN", "cublasGemmStridedBatchedEx"} <= asked
    there = rocm.Translated(Library())
    for name in sorted(asked):
        assert callable(getattr(there, name)), name
    with pytest.raises(AttributeError, match=r"known to stand for cuNothing"):
        there.cuNothing  # noqa: B018


def test_a_product_has_the_numbers_of_hipblas(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(cublas, "library", lambda name: rocm.Translated(library))
    made = cublas.Cublas(tensor_float=True)
    rows = Operand(False, 7, False, (35,))
    product = Product((3,), 5, 6, 7, rows, Operand(True, 7, False, (42,)), "float32", "float32")
    made.multiply(
        product, stream=9, a=256, b=512, out=1024, row=6, steps=(30,), workspace=(4096, 1 << 20)
    )
    names = [call[0] for call in library.calls]
    assert names == [
        "hipblasCreate", "hipblasSetStream", "hipblasSetWorkspace", "hipblasGemmStridedBatchedEx"
    ]  # fmt: skip
    _, _, first, second, *rest = library.calls[-1]
    assert (first, second) == (112, 111)  # in the order of columns: B transposed, A not
    assert rest[:3] == [6, 5, 7]
    assert rest[-3:] == [3, 6, 160]  # batch, tensor float 32, the default way


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """One with two GPUs of AMD's and CuPy for them."""

    def count(number: Any) -> int:
        number._obj.value = 2
        return 0

    library = Library(hipGetDeviceCount=count)
    monkeypatch.setattr(rocm, "opened", lambda names: library)
    found = rocm.driver()
    for module in (libraries, devices):
        monkeypatch.setattr(module, "driver", lambda: found)
    properties = {
        "name": b"AMD Instinct MI300X", "multiProcessorCount": 304, "totalGlobalMem": 1 << 37,
        "gcnArchName": b"gfx942:sramecc+:xnack-",
    }  # fmt: skip
    runtime = SimpleNamespace(is_hip=True, getDeviceProperties=lambda index: properties)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    libraries.cupy.cache_clear()
    libraries.library.cache_clear()
    yield SimpleNamespace(library=library, runtime=runtime)
    libraries.cupy.cache_clear()
    libraries.library.cache_clear()


def test_its_gpus_are_counted_and_described(machine: Any) -> None:
    assert libraries.is_rocm()
    assert devices.count() == 2
    assert devices.limits_of(1) == devices.Limits(
        1, "AMD Instinct MI300X", 304, "gfx942:sramecc+:xnack-", 1 << 37
    )


def test_kernels_are_compiled_by_its_compiler(machine: Any, tmp_path: Path) -> None:
    def size(program: Any, number: Any) -> int:
        number._obj.value = 4
        return 0

    def code(program: Any, buffer: Any) -> int:
        ctypes.memmove(buffer, b"code", 4)
        return 0

    machine.library.answers |= {"hiprtcGetCodeSize": size, "hiprtcGetCode": code}
    source = f"/* {tmp_path} */ extern void nothing(const __grid_constant__ int x);"
    assert compiler.machine_code(source, "gfx942") == b"code"
    calls = {call[0]: call[1:] for call in machine.library.calls}
    assert calls["hiprtcCreateProgram"][1].startswith(b"#define __grid_constant__\n/* ")
    given = list(calls["hiprtcCompileProgram"][2])
    assert b"--offload-arch=gfx942" in given
    assert b"-ffp-contract=off" in given  # nothing is contracted, as elsewhere


def test_a_cupy_of_the_other_kind_is_told_apart(machine: Any) -> None:
    machine.runtime.is_hip = False
    with pytest.raises(BackendError, match=r"it is for CUDA.* of ROCm: pip install cupy-rocm-7-0"):
        devices.count()


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocm, "opened", lambda names: None)
    assert rocm.driver() is None
    with pytest.raises(BackendError, match=r"libhipblas\.so, which stands for cublas .*ROCm 7"):
        rocm.library("cublas")


def test_its_errors_of_memory_are_known() -> None:
    asked = errors.told(Device("cuda"), "it was asked for memory")
    with pytest.raises(OutOfMemoryError), asked:
        raise RuntimeError("hipErrorOutOfMemory: out of memory")
