"""The block quantizations of GGUF: numbers of bytes, as llama.cpp defines them.

A block holds 32 numbers, or 256 in the kinds with a K, whose 16 or 8 sub-blocks have scales of
their own. `d` is a block's scale, `m` its smallest number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Blocks = np.ndarray
"""[blocks, bytes of each]."""

Numbers: TypeAlias = Any
"""An array of numbers, of a dtype that NumPy's operators leave open."""


def _half(b: Blocks, at: int) -> np.ndarray:
    """A float16 at a place of every block, as a column of float32."""
    return np.ascontiguousarray(b[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(b: Blocks) -> np.ndarray:
    """The lower halves of all bytes, then the upper ones."""
    return np.concatenate([b & 15, b >> 4], axis=-1).astype(np.int16)


def _fifth_bits(b: Blocks, at: int) -> np.ndarray:
    """The bit of each of 32 numbers that does not fit into its half byte."""
    bits = np.unpackbits(b[:, at : at + 4], axis=1, bitorder="little")
    return (bits << 4).astype(np.int16)


def _q4_0(b: Blocks) -> Numbers:
    return (_nibbles(b[:, 2:]) - 8) * _half(b, 0)


def _q4_1(b: Blocks) -> Numbers:
    return _nibbles(b[:, 4:]) * _half(b, 0) + _half(b, 2)


def _q5_0(b: Blocks) -> Numbers:
    return ((_nibbles(b[:, 6:]) | _fifth_bits(b, 2)) - 16) * _half(b, 0)


def _q5_1(b: Blocks) -> Numbers:
    return (_nibbles(b[:, 8:]) | _fifth_bits(b, 4)) * _half(b, 0) + _half(b, 2)


def _q8_0(b: Blocks) -> Numbers:
    return b[:, 2:].view(np.int8) * _half(b, 0)


def _crumbs(b: Blocks) -> np.ndarray:
    """64 bytes as 256 numbers of two bits, in 16 rows of 16."""
    shifts = np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)
    return (b.reshape(-1, 2, 1, 32) >> shifts & 3).reshape(-1, 16, 16).astype(np.int16)


def _q2_k(b: Blocks) -> Numbers:
    scales = b[:, :16]
    d, m = _half(b, 80) * (scales & 15), _half(b, 82) * (scales >> 4)
    return (_crumbs(b[:, 16:80]) * d[..., None] - m[..., None]).reshape(len(b), 256)


def _q3_k(b: Blocks) -> Numbers:
    packed = b[:, 96:108]
    low = _nibbles(packed[:, :8])
    high = (packed[:, None, 8:] >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3).reshape(-1, 16)
    scales = (low | high.astype(np.int16) << 4) - 32
    bits = b[:, None, :32] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    q = _crumbs(b[:, 32:96]) - 4 * (1 - bits.reshape(-1, 16, 16).astype(np.int16))
    return (q * (_half(b, 108) * scales)[..., None]).reshape(len(b), 256)


def _eight_scales(b: Blocks, at: int) -> tuple[np.ndarray, np.ndarray]:
    """Eight scales and eight smallest numbers of six bits each, in twelve bytes."""
    first, second, third = (b[:, at + i : at + i + 4] for i in (0, 4, 8))
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6) << 4], axis=1)
    least = np.concatenate([second & 63, (third >> 4) | (second >> 6) << 4], axis=1)
    return scales, least


def _by_eight(b: Blocks, q: np.ndarray) -> Numbers:
    scales, least = _eight_scales(b, 4)
    d, m = _half(b, 0) * scales, _half(b, 2) * least
    return (q * d[..., None] - m[..., None]).reshape(len(b), 256)


def _halves(b: Blocks) -> np.ndarray:
    """128 bytes as 8 rows of 32 numbers: the lower halves of 32 bytes, then their upper ones."""
    return _nibbles(b.reshape(-1, 4, 32)).reshape(-1, 8, 32)


def _q4_k(b: Blocks) -> Numbers:
    return _by_eight(b, _halves(b[:, 16:]))


