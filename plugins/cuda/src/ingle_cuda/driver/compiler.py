"""Source code to machine code by NVRTC, kept on disk."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from typing import Any

from ingle.fusion.device import disk
from ingle.tensor.errors import BackendError

from . import rocm
from .errors import checked
from .libraries import driver, library

_OPTIONS = (
    "--fmad=false", "--device-as-default-execution-space", "--std=c++17", "-w",
    "--extra-device-vectorization",
)  # fmt: skip


def machine_code(source: str, architecture: str, options: Sequence[str] = ()) -> bytes:
    """A module for GPUs of an architecture; one that was compiled before is found on disk.

    Args:
        source: with the kernels.
        architecture: `sm_90` for NVIDIA's of capability 9.0, or the name of one of AMD's.
        options: further ones for the compiler.

    Raises:
        BackendError: it cannot be compiled; with the compiler's words and the source.
    """
    nvrtc = library("nvrtc")
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    if architecture.startswith("sm_"):
        used = [*_OPTIONS, f"--gpu-architecture={architecture}", *options]
    else:
        source = rocm.PROLOGUE + source
        used = [*rocm.OPTIONS, f"--offload-arch={architecture}", *options]
    text = "\0".join([f"{major.value}.{minor.value}", *used, source])
    key = f"cuda-{hashlib.sha256(text.encode()).hexdigest()}"
    found = disk().get(key)
    if found is None:
        found = _compiled(nvrtc, source, used)
        disk().put(key, found)
    return found


def _compiled(nvrtc: Any, source: str, options: Sequence[str]) -> bytes:
    program = ctypes.c_void_p()
    status = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"ingle.cu", 0, None, None
    )
    if status:
        raise BackendError(f"cuda: NVRTC made no program (error {status})")
    try:
        given = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        status = nvrtc.nvrtcCompileProgram(program, len(options), given)
        if status:
            words = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            raise BackendError(f"NVRTC: {words.decode(errors='replace')}\n{source}")
        return _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _read(size: Any, content: Any, program: ctypes.c_void_p) -> bytes:
    number = ctypes.c_size_t()
    size(program, ctypes.byref(number))
    buffer = ctypes.create_string_buffer(number.value)
    content(program, buffer)
    return buffer.raw


class Kernel:
    """A function of a loaded module.

    Attributes:
        function: the driver's handle.
        address: the same as a number.
        after_others: whether it waits by itself for the kernels before it.
    """

    __slots__ = ("address", "after_others", "function")

    def __init__(self, code: bytes, name: str, after_others: bool = False) -> None:
        cuda = driver()
        assert cuda is not None
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        checked(cuda.cuModuleLoadData(ctypes.byref(module), code))
        checked(cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
        assert function.value is not None
        self.function = function
        self.address = function.value
        self.after_others = after_others
