"""What a GPU can do at most: products in half precision, and bytes copied within its memory.

`python bench/gpu_limits.py` prints both. They are cuBLAS's product of random matrices of side 8192
in float16, and a copy of 2 GiB, of which what is read and what is written counts; the best of some
tries.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec

from limits import Limits

_SIDE = 8192
_BYTES = 2 << 30


def measured() -> Limits:
    """The limits, measured in a process of its own; unknown ones without CuPy."""
    if find_spec("cupy") is None:
        return Limits(None, float("inf"))
    done = subprocess.run([sys.executable, __file__], check=True, capture_output=True, text=True)
    return Limits(**json.loads(done.stdout))


def measure() -> Limits:
    """Measures both on the first GPU."""
    import cupy

    def quickest(work: Callable[[], object]) -> float:
        best = float("inf")
        for _ in range(12):
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record()
            work()
            end.record()
            end.synchronize()
            best = min(best, cupy.cuda.get_elapsed_time(start, end) * 1e-3)
        return best

    a, b = (cupy.random.standard_normal((_SIDE, _SIDE), cupy.float32) for _ in range(2))
    a, b = a.astype(cupy.float16), b.astype(cupy.float16)
    product = quickest(lambda: cupy.matmul(a, b))
    here = cupy.ones(_BYTES // 4, cupy.float32)
    there = cupy.empty_like(here)
    copy = quickest(lambda: cupy.copyto(there, here))
    return Limits(2.0 * _SIDE**3 / product, 2.0 * _BYTES / copy)


if __name__ == "__main__":
    print(json.dumps(measure()._asdict()))