def _q5_k(b: Blocks) -> Numbers:
    bits = b[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return _by_eight(b, _halves(b[:, 48:]) | bits.astype(np.int16) << 4)


def _q6_k(b: Blocks) -> Numbers:
    low = _nibbles(b[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)
    high = (b[:, 128:192].reshape(-1, 2, 1, 32) >> shifts & 3).astype(np.int16)
    q = (low | high << 4).reshape(-1, 16, 16) - 32
    scales = np.ascontiguousarray(b[:, 192:208]).view(np.int8)
    return (q * (_half(b, 208) * scales)[..., None]).reshape(len(b), 256)


LEVELS = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32
)
"""Sixteen numbers that lie closer together near zero."""


def _iq4_nl(b: Blocks) -> Numbers:
    return LEVELS[_nibbles(b[:, 2:])] * _half(b, 0)


def _iq4_xs(b: Blocks) -> Numbers:
    high = np.ascontiguousarray(b[:, 2:4]).view("<u2") >> 2 * np.arange(8, dtype=np.uint16) & 3
    low = (b[:, 4:8, None] >> np.array([0, 4], np.uint8) & 15).reshape(-1, 8)
    scales = (low.astype(np.int16) | high.astype(np.int16) << 4) - 32
    q = LEVELS[_nibbles(b[:, 8:].reshape(-1, 8, 16))]
    return ((_half(b, 0) * scales)[..., None] * q).reshape(len(b), 256)


FLOAT4 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)
"""The doubles of what four bits of floating point hold."""


def _mxfp4(b: Blocks) -> Numbers:
    exponent = b[:, :1].astype(np.int32) - 128
    return FLOAT4[_nibbles(b[:, 1:])] * np.ldexp(np.float32(1), exponent).astype(np.float32)


KINDS: dict[str, tuple[int, int, int, Callable[[Blocks], np.ndarray]]] = {
    "Q4_0": (2, 32, 18, _q4_0), "Q4_1": (3, 32, 20, _q4_1), "Q5_0": (6, 32, 22, _q5_0),
    "Q5_1": (7, 32, 24, _q5_1), "Q8_0": (8, 32, 34, _q8_0), "Q2_K": (10, 256, 84, _q2_k),
    "Q3_K": (11, 256, 110, _q3_k), "Q4_K": (12, 256, 144, _q4_k), "Q5_K": (13, 256, 176, _q5_k),
    "Q6_K": (14, 256, 210, _q6_k), "IQ4_NL": (20, 32, 18, _iq4_nl),
    "IQ4_XS": (23, 256, 136, _iq4_xs), "MXFP4": (39, 32, 17, _mxfp4),
}  # fmt: skip
"""GGUF's number, the numbers and the bytes of a block, and what reads it."""


def unpacked(kind: str, data: np.ndarray) -> np.ndarray:
    """The float32 numbers of blocks in a row."""
    _, count, size, read = KINDS[kind]
    blocks = data.reshape(-1, size)
    with np.errstate(all="ignore"):
        return read(blocks).astype(np.float32).reshape(len(blocks) * count)


def _away(x: np.ndarray) -> Numbers:
    """Rounded, halves away from zero."""
    return np.trunc(x + np.copysign(0.5, x))


def _stored_half(d: np.ndarray) -> np.ndarray:
    return d.astype("<f2").view(np.uint8)


def _inverse(d: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.where(d == 0, np.float32(0), np.float32(1) / d)


def _paired(q: np.ndarray) -> Numbers:
    return q[:, :16] | q[:, 16:] << 4


def _pack_q8_0(x: np.ndarray) -> np.ndarray:
    d = np.abs(x).max(1, keepdims=True) / np.float32(127)
    q = _away(x * _inverse(d)).astype(np.int8)
    return np.concatenate([_stored_half(d), q.view(np.uint8)], axis=1)


def _pack_q4_0(x: np.ndarray) -> np.ndarray:
    most = np.take_along_axis(x, np.abs(x).argmax(1, keepdims=True), 1)
    d = most / np.float32(-8)
    q = np.clip(np.trunc(x * _inverse(d) + np.float32(8.5)), 0, 15).astype(np.uint8)
    return np.concatenate([_stored_half(d), _paired(q)], axis=1)


def _pack_q4_1(x: np.ndarray) -> np.ndarray:
    least, most = x.min(1, keepdims=True), x.max(1, keepdims=True)
    d = (most - least) / np.float32(15)
    q = np.clip(np.trunc((x - least) * _inverse(d) + np.float32(0.5)), 0, 15).astype(np.uint8)
    return np.concatenate([_stored_half(d), _stored_half(least), _paired(q)], axis=1)


PACKERS = {"Q8_0": _pack_q8_0, "Q4_0": _pack_q4_0, "Q4_1": _pack_q4_1}
"""What numbers can be written as."""


def packed(kind: str, x: np.ndarray) -> np.ndarray:
    """The bytes of blocks that hold these numbers as nearly as they can."""
    return PACKERS[kind](np.ascontiguousarray(x, np.float32).reshape(-1, KINDS[kind][1])).reshape(
        -1
    )
