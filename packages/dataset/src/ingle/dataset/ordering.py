"""Shuffled orders that are the same on every machine and with every NumPy.

NumPy keeps the raw output of its bit generators for ever, but not what `Generator.permutation`
makes of it (NEP 19). So an order is the stable sort of raw Philox words.
"""

from __future__ import annotations

import operator

import numpy as np
from numpy.typing import NDArray

from .base import Indices
from .errors import DataValueError


def shuffled(count: int, seed: int, stream: int = 0) -> Indices:
    """The numbers 0 to `count - 1` in the order of (seed, stream).

    >>> from ingle.dataset.ordering import shuffled
    >>> shuffled(6, seed=0).tolist() == shuffled(6, seed=0).tolist()
    True
    """
    raw = _philox(seed, stream).random_raw(count)
    return np.argsort(raw, kind="stable").astype(np.int64)


def uniforms(count: int, seed: int, stream: int = 0, use: int = 0) -> NDArray[np.float64]:
    """Numbers from 0 up to 1 of (seed, stream, use), apart from what `shuffled` draws."""
    # The highest blocks: `generator` takes those from 1 on, one for each batch.
    raw = _philox(seed, stream, (1 << 64) - 1 - use).random_raw(count)
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53


def generator(seed: int, stream: int, substream: int) -> np.random.Generator:
    """A generator of its own for each (seed, stream, substream), apart from that of `shuffled`."""
    return np.random.Generator(_philox(seed, stream, substream + 1))


def _philox(seed: int, stream: int, block: int = 0) -> np.random.Philox:
    key = np.array([seed, stream], dtype=np.uint64)
    # The first counter word is the position in the stream; the second parts the streams.
    return np.random.Philox(key=key, counter=np.array([0, block, 0, 0], dtype=np.uint64))


def as_seed(seed: object, name: str) -> int:
    """A seed as a Python integer from 0 to 2**64 - 1."""
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise DataValueError(f"{name}: seed must be an integer, got {seed!r}")
    number = operator.index(seed)
    if not 0 <= number < 1 << 64:
        raise DataValueError(f"{name}: seed must be from 0 to 2**64 - 1, got {number}")
    return number
