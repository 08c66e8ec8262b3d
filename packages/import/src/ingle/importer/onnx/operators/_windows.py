"""Sizes and places of the windows that convolutions and pooling slide over axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor

from ...errors import ModelError
from ..values import bounded


@dataclass(frozen=True)
class Window:
    """Windows over one axis: where they start and how many fit.

    Attributes:
        size: of the axis.
        kernel, stride, dilation: of the windows.
        before, behind: how much is added at the ends.
        count: how many windows there are.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    behind: int
    count: int

    @property
    def beyond(self) -> int:
        """How far the last window reaches beyond what is there and added."""
        end = (self.count - 1) * self.stride + self.dilation * (self.kernel - 1) + 1
        return max(end - self.before - self.size - self.behind, 0)


def windows(
    name: str, sizes: tuple[int, ...], kernel: list[int], *, strides: list[int] | None = None,
    dilations: list[int] | None = None, pads: list[int] | None = None, auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> list[Window]:  # fmt: skip
    """The windows of each spatial axis, by ONNX's rules for padding."""
    n = len(sizes)
    strides, dilations = strides or [1] * n, dilations or [1] * n
    if min(strides, default=1) < 1 or min(dilations, default=1) < 1 or min(kernel, default=1) < 1:
        raise ModelError(f"{name}: kernel, strides and dilations must be 1 or more")
    if not len(kernel) == len(strides) == len(dilations) == n:
        raise ModelError(
            f"{name}: {n} spatial axes, but a kernel of {len(kernel)}, strides of {len(strides)} "
            f"and dilations of {len(dilations)}"
        )
    if auto_pad not in ("NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise ModelError(f"{name}: auto_pad {auto_pad!r} is none of ONNX's")
    given = pads if pads is not None and auto_pad in ("NOTSET", "") else [0] * 2 * n
    if len(given) != 2 * n:
        raise ModelError(f"{name}: pads must be {2 * n} numbers for {n} axes, got {given}")
    found = []
    for a in range(n):
        span = dilations[a] * (kernel[a] - 1) + 1
        before, behind = given[a], given[a + n]
        if auto_pad.startswith("SAME"):
            count = -(-sizes[a] // strides[a])
            total = max((count - 1) * strides[a] + span - sizes[a], 0)
            less, more = total // 2, total - total // 2
            before, behind = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
        else:
            room = sizes[a] + before + behind - span
            count = (-(-room // strides[a]) if ceil_mode else room // strides[a]) + 1
            if ceil_mode and (count - 1) * strides[a] >= sizes[a] + before:
                count -= 1
        if count < 0:
            raise ModelError(f"{name}: the kernel {kernel} is larger than the input {sizes}")
        found.append(Window(sizes[a], kernel[a], strides[a], dilations[a], before, behind, count))
    return found


def padded(x: Tensor, spans: list[Window], value: float, *, whole: bool = True) -> Tensor:
    """With what is added at the ends of spatial axes, and what the last window needs."""
    widths = [(0, 0)] * (x.ndim - len(spans))
    widths += [(w.before, w.behind + (w.beyond if whole else 0)) for w in spans]
    bounded("padding", [n + a + b for n, (a, b) in zip(x.shape, widths, strict=True)])
    return it.pad(x, widths, value=value) if any(a or b for a, b in widths) else x


def unfolded(x: Tensor, spans: list[Window]) -> Tensor:
    """Every window of a padded tensor: [..., *counts, *kernel]."""
    lead = x.ndim - len(spans)
    bounded("windows", [*x.shape[:lead], *(w.count * w.kernel for w in spans)])
    for i, w in enumerate(spans):
        axis = lead + 2 * i
        places = np.arange(w.count)[:, None] * w.stride + np.arange(w.kernel) * w.dilation
        shape = x.shape
        flat = it.take(x, it.asarray(places.reshape(-1), device=x.device), axis=axis)
        x = it.reshape(flat, (*shape[:axis], w.count, w.kernel, *shape[axis + 1 :]))
    order = [*range(lead), *range(lead, x.ndim, 2), *range(lead + 1, x.ndim, 2)]
    return it.permute_dims(x, order)
