"""The systems that are measured, by name: each a module with a `System` in it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workload import Workload

WORKER = Path(__file__).parents[1] / "worker.py"

Run = Callable[..., Any]
"""Runs a workload once; a step of training takes another batch, if it is given one."""
Build = Callable[[Workload], Run]

MODULES = {
    "ingle-cpu": "systems.ingle_system",
    "ingle-cpu-eager": "systems.ingle_system",
    "ingle-numpy": "systems.ingle_system",
    "ingle-cuda": "systems.ingle_system",
    "ingle-cuda-eager": "systems.ingle_system",
    "captured-cuda": "systems.torch_system",
    "ingle-opencl": "systems.ingle_system",
    "ingle-opencl-eager": "systems.ingle_system",
    "numpy": "systems.numpy_system",
    "torch": "systems.torch_system",
    "torch-cuda": "systems.torch_system",
    "compile": "systems.torch_system",
    "compile-cuda": "systems.torch_system",
    "jax": "systems.jax_system",
    "jax-cuda": "systems.jax_system",
    "tinygrad": "systems.tinygrad_system",
    "onnxruntime": "systems.onnxruntime_system",
}


class SkipError(Exception):
    """A system cannot run a workload; the message says why."""


@dataclass(frozen=True)
class System:
    """How one library runs workloads.

    Attributes:
        library: what to import.
        build: by kind of workload, makes a function that runs it once, to the end.
        functions: by the workload's `function`, what it computes on the library's arrays.
        to_numpy: a result as a NumPy array.
        skips: reasons by the workload's `function` (or its kind) for what cannot run.
        cache: the variables that let it keep compiled code in a folder, shown as `{folder}`; none
            for a system that compiles nothing at the first call.
        wait: until what runs began is done; runs of a system without it end when they return.
        peak: MiB of the device's memory in use at most since it was called last, where the host's
            memory is not what counts.
    """

    library: str
    build: Mapping[str, Build]
    functions: Mapping[str, Callable[..., Any]]
    to_numpy: Callable[[Any], Any]
    skips: Mapping[str, str] = field(default_factory=dict)
    cache: Mapping[str, str] = field(default_factory=dict)
    wait: Callable[[], object] | None = None
    peak: Callable[[], float] | None = None

    def prepare(self, name: str, workload: Workload) -> Run:
        """A function that runs the workload once on this system, which goes by a name."""
        for key in (workload.function, workload.kind):
            if key in self.skips:
                raise SkipError(self.skips[key])
        if workload.kind == "import":
            return lambda: import_seconds(self.library)
        if workload.kind == "first-call" and not self.cache:
            raise SkipError("nothing is compiled at the first call")
        if workload.kind in ("first-call", "stall"):
            if workload.function not in self.functions:
                raise SkipError("not written for this system")
            return first_calls(name, workload, self.cache)
        if workload.kind not in self.build or workload.function not in self.functions:
            raise SkipError("not written for this system")
        return self.build[workload.kind](workload)


def load(name: str) -> System:
    """The system of a name; ImportError where its library is not installed."""
    return importlib.import_module(MODULES[name]).system(name)  # type: ignore[no-any-return]


def repeated(call: Run, times: int) -> Run:
    """`call` many times in one run."""

    def run() -> Any:
        for _ in range(times):
            result = call()
        return result

    return run


def import_seconds(library: str) -> float:
    """How long a fresh process takes to import a library whose bytecode is cached."""
    code = f"import time; t = time.perf_counter(); import {library}; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    environment = keeping_bytecode()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def keeping_bytecode() -> dict[str, str]:
    """The environment of a process that finds its libraries compiled to bytecode, as all but the
    first one after an installation do."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def first_calls(name: str, workload: Workload, cache: Mapping[str, str]) -> Run:
    """A function that says how long the first steps in a fresh process take, or stall.

    With `cache` "cold" in the workload's options each process begins with an empty folder of
    compiled code, with "warm" it finds what an earlier one left there. Both find the library's
    bytecode: one process runs before them.
    """

    def seconds(folder: str) -> float:
        variables = {k: v.format(folder=folder) for k, v in cache.items()}
        command = [sys.executable, str(WORKER), name, workload.name]
        environment = {**keeping_bytecode(), **variables}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise SkipError(f"the first call failed: {done.stderr.strip().splitlines()[-1][:160]}")
        return float(done.stdout.split()[-1])

    def cold() -> float:
        with tempfile.TemporaryDirectory() as folder:
            return seconds(folder)

    kept = tempfile.TemporaryDirectory()
    seconds(kept.name)
    return cold if workload.options["cache"] == "cold" else lambda: seconds(kept.name)
