"""NumPy's `.npz` and `.npy` files; objects in them, which would run code, are refused."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from ..errors import WeightsError
from .source import Weights, possible

DAMAGE = (
    zipfile.BadZipFile, zlib.error, tokenize.TokenError, EOFError, OSError, ValueError, KeyError,
    TypeError, SyntaxError, NotImplementedError, OverflowError, RuntimeError, MemoryError,
)  # fmt: skip
"""What the readers of archives raise for contents that make no sense."""
FACTOR = 200
"""How many times its size in the file a large array may become."""
MOST_FROM_LITTLE = 1 << 28
"""Bytes of an array up to which it may become more than that."""
LARGEST = 1 << 35
"""Bytes of one array; compressed files may claim to hold any number."""


class Npz(Weights):
    """Arrays by name, each unpacked when it is asked for."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            self._zip = zipfile.ZipFile(path)
            self._shapes = {
                info.filename.removesuffix(".npy"): self._read_header(info)
                for info in self._zip.infolist()
                if info.filename.endswith(".npy")
            }
        except WeightsError:
            raise
        except DAMAGE as error:
            raise WeightsError(f"{path}: it is damaged or no .npz file: {error}") from error

    def _read_header(self, info: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype]:
        with self._zip.open(info) as file:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(file)
        if dtype.hasobject:
            raise WeightsError(
                f"{self.path}: {info.filename!r} holds Python objects, which reading would run; "
                "save numbers only"
            )
        count = math.prod(shape, start=dtype.itemsize)
        if min(shape, default=0) < 0 or not possible(shape, dtype) or count > LARGEST:
            raise ValueError(f"{info.filename!r} claims the shape {shape}")
        if count > info.file_size:
            raise ValueError(f"{info.filename!r} of shape {shape} is cut off")
        if count > MOST_FROM_LITTLE and count > FACTOR * info.compress_size:
            raise WeightsError(
                f"{self.path}: refused: {info.filename!r} is {info.compress_size} bytes that claim "
                f"to become {count}, as in a zip bomb; save it without compression"
            )
        return shape, dtype

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            with self._zip.open(f"{name}.npy") as file:
                return npy.read_array(file, allow_pickle=False)
        except DAMAGE as error:
            raise WeightsError(f"{self.path}: {name!r} is damaged: {error}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._shapes[name][0]

    def dtype(self, name: str) -> str:
        return self._shapes[name][1].name
