"""Products with windows in guarded memory, and what windows see, by definition."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ingle_cpu.matmul.entries_table import entries_table
from ingle_cpu.matmul.launches import Choice, Contraction, Epilogue, Problem, contraction, identity
from ingle_cpu.matmul.plan import A, B, Pointer
from ingle_cpu.matmul.tile import compute_dtype
from ingle_cpu.threads.pool import thread_pool

Array = Any
GUARD = 512


def seen(x: Array, kernel: Any, places: Any, spread: Any, start: Any, steps: Any) -> Array:
    """What each channel and tap sees of each place, as a matrix for each image."""
    batch, channels = x.shape[:2]
    made = np.zeros((batch, channels, *kernel, *places))
    for tap in itertools.product(*map(range, kernel)):
        for place in itertools.product(*map(range, places)):
            each = zip(place, steps, tap, spread, start, strict=True)
            at = [p * n + t * s + b for p, n, t, s, b in each]
            if all(0 <= i < n for i, n in zip(at, x.shape[2:], strict=True)):
                made[(slice(None), slice(None), *tap, *place)] = x[(slice(None), slice(None), *at)]
    return made.reshape(batch, channels * math.prod(kernel), math.prod(places))


def guarded(array: Array) -> Array:
    """A copy between NaNs."""
    whole = np.full(array.nbytes + 2 * GUARD, 0xFF, np.uint8)
    part = whole[GUARD:-GUARD].view(array.dtype).reshape(array.shape)
    part[...] = array
    return part


def run(made: Contraction, buffers: dict[Pointer, Array]) -> None:
    """Runs entries, with scratch memory of NaNs."""
    for number, size in enumerate(made.scratch):
        memory = np.full(size + 2 * GUARD + 64, 0xFF, np.uint8)
        begin = GUARD + -(memory.ctypes.data + GUARD) % 64
        buffers[Pointer("scratch", number)] = memory[begin : begin + size]
    table = entries_table(made.entries, {p: (n, 0) for n, p in enumerate(buffers)})
    table.bases[:] = [array.ctypes.data for array in buffers.values()]
    table.run()
    for number in range(len(made.scratch)):
        part = buffers[Pointer("scratch", number)]
        assert part.base is not None
        begin = part.ctypes.data - part.base.ctypes.data
        assert (part.base[:begin] == 0xFF).all()
        assert (part.base[begin + part.nbytes :] == 0xFF).all()


def product(
    a: Array, x: Array, problem: Problem, choice: Choice, epilogue: Epilogue | None = None
) -> Array:
    """The result of a choice, which writes nowhere else."""
    dtype = compute_dtype(problem.a_dtype)
    shape = (*problem.batch, problem.m, problem.n)
    found = guarded(np.full(shape, np.nan, dtype))
    strides = [s // found.itemsize for s in found.strides]
    made = contraction(
        problem, epilogue or identity(dtype), [strides], workers=thread_pool().threads,
        choice=choice,
    )  # fmt: skip
    run(made, {A: a, B: x, Pointer("operand", 0): found})
    assert (found.base[:GUARD] == 0xFF).all()
    assert (found.base[-GUARD:] == 0xFF).all()
    return found
