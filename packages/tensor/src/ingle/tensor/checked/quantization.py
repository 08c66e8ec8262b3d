"""Quantization with PyTorch's arguments, and narrow integers packed into bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..dtypes import as_dtype
from ..operation import Traits
from ..sample import Checked, Draw, Sample


def _whole(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.name in ("float32", "float64"):
        for shape in ((3, 5), (17,), (0,)):
            x = draw.array(shape, low=-9.0, high=9.0)
            # The gradient passes straight through the rounding, by definition.
            yield Sample((x, 0.5, 1, 0, 15), gradient=False)
            yield Sample((x, 0.25, 0, -8, 7), gradient=False)


def _faked(x: Any, scale: Any, zero_point: Any, low: int, high: int) -> Any:
    return (np.clip(np.rint(x / scale) + zero_point, low, high) - zero_point) * scale


Checked(ops.fake_quantize_per_tensor_affine, samples=_whole, reference=_faked)


def _by_channel(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.name in ("float32", "float64"):
        for shape, axis in (((3, 5), 0), ((2, 3, 5), 1)):
            n, x = draw.size(shape[axis]), draw.array(shape, low=-9.0, high=9.0)
            x = np.resize(x, [n if i == axis else m for i, m in enumerate(shape)])
            scale, zero = draw.array((n,), low=0.25, high=1.0), draw.integers((n,), 4)
            yield Sample((x, scale, zero, axis, -8, 7), gradient=False)


def _channels(x: Any, scale: Any, zero_point: Any, axis: int, low: int, high: int) -> Any:
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    return _faked(x, scale.reshape(shape), zero_point.reshape(shape), low, high)


Checked(ops.fake_quantize_per_channel_affine, samples=_by_channel, reference=_channels)

NARROW = ("int4", "uint4", "int2", "uint2")
_EXACT = Traits("opaque", storage=True)


def _numbers(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.name == "uint8":
        for name in NARROW:
            dtype = as_dtype(name)
            for shape in ((2, 5), (8,), (0,)):
                bits = draw.integers(shape, 1 << dtype.bits)
                if dtype.is_signed:
                    bits = bits - (1 << (dtype.bits - 1))
                yield Sample((bits.astype(dtype.dtype),), gradient=False, exact=True)


def _packed(x: Any) -> Any:
    bits = as_dtype(x.dtype).bits
    count = 8 // bits
    codes = x.astype(np.int64) % (1 << bits)
    codes = np.pad(codes, [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % count)])
    groups = codes.reshape(*x.shape[:-1], -(-x.shape[-1] // count), count)
    return np.sum(groups << (bits * np.arange(count)), axis=-1).astype(np.uint8)


def _bytes(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.name == "uint8":
        for name in NARROW:
            x = draw.integers((2, 3), 256, "uint8")
            yield Sample((x, name), gradient=False, exact=True)
            size = 3 * (8 // as_dtype(name).bits) - 1
            yield Sample((x[:, :3], name), {"size": size}, gradient=False, exact=True)
            into = "int8" if as_dtype(name).is_signed else "uint8"
            yield Sample((x, name), {"into": into}, gradient=False, exact=True)


def _unpacked(x: Any, name: str, size: int | None = None, into: str | None = None) -> Any:
    dtype = as_dtype(name)
    count = 8 // dtype.bits
    codes = (x[..., None].astype(np.int64) >> (dtype.bits * np.arange(count))) % (1 << dtype.bits)
    if dtype.is_signed:
        half = 1 << (dtype.bits - 1)
        codes = (codes + half) % (2 * half) - half
    return codes.reshape(*x.shape[:-1], x.shape[-1] * count)[..., :size].astype(into or dtype.dtype)


Checked(ops.pack, samples=_numbers, reference=_packed, traits=_EXACT, differentiable=False)
Checked(ops.unpack, samples=_bytes, reference=_unpacked, traits=_EXACT, differentiable=False)
