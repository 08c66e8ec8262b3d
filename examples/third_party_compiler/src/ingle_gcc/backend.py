"""Compile and launch: all that a backend needs to get every generated kernel, and fusion."""

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ingle.fusion.device.kernel_backend import KernelBackend
from ingle.tensor.errors import BackendError

FLAGS = ["-std=c11", "-ffp-contract=off", "-fno-math-errno", "-shared", "-fPIC"]
SPEED = os.environ.get("INGLE_GCC_FLAGS", "-O3 -march=native").split()
SIGNATURE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)


class Memory:
    """Bytes at an address that is a multiple of 64."""

    def __init__(self, nbytes: int) -> None:
        self.buffer = np.empty(nbytes + 64, np.uint8)
        self.address: int = -(-self.buffer.ctypes.data // 64) * 64


class GccBackend(KernelBackend):
    """Runs kernels that gcc compiled, on the calling thread."""

    name = "gcc"
    language = "c"

    def compile_source(self, source: str, name: str) -> Any:
        with tempfile.TemporaryDirectory() as folder:  # once loaded, the file is not needed
            path, library = Path(folder, f"{name}.c"), Path(folder, f"{name}.so")
            path.write_text(source)
            command = ["gcc", *SPEED, *FLAGS, "-o", str(library), str(path), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise BackendError(f"gcc cannot compile a kernel:\n{done.stderr}\n{source}")
            return ctypes.cast(getattr(ctypes.CDLL(str(library)), name), SIGNATURE)

    def launch(
        self, kernel: Any, pointers: Sequence[int], args: Sequence[int], begin: int, end: int
    ) -> None:
        slots = (ctypes.c_void_p * len(pointers))(*pointers)
        numbers = (ctypes.c_int64 * len(args))(*args)
        kernel(ctypes.addressof(slots), ctypes.addressof(numbers), begin, end, 0)

    def allocate(self, nbytes: int) -> Memory:
        return Memory(nbytes)

    def write(self, address: int, array: np.ndarray) -> None:
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def read(self, address: int, array: np.ndarray) -> None:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)
