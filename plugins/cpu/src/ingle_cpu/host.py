"""The machine that kernels are compiled for: its triple, its CPU and what that CPU can do."""

from __future__ import annotations

import functools
import hashlib
import sys
from typing import NamedTuple

import llvmlite
import llvmlite.binding as llvm


class Host(NamedTuple):
    """What LLVM generates code for.

    Attributes:
        triple: architecture, vendor and system, as LLVM writes it.
        cpu: LLVM's name of the CPU, for its scheduling model.
        features: LLVM's feature string, `+` for what the CPU has and `-` for what it lacks. It
            overrules what the CPU's name implies, so that a virtual machine that hides
            instructions gets none of them.
    """

    triple: str
    cpu: str
    features: str

    @property
    def present(self) -> frozenset[str]:
        """The features that the CPU has, without their signs."""
        return frozenset(f[1:] for f in self.features.split(",") if f.startswith("+"))

    @property
    def fingerprint(self) -> bytes:
        """Changes with everything that may change the code of one text."""
        versions = f"{llvmlite.__version__}|{llvm.llvm_version_info}"
        text = "|".join((versions, self.triple, self.cpu, self.features))
        return hashlib.sha256(text.encode()).digest()


@functools.cache
def start_llvm() -> None:
    """Makes LLVM ready to generate code for this machine, once."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def host() -> Host:
    """The machine that this process runs on."""
    start_llvm()
    triple = llvm.get_process_triple()
    if sys.platform == "win32":
        triple += "-elf"  # the loader of COFF objects knows fewer relocations
    return Host(triple, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
