"""AMD's GPUs through ROCm 7: all that differs from NVIDIA's.

**Nothing of this has been run on such a GPU.** It is written from the headers of HIP, hipRTC and
hipBLAS, whose functions are those of CUDA's libraries by other names; tests hold stubs of them
against the calls of this plugin. The kernels' source is the same, since it has no instruction of
NVIDIA's and folds in shared memory. cuDNN and cuBLASLt have nothing in their place: what they do is
done by kernels.

Needed are ROCm's driver and `pip install cupy-rocm-7-0`. Devices are named `cuda` as others are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from ingle.tensor.errors import BackendError

DRIVER = ("libamdhip64.so.7", "libamdhip64.so")
LIBRARIES = {
    "nvrtc": ("libhiprtc.so.7", "libhiprtc.so"),
    "cublas": ("libhipblas.so.3", "libhipblas.so"),
}
INSTALL = "pip install cupy-rocm-7-0"
MEMORY = ("hipErrorOutOfMemory",)
"""What errors of memory are called there; lost devices have the names of CUDA."""

NAMES = {
    "cuInit": "hipInit",
    "cuGetErrorName": "hipDrvGetErrorName",
    "cuDriverGetVersion": "hipDriverGetVersion",
    "cuDeviceGetCount": "hipGetDeviceCount",
    "cuCtxGetCurrent": "hipCtxGetCurrent",
    "cuModuleLoadData": "hipModuleLoadData",
    "cuModuleGetFunction": "hipModuleGetFunction",
    "cuLaunchKernelEx": "hipDrvLaunchKernelEx",
    "nvrtcVersion": "hiprtcVersion",
    "nvrtcCreateProgram": "hiprtcCreateProgram",
    "nvrtcCompileProgram": "hiprtcCompileProgram",
    "nvrtcDestroyProgram": "hiprtcDestroyProgram",
    "nvrtcGetProgramLogSize": "hiprtcGetProgramLogSize",
    "nvrtcGetProgramLog": "hiprtcGetProgramLog",
    "nvrtcGetCUBINSize": "hiprtcGetCodeSize",
    "nvrtcGetCUBIN": "hiprtcGetCode",
    "cublasCreate_v2": "hipblasCreate",
    "cublasSetStream_v2": "hipblasSetStream",
}
"""Functions that take the same arguments."""

OPERATIONS = {0: 111, 1: 112}
COMPUTES = {68: 2, 70: 7, 77: 6}
DEFAULT_ALGORITHM = 160
"""Of a product: whether operands are transposed, what sums are in, and how it is computed."""

OPTIONS = ("-ffp-contract=off", "-std=c++17", "-w", "-O3")
PROLOGUE = "#define __grid_constant__\n"
"""In front of the kernels' source: arguments of a kernel lie in constant memory there anyway."""


class Translated:
    """A library of ROCm that answers to the names of CUDA's.

    Args:
        library: of ROCm.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        if name not in NAMES:
            raise AttributeError(f"ROCm: no function is known to stand for {name}")
        return getattr(self._library, NAMES[name])

    def cublasSetWorkspace_v2(self, *args: Any) -> int:  # noqa: N802 - the library's name
        """Memory for products; versions without that function take their own."""
        found = getattr(self._library, "hipblasSetWorkspace", None)
        return 0 if found is None else int(found(*args))

    def cublasGemmStridedBatchedEx(self, handle: Any, *args: Any) -> int:  # noqa: N802
        """A product: its places are those of CUDA, what the numbers mean is not."""
        first, second, *between, computed, _ = args
        return int(
            self._library.hipblasGemmStridedBatchedEx(
                handle, OPERATIONS[first], OPERATIONS[second], *between, COMPUTES[computed],
                DEFAULT_ALGORITHM,
            )
        )  # fmt: skip


def opened(names: Sequence[str]) -> Any | None:
    """The first of some libraries that is there."""
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def driver() -> Translated | None:
    """ROCm's driver under the names of CUDA's; None where there is none, or no GPU of AMD's."""
    found = opened(DRIVER)
    if found is None:
        return None
    named, number = Translated(found), ctypes.c_int()
    failed = named.cuInit(0) or named.cuDeviceGetCount(ctypes.byref(number))
    return None if failed or not number.value else named


def library(name: str) -> Translated:
    """The library of ROCm that stands for one of CUDA's.

    Raises:
        BackendError: it is not there.
    """
    found = opened(LIBRARIES[name])
    if found is None:
        raise BackendError(
            f"cuda: {LIBRARIES[name][-1]}, which stands for {name} on AMD's GPUs, is not found; "
            "install ROCm 7 and let LD_LIBRARY_PATH name the folder of its libraries"
        )
    return Translated(found)


def described(properties: Mapping[str, Any]) -> tuple[str, int, int, str]:
    """A GPU's name, its multiprocessors, its bytes and its architecture, from what CuPy says."""
    name, architecture = (
        value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        for value in (properties["name"], properties["gcnArchName"])
    )
    count, memory = int(properties["multiProcessorCount"]), int(properties["totalGlobalMem"])
    return name, count, memory, architecture
