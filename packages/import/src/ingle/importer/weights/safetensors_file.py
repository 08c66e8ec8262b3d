"""Safetensors files, alone or sharded with an index: https://github.com/huggingface/safetensors."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..errors import WeightsError
from .source import TabledWeights, Weights, let_go, mapped, possible, view

DTYPES: dict[str, np.dtype] = {
    "F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16), "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2), "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "I64": np.dtype("<i8"), "I32": np.dtype("<i4"), "I16": np.dtype("<i2"), "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"), "U32": np.dtype("<u4"), "U16": np.dtype("<u2"), "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"), "C64": np.dtype("<c8"),
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}
BYTES = np.dtype(np.complex128)
"""As large as any element."""
LARGEST_HEADER = 100_000_000
"""Bytes; the format's own limit."""
INDEX = ".index.json"


class _Entry(NamedTuple):
    kind: str
    shape: tuple[int, ...]
    start: int


class Safetensors(TabledWeights[_Entry]):
    """One safetensors file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._data = mapped(path)
        header, first = self._header()
        self.metadata = dict(header.pop("__metadata__", None) or {})
        self._entries = {name: self._entry(name, e, first) for name, e in header.items()}

    def _wrong(self, what: str) -> WeightsError:
        return WeightsError(f"{self.path}: it is damaged or no safetensors file: {what}")

    def _header(self) -> tuple[dict[str, Any], int]:
        size = len(self._data)
        length = int.from_bytes(self._data[:8], "little")
        if size < 8 or length > min(size - 8, LARGEST_HEADER):
            raise self._wrong(f"its header would take {length} of {size} bytes")
        try:
            header = json.loads(self._data[8 : 8 + length])
        except (ValueError, RecursionError) as error:
            raise self._wrong(f"its header is no JSON: {error}") from error
        if not isinstance(header, dict):
            raise self._wrong("its header is no table of names")
        return header, 8 + length

    def _entry(self, name: str, entry: Any, first: int) -> _Entry:
        try:
            kind, shape, (start, stop) = (
                entry["dtype"],
                tuple(entry["shape"]),
                entry["data_offsets"],
            )
            sizes = [*shape, start, stop]
        except (KeyError, TypeError, ValueError) as error:
            raise self._wrong(f"the entry of {name!r} makes no sense: {error!r}") from error
        if not all(type(n) is int and n >= 0 for n in sizes) or not possible(shape, BYTES):
            raise self._wrong(f"{name!r} has the shape {shape} at {start} to {stop}")
        if kind not in DTYPES:
            raise WeightsError(
                f"{self.path}: {name!r} has the dtype {kind!r}, and there are {', '.join(DTYPES)}"
            )
        count = 1
        for n in shape:
            count *= n
        if count * DTYPES[kind].itemsize != stop - start or first + stop > len(self._data):
            raise self._wrong(
                f"{name!r} has the shape {shape} of {kind} at {start} to {stop}, in "
                f"{len(self._data) - first} bytes"
            )
        return _Entry(kind, shape, first + start)

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self._entries[name]
        return view(self._data, DTYPES[entry.kind], entry.shape, entry.start)

    def let_go(self, name: str) -> None:
        kind, shape, start = self._entries[name]
        let_go(self._data, start, math.prod(shape) * DTYPES[kind].itemsize)


class Sharded(Weights):
    """Several safetensors files with an index that says what lies where."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            index = json.loads(path.read_text("utf-8"))
            places = dict(index["weight_map"])
            files = {str(name) for name in places.values()}
        except OSError as error:
            raise WeightsError(f"{path}: it cannot be read: {error.strerror}") from error
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise WeightsError(
                f"{path}: this is no index of safetensors files: {error!r}"
            ) from error
        for name in files:
            if Path(name).name != name or name in ("", ".", ".."):
                raise WeightsError(f"{path}: it names {name!r}, which is no file beside it")
        self.metadata = dict(index.get("metadata") or {})
        self._shards = {name: Safetensors(path.parent / name) for name in sorted(files)}
        self._places = {name: self._shards[file] for name, file in places.items()}
        for name, shard in self._places.items():
            if name not in shard:
                raise WeightsError(f"{path}: {name!r} is not in {shard.path.name}")

    def __getitem__(self, name: str) -> np.ndarray:
        return self._places[name][name]

    def let_go(self, name: str) -> None:
        self._places[name].let_go(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._places[name].shape(name)

    def dtype(self, name: str) -> str:
        return self._places[name].dtype(name)
