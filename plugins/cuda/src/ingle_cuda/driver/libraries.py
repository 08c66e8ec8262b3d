"""NVIDIA's libraries and CuPy, and what to install where one is missing."""

from __future__ import annotations

import ctypes
import os
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from ingle.tensor.errors import BackendError

from . import rocm

_DRIVERS = ("nvcuda.dll",) if os.name == "nt" else ("libcuda.so.1", "libcuda.so")
INSTALL = 'pip install "ingle-cuda[cuda13]" ([cuda12] for drivers of CUDA 12)'


_NO_DEVICE = 100
"""What the driver answers where it finds no GPU."""


@cache
def driver() -> Any | None:
    """The driver's library; None where there is no driver, or it finds no GPU.

    Where there is none of NVIDIA's it is that of ROCm, under the same names.

    Raises:
        BackendError: it is installed, but does not start.
    """
    for name in _DRIVERS:
        try:
            found = ctypes.CDLL(name)
        except OSError:
            continue
        return started(found)
    return rocm.driver()


def is_rocm() -> bool:
    """Whether the GPUs are AMD's."""
    return isinstance(driver(), rocm.Translated)


def started(library: Any) -> Any | None:
    """A driver's library that can be asked; None if it finds no GPU.

    Raises:
        BackendError: it does not start.
    """
    status = library.cuInit(0)
    if not status:
        return library
    if status == _NO_DEVICE:
        return None
    name = ctypes.c_char_p()
    library.cuGetErrorName(status, ctypes.byref(name))
    told = name.value.decode() if name.value else "unknown"
    raise BackendError(
        f"cuda: the driver is installed but does not start (error {status}, {told}); `nvidia-smi` "
        "says more. After an update of the driver the machine has to start anew"
    )


def driver_version() -> tuple[int, int]:
    """The newest CUDA that the driver supports."""
    library = driver()
    version = ctypes.c_int()
    if library is None or library.cuDriverGetVersion(ctypes.byref(version)):
        return 0, 0
    return version.value // 1000, version.value % 1000 // 10


@cache
def cupy() -> Any:
    """CuPy, for memory, streams and graphs.

    Raises:
        BackendError: it is not installed, or for another CUDA than the driver's.
    """
    major, minor = driver_version()
    try:
        import cupy

        hip = getattr(cupy.cuda.runtime, "is_hip", False)
        if is_rocm() or hip:
            if not (is_rocm() and hip):
                raise ImportError(f"it is for {'ROCm' if hip else 'CUDA'}, and the driver is not")
            return cupy
    except Exception as error:  # its libraries may fail in ways of their own
        extra = f"cuda{min(max(major, 12), 13)}"
        way = rocm.INSTALL if is_rocm() else f'pip install "ingle-cuda[{extra}]"'
        of = "ROCm" if is_rocm() else f"CUDA {major}.{minor}"
        raise BackendError(
            f"cuda: CuPy cannot be loaded ({type(error).__name__}: {error}); for this driver, of "
            f"{of}: {way}"
        ) from error
    version = cupy.cuda.runtime.runtimeGetVersion()
    if version // 1000 > major:
        raise BackendError(
            f"cuda: the installed CuPy is for CUDA {version // 1000}, but the driver supports at "
            f"most {major}.{minor}; either update the driver, or: pip uninstall "
            f'cupy-cuda{version // 1000}x && pip install "ingle-cuda[cuda{major}]"'
        )
    return cupy


def answers_checked() -> AbstractContextManager[None]:
    """A block in which CuPy's linear algebra raises what its libraries report as failed."""
    from cupyx import errstate

    found: AbstractContextManager[None] = errstate(linalg="raise")
    return found


@cache
def nccl() -> Any | None:
    """NCCL, which adds values of several GPUs, by CuPy's module; None where it is not installed."""
    cupy()
    from cupy.cuda import nccl as found

    return found if found.available else None


@cache
def library(name: str) -> Any:
    """A library of the CUDA toolkit, from wheels or the system; or the one of ROCm in its place.

    Raises:
        BackendError: it is not there.
    """
    if is_rocm():
        return rocm.library(name)
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    try:
        return ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path)
    except (DynamicLibNotFoundError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise BackendError(
            f"cuda: the library {name} is not found ({reason}); install the CUDA toolkit, or "
            f'pip install "cupy-cuda{max(driver_version()[0], 12)}x[ctk]"'
        ) from error
