"""The functions outside of generated code that generated code may call, and nothing else."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping


def _address(library: ctypes.CDLL, name: str) -> int:
    found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert found is not None
    return found


_PYTHON = (
    "PyCapsule_GetPointer", "PyCapsule_IsValid", "PyLong_AsLongLong", "PyLong_FromLongLong",
)  # fmt: skip


def process_symbols() -> Mapping[str, int]:
    """Name in generated code -> address in this process.

    The first three are what LLVM itself puts in for copies and fills. `ingle_yield` lets another
    thread have the core; Linux's `syscall` reaches the futex. The others are of Python's own.
    """
    python = {name: _address(ctypes.pythonapi, name) for name in _PYTHON}
    if sys.platform == "win32":
        runtime = ctypes.CDLL("msvcrt")
        kernel = ctypes.CDLL("kernel32")
        names = {name: _address(runtime, name) for name in ("memcpy", "memmove", "memset")}
        return names | python | {"ingle_yield": _address(kernel, "SwitchToThread")}
    process = ctypes.CDLL(None)
    names = {name: _address(process, name) for name in ("memcpy", "memmove", "memset")}
    names["ingle_yield"] = _address(process, "sched_yield")
    if sys.platform == "linux":
        names["syscall"] = _address(process, "syscall")
    return names | python
