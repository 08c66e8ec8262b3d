"""Products of arrays by the template, without a plan: what tests of the driver and tiles share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ingle.fusion.render.llvm.targets import Target
from ingle_cpu.matmul import blocking, launches, pack_launches, tile_fit, window_blocking
from ingle_cpu.matmul.entries_table import entries_table
from ingle_cpu.matmul.launches import Choice, Contraction, Epilogue, Problem, contraction, identity
from ingle_cpu.matmul.plan import A, B, Pointer
from ingle_cpu.threads.pool import thread_pool
from ingle_cpu.threads.table import Table

LAYOUTS = ["rows", "transposed", "strided", "reversed"]


def elements(array: np.ndarray) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(s // array.itemsize for s in array.strides)


def problem_of(a: np.ndarray, b: np.ndarray) -> Problem:
    batch = a.shape[:-2]
    return Problem(
        a.dtype.name, b.dtype.name, batch, a.shape[-2], b.shape[-1], a.shape[-1],
        elements(a), elements(b),
    )  # fmt: skip


GUARD = 512


def aligned(size: int) -> np.ndarray:
    """Scratch memory of NaNs, to see what is read before it is written, with a guard around it."""
    memory = np.full(size + 2 * GUARD + 64, 0xFF, np.uint8)
    start = GUARD - (memory.ctypes.data + GUARD) % 64 + 64
    return memory[start : start + size]


def assert_guarded(part: np.ndarray) -> None:
    """Nothing was written around a part of a larger array."""
    whole = part.base
    assert whole is not None
    start = part.ctypes.data - whole.ctypes.data
    assert (whole[:start] == 0xFF).all()
    assert (whole[start + part.nbytes :] == 0xFF).all()


def table_of(made: Contraction, buffers: dict[Pointer, np.ndarray]) -> Table:
    table = entries_table(made.entries, {p: (number, 0) for number, p in enumerate(buffers)})
    table.bases[:] = [array.ctypes.data for array in buffers.values()]
    return table


def multiply(
    a: np.ndarray,
    b: np.ndarray,
    outputs: Sequence[np.ndarray],
    epilogue: Epilogue | None = None,
    scalars: Sequence[int] = (),
    *,
    choice: Choice | None = None,
    packed_b: np.ndarray | None = None,
) -> Contraction:
    """Runs the contraction of two arrays into `outputs` (the epilogue's operands)."""
    workers = thread_pool().threads
    made = contraction(
        problem_of(a, b), epilogue or identity(outputs[0].dtype.name),
        [elements(o) for o in outputs], scalars,
        workers=workers, choice=choice, ready=packed_b is not None,
    )  # fmt: skip
    buffers = {A: a, B: b if packed_b is None else packed_b}
    buffers |= {Pointer("operand", i): o for i, o in enumerate(outputs)}
    scratch = {Pointer("scratch", i): aligned(n) for i, n in enumerate(made.scratch)}
    table_of(made, buffers | scratch).run()
    for part in scratch.values():
        assert_guarded(part)
    return made


def random(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    """The same numbers with other strides."""
    if layout == "transposed":
        return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)
    if layout == "strided":
        wide = np.zeros((*array.shape[:-2], array.shape[-2] * 2, array.shape[-1] * 3), array.dtype)
        wide[..., ::2, ::3] = array
        return wide[..., ::2, ::3]
    if layout == "reversed":
        return np.ascontiguousarray(array[..., ::-1, ::-1])[..., ::-1, ::-1]
    return np.ascontiguousarray(array)


def some_bytes(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    limits = np.iinfo(dtype)
    numbers = np.random.default_rng(seed)
    return numbers.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def stand_in(monkeypatch: pytest.MonkeyPatch, other: Target) -> None:
    """Has products chosen and compiled for another processor that this one can stand in for."""
    for module in (blocking, launches, pack_launches, tile_fit, window_blocking):
        monkeypatch.setattr(module, "target", lambda: other)
