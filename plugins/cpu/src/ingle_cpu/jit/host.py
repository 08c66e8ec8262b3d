"""The machine that kernels are compiled for: its triple, its CPU and what that CPU can do."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import json
import mmap
import platform
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite

from ingle.fusion.device import disk
from ingle.tensor.errors import BackendError, OutOfMemoryError
from ingle.tensor.late_imports import late

_LASTING = frozenset(
    {"vendor_id", "cpu family", "model", "model name", "stepping", "flags", "CPU implementer",
     "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"}
)  # fmt: skip
"""What a processor is, in Linux' words; the rest is its clock and its place."""


class Host(NamedTuple):
    """What LLVM generates code for.

    Attributes:
        triple: architecture, vendor and system, as LLVM writes it.
        cpu: LLVM's name of the CPU, for its scheduling model.
        features: LLVM's feature string, `+` for what the CPU has and `-` for what it lacks. It
            overrules what the CPU's name implies, so that a virtual machine that hides
            instructions gets none of them.
        version: of LLVM.
    """

    triple: str
    cpu: str
    features: str
    version: str = ""

    @property
    def present(self) -> frozenset[str]:
        """The features that the CPU has, without their signs."""
        return frozenset(f[1:] for f in self.features.split(",") if f.startswith("+"))

    @property
    def fingerprint(self) -> bytes:
        """Changes with everything that may change the code of one text."""
        versions = f"{llvmlite.__version__}|{self.version}"
        text = "|".join((versions, self.triple, self.cpu, self.features))
        return hashlib.sha256(text.encode()).digest()


@functools.cache
def llvm() -> Any:
    """LLVM's binding, ready to generate code for this machine.

    Loading it takes 60 ms, so that it is only done where there is something to compile.

    Raises:
        OutOfMemoryError: the process may not have the memory that it lies in.
        BackendError: it cannot be loaded.
    """
    try:
        binding = late("llvmlite.binding")
    except (ImportError, OSError) as error:
        # The loader's error is of a file that could not be found or loaded, for whatever reason.
        require_room("the device cpu cannot compile kernels", _LIBRARY)
        raise BackendError(
            f"the device cpu cannot compile kernels: llvmlite does not load ({error}). Try pip "
            "install --force-reinstall llvmlite, or choose INGLE_DEVICE=numpy"
        ) from error
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


_LIBRARY = 192 << 20
"""Bytes of addresses that the library of LLVM takes."""


def require_room(said: str, nbytes: int) -> None:
    """Raises `OutOfMemoryError` where the system has no memory for what LLVM is to do.

    Args:
        said: what cannot be done then, as the error begins.
        nbytes: what LLVM may need.
    """
    try:
        mmap.mmap(-1, nbytes).close()
    except (OSError, MemoryError, OverflowError) as error:
        raise OutOfMemoryError(
            f"{said}: LLVM may need {nbytes >> 20} MiB, and the system has no memory left for "
            f"this process ({error}); free tensors, or raise the limit (`ulimit -v`)",
            nbytes,
        ) from error


_FEATURES = re.compile(r"([+-][A-Za-z0-9._-]+(,|$))*", re.ASCII)
"""LLVM ends the process for what does not look like this."""


@functools.cache
def host() -> Host:
    """The machine that this process runs on: as LLVM says, or as it said to an earlier process.

    What this process may not use is not among its features.
    """
    processor = _processor()
    key = f"host-{processor}"
    known = _known(disk().get(key) if processor else None)
    if known is None:
        known = _asked()
        if processor:
            disk().put(key, json.dumps(known).encode())
    if "amx-tile" not in known.present or _may_use_tiles():
        return known
    return known._replace(features=known.features.replace("+amx", "-amx"))


def _may_use_tiles() -> bool:
    """Asks the system for registers of tiles (AMX), which Linux saves for those who asked alone.

    Whoever uses them without leave is ended. Threads and forks have what their process has.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    system = ctypes.CDLL(None)
    return bool(system.syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0)


_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""The call's number on x86-64, what is asked of it, and the part of a processor's state."""


def _known(entry: bytes | None) -> Host | None:
    """What an earlier process has stored; None if there is nothing, or not in this form."""
    try:
        answer = json.loads(entry or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, list) or len(answer) != len(Host._fields):
        return None
    if not all(isinstance(text, str) for text in answer):
        return None
    found = Host(*answer)
    return found if _FEATURES.fullmatch(found.features) else None


def _asked() -> Host:
    binding = llvm()
    triple = binding.get_process_triple()
    if sys.platform == "win32":
        triple += "-elf"  # the loader of COFF objects knows fewer relocations
    features = binding.get_host_cpu_features().flatten()
    version = str(binding.llvm_version_info)
    return Host(triple, binding.get_host_cpu_name(), features, version)


def _processor() -> str | None:
    """A name for all that LLVM's answer goes by; None where that is not known."""
    if sys.platform != "linux":
        return None
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            first = list(itertools.takewhile(str.strip, lines))
        folder = Path(llvmlite.__file__ or "").parent / "binding"
        (library,) = folder.glob("*llvmlite*.so")
        status = library.stat()
        version = llvmlite.__version__
    except (OSError, ValueError, AttributeError):
        return None
    lasting = [line for line in first if line.split(":")[0].strip() in _LASTING]
    built = f"{version} {library} {status.st_size} {status.st_mtime_ns}"
    text = "".join([platform.machine(), "\n", built, "\n", *lasting])
    return hashlib.sha256(text.encode()).hexdigest()
