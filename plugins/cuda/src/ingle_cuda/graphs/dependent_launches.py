"""Launches within a graph that begin while the kernel before them ends.

A launch takes a microsecond or so before its first block runs. A kernel that waits by itself for
what the kernels before it have written may be launched as soon as these have begun their last
blocks ("programmatic dependent launch", from compute capability 9.0 on): each lets the next one
begin, then waits for the one before. It ends after it has waited, so that all before it have ended,
too, when it lets others read what it wrote. Several kernels are on their way so, each to the point
where it waits.

A kernel may read a matrix before it waits (`KernelStep.early`). Any of those in front of it may run
then; where one writes the matrix, the kernel is launched when all have ended.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ..driver.compiler import Kernel
from ..driver.devices import capability
from ..driver.errors import checked

_SERIALIZATION = 6
"""The attribute of a launch that says that its kernel waits by itself."""
_FIRST = 90


class _Attribute(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int), ("gap", ctypes.c_int), ("value", ctypes.c_int * 16)]


class _Launch(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    ]  # fmt: skip


def can_overlap(architecture: str) -> bool:
    """Whether GPUs of an architecture have such launches."""
    return capability(architecture) >= _FIRST


def launch_dependent(
    driver: Any, kernel: Kernel, params: Any, blocks: int, threads: int, stream: int
) -> None:
    """Puts a kernel that waits by itself into a stream."""
    attribute = _Attribute(_SERIALIZATION)
    attribute.value[0] = 1
    launch = _Launch(
        (blocks, 1, 1), (threads, 1, 1), 0, stream, ctypes.pointer(attribute), 1
    )  # fmt: skip
    checked(driver.cuLaunchKernelEx(ctypes.byref(launch), kernel.function, params, None))
