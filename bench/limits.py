"""What the machine can do at most: fused multiply-adds and bytes copied, a second.

`python bench/limits.py THREADS` prints both. The multiply-adds are vectors of independent
accumulators in registers, as wide as the processor has them; the copy is NumPy's, of arrays far
larger than its caches, and counts what it reads and what it writes. The best of many short tries
counts.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
WIDTHS = (("avx512f", 16, 24), ("fma", 8, 12), ("neon", 4, 24))
"""A feature of a processor, its float32 lanes, and as many accumulators as its registers hold."""


class Limits(NamedTuple):
    """Of some threads together; None where it cannot be measured.

    Attributes:
        flops: multiplications and additions of float32 a second.
        bandwidth: bytes a second.
    """

    flops: float | None
    bandwidth: float

    def seconds(self, flops: float, nbytes: float) -> float:
        """The least time that work can take: arithmetic and memory may overlap."""
        return max(flops / self.flops if self.flops else 0.0, nbytes / self.bandwidth)

    def __str__(self) -> str:
        peak = "unknown FMA peak" if self.flops is None else f"FMA peak {self.flops / 1e9:.0f} GF/s"
        return f"{peak}, copy bandwidth {self.bandwidth / 1e9:.1f} GB/s"


def chains(lanes: int, count: int) -> str:
    """LLVM IR of a loop over `count` independent multiply-adds of vectors."""
    vector, numbers = f"<{lanes} x float>", range(count)
    lines = [
        f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})",
        "define void @chains(i64 %times, ptr %from, ptr %to) {",
        # Vectors come by pointer: how they would be passed depends on the machine.
        f"start:\n  %by = load {vector}, ptr %from, align 4\n  br label %loop",
        "loop:\n  %i = phi i64 [0, %start], [%next, %loop]",
        *[f"  %a{j} = phi {vector} [%by, %start], [%b{j}, %loop]" for j in numbers],
        *[
            f"  %b{j} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{j}, {vector} %by, "
            f"{vector} %by)"
            for j in numbers
        ],
        "  %next = add i64 %i, 1\n  %more = icmp ult i64 %next, %times",
        "  br i1 %more, label %loop, label %done\ndone:",
        f"  %s0 = fadd {vector} %b0, %b0",
        *[f"  %s{j} = fadd {vector} %s{j - 1}, %b{j}" for j in numbers[1:]],
        f"  store {vector} %s{count - 1}, ptr %to, align 4\n  ret void\n}}",
    ]
    return "\n".join(lines)


def compiled() -> tuple[Any, Callable[[int], None], int] | None:
    """A loop of multiply-adds and how many one pass has; None without a compiler for it."""
    try:
        import llvmlite.binding as llvm
    except ImportError:
        return None
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    present = llvm.get_host_cpu_features()
    fitting = [(lanes, count) for name, lanes, count in WIDTHS if present.get(name)]
    if not fitting:
        return None
    lanes, count = fitting[0]
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=present.flatten(), opt=3
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(chains(lanes, count)), machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    function = kind(engine.get_function_address("chains"))
    halves = np.full(lanes, 0.5, np.float32)

    def run(times: int) -> None:
        out = np.empty(lanes, np.float32)
        function(times, halves.ctypes.data, out.ctypes.data)

    return engine, run, 2 * lanes * count


def fastest(work: Callable[[int], None], threads: int, tries: int) -> float:
    """The least seconds in which all threads did their share, given their number."""
    spans = [(0.0, 0.0)] * threads
    ready = threading.Barrier(threads)
    best = [float("inf")] * tries

    def live(number: int) -> None:
        for turn in range(tries):
            ready.wait()
            start = time.perf_counter()
            work(number)
            spans[number] = (start, time.perf_counter())
            if ready.wait() == 0:
                best[turn] = max(end for _, end in spans) - min(start for start, _ in spans)

    workers = [threading.Thread(target=live, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return min(best)


def measure(threads: int) -> Limits:
    """Measures both, in about a second."""
    peak = None
    if found := compiled():
        _engine, run, flops = found  # the engine owns the code
        times = 1_000_000
        peak = threads * times * flops / fastest(lambda _: run(times), threads, 12)
    size = (64 << 20) // 4
    arrays = [(np.ones(size, np.float32), np.zeros(size, np.float32)) for _ in range(threads)]
    seconds = fastest(lambda n: np.copyto(arrays[n][1], arrays[n][0]), threads, 12)
    return Limits(peak, threads * 8 * size / seconds)


def measured(threads: int) -> Limits:
    """The limits, measured in a process of its own."""
    command = [sys.executable, __file__, str(threads)]
    environment = {**os.environ, **dict.fromkeys(POOLS, "1")}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return Limits(**json.loads(done.stdout))


def main() -> None:
    print(json.dumps(measure(int(sys.argv[1]))._asdict()))


if __name__ == "__main__":
    main()
