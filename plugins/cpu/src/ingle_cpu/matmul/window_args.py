"""Arguments of the kernels that pack windows, for one to three image axes."""

from __future__ import annotations

import math
from typing import Generic, NamedTuple, TypeVar

from ingle.fusion.device.kernels import SIZES, Windows
from ingle.fusion.device.llvm import Writer

from .named_args import loaded_args

AXES = 3
"""Image axes that the kernels know; fewer have axes of size 1 in front."""

T = TypeVar("T")


Axis = tuple[int, int, int, int, int, int, int]
"""Taps, places, step, spread, start, size of the image, and bytes from element to element."""


class WindowArgs(NamedTuple, Generic[T]):
    """The arguments that describe windows, in int64; steps of memory are in bytes."""

    channels: T
    taps0: T
    taps1: T
    taps2: T
    places0: T
    places1: T
    places2: T
    step0: T
    step1: T
    step2: T
    spread0: T
    spread1: T
    spread2: T
    start0: T
    start1: T
    start2: T
    image0: T
    image1: T
    image2: T
    channel: T
    stride0: T
    stride1: T
    stride2: T


def loaded_window_args(writer: Writer, window: str) -> WindowArgs[str]:
    """The instructions that load them from memory.

    Args:
        writer: of the kernel.
        window: a pointer to them.
    """
    args: WindowArgs[str] = loaded_args(writer, WindowArgs, window)
    return args


def window_args(windows: Windows, rows: int, dtype: str) -> WindowArgs[int]:
    """The arguments for windows of so many channels and taps in all.

    Image axes that are walked in one go become one, so that vectors are not cut short.
    """
    size = SIZES[dtype]
    axes: list[Axis] = list(
        zip(
            windows.kernel, windows.places, windows.steps, windows.spread, windows.start,
            windows.image, [s * size for s in windows.strides], strict=True,
        )
    )  # fmt: skip
    at = len(axes) - 1
    while at > 0:
        merged = _one_axis(axes[at - 1], axes[at])
        if merged is not None:
            axes[at - 1 : at + 1] = [merged]
        at -= 1
    axes = [(1, 1, 1, 1, 0, 1, 0)] * (AXES - len(axes)) + axes
    by_axis = [n for column in zip(*axes, strict=True) for n in column]
    channels = rows // math.prod(windows.kernel)
    before, behind = by_axis[: 6 * AXES], by_axis[6 * AXES :]
    return WindowArgs._make((channels, *before, windows.channel * size, *behind))


def _one_axis(outer: Axis, inner: Axis) -> Axis | None:
    """Two neighbouring image axes as one, where windows are single elements of all of both."""
    for kernel, places, step, _, start, image, _ in (outer, inner):
        if kernel != 1 or step != 1 or start != 0 or places != image:
            return None
    if outer[-1] != inner[-1] * inner[5]:
        return None
    return (1, outer[1] * inner[1], 1, 1, 0, outer[5] * inner[5], inner[-1])
