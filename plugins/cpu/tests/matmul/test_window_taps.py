"""Panels whose columns are channels and taps have what NumPy finds by index, to the bit."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from ingle.fusion.device.kernels import Windows
from ingle.fusion.render.llvm.targets import AVX2, NEON, SSE2
from ingle_cpu.matmul.code import window_address
from ingle_cpu.matmul.machine import target
from ingle_cpu.matmul.window_args import window_args

CHANNELS, HIGH, BEHIND = 3, 5, 64
PACK = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 5, ctypes.c_void_p)


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize(("wide", "taps", "pad", "spread"), [
    (9, 3, 1, 1), (40, 3, 1, 1), (97, 7, 3, 1), (60, 4, 0, 2), (131, 2, 5, 4),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_panels(dtype: str, wide: int, taps: int, pad: int, spread: int, step: int) -> None:
    """What lies around the image is no number: nothing of it comes into a panel."""
    places = (HIGH, (wide + 2 * pad - spread * (taps - 1) - 1) // step + 1)
    around = np.full(BEHIND + CHANNELS * HIGH * wide + BEHIND, np.nan, dtype)
    image = around[BEHIND:-BEHIND].reshape(CHANNELS, HIGH, wide)
    image[:] = np.random.default_rng(0).standard_normal(image.shape)
    windows = Windows(
        kernel=(3, taps), places=places, steps=(1, step), spread=(1, spread), start=(-1, -pad),
        image=(HIGH, wide), strides=(wide, 1), channel=HIGH * wide, over_places=True,
        turns=1, a_turn=0, b_turn=0,
    )  # fmt: skip
    rows = CHANNELS * 3 * taps
    given = np.array(window_args(windows, rows, dtype), np.int64)
    seen = np.pad(image, ((0, 0), (1, 1), (pad, pad))).astype(
        "float64" if dtype == "float64" else "float32"
    )
    y, x = (i.ravel() for i in np.indices(places))
    c, t1, t2 = (i.ravel() for i in np.indices((CHANNELS, 3, taps)))
    wanted = seen[c, y[:, None] + t1, step * x[:, None] + spread * t2]
    known = [target()] if target() == NEON else [target(), SSE2]
    for of in {*known, AVX2} if target().width >= 32 else known:
        address = window_address(dtype, True, of)
        width = 3 * of.width // wanted.itemsize
        for column in range(0, rows, width):
            count, first = min(width, rows - column), min(column, 7)
            depth = wanted.shape[0] - first
            panel = np.full((depth + BEHIND, width), -1, wanted.dtype)
            PACK(address)(
                image.ctypes.data, given.ctypes.data, first, column, depth, count, width,
                panel.ctypes.data,
            )  # fmt: skip
            np.testing.assert_array_equal(
                panel[:depth, :count], wanted[first:, column : column + count]
            )
