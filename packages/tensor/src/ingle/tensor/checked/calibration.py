"""Ranges and scales for codes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..sample import Checked, Draw, Sample


def _numbers(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        yield Sample((draw.apart((3, 5)),))
        yield Sample((draw.apart((2, 3, 4)),), {"axis": (0, -1)})
        yield Sample((draw.apart((2, 8)),), {"block_size": 4})
        yield Sample((draw.apart((4, 6)),), {"block_size": (2, 3), "method": "absmean"})


def _range(x: Any, *, axis: Any = None, block_size: Any = None, method: str = "minmax") -> Any:
    if axis is None and block_size is None:
        low, high = np.min(x), np.max(x)
    else:
        own = {a % x.ndim for a in axis or ()}
        whole = tuple(1 if i in own else n for i, n in enumerate(x.shape))
        sizes = block_size or whole
        sizes = sizes if isinstance(sizes, tuple) else (*[1] * (x.ndim - 1), sizes)
        split = [v for n, b in zip(x.shape, sizes, strict=True) for v in (n // b, b)]
        inner = tuple(range(1, 2 * x.ndim, 2))
        blocks = x.reshape(split)
        if method == "absmean":
            size = np.mean(np.abs(blocks), axis=inner)
            return -size, size
        low, high = np.min(blocks, axis=inner), np.max(blocks, axis=inner)
    return low, high


def _ends(draw: Draw) -> Iterator[Sample]:
    # A half type's rounding can move a zero point by one.
    if draw.dtype.is_floating and draw.dtype.bits > 16:
        low, high = draw.array((3, 1), low=-3, high=-0.5), draw.array((3, 1), low=1, high=2)
        yield Sample((low, high), {"dtype": "uint8", "scheme": "affine"}, gradient=False)
        yield Sample((high, high + 1), {"dtype": "int8", "scheme": "affine"}, gradient=False)


def _parameters(low: Any, high: Any, *, dtype: str, scheme: str) -> tuple[Any, Any]:
    info = np.iinfo(dtype)
    bottom, top = np.minimum(low, 0), np.maximum(high, 0)
    scale = (top - bottom) / (info.max - info.min)
    return scale, np.clip(info.min - np.rint(bottom / scale), info.min, info.max)


Checked(ops.quantization_range, samples=_numbers, reference=_range)
Checked(ops.quantization_parameters, samples=_ends, reference=_parameters)
