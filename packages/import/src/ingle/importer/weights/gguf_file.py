"""GGUF files: a table of settings, then tensors, many of them quantized in blocks.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import ml_dtypes
import numpy as np

from ingle.nn import atomic_write

from ..errors import WeightsError
from .gguf_blocks import KINDS, PACKERS, packed, unpacked
from .source import TabledWeights, let_go, mapped, possible, view

MAGIC = b"GGUF"
PLAIN: dict[str, tuple[int, np.dtype]] = {
    "F32": (0, np.dtype("<f4")), "F16": (1, np.dtype("<f2")), "I8": (24, np.dtype("i1")),
    "I16": (25, np.dtype("<i2")), "I32": (26, np.dtype("<i4")), "I64": (27, np.dtype("<i8")),
    "F64": (28, np.dtype("<f8")), "BF16": (30, np.dtype(ml_dtypes.bfloat16)),
}  # fmt: skip
BY_NUMBER = {number: kind for kind, (number, _) in PLAIN.items()}
BY_NUMBER |= {entry[0]: kind for kind, entry in KINDS.items()}
NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
STRING, ARRAY = 8, 9
ALIGNMENT = "general.alignment"


class _TensorInfo(NamedTuple):
    kind: str
    shape: tuple[int, ...]
    start: int
    size: int


class _Cursor:
    """Reads one thing after the other; a length that the file cannot have is an error."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.at = 0

    def wrong(self, what: str) -> WeightsError:
        return WeightsError(f"{self.path}: it is damaged or no GGUF file: {what}")

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise self.wrong(
                f"at byte {self.at} it claims {count} more, of {len(self.data)} in all"
            )
        found = self.data[self.at : self.at + count]
        self.at += count
        return found

    def number(self, kind: str) -> Any:
        return struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))[0]

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", "surrogateescape")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == STRING:
            return self.text()
        if kind != ARRAY or depth > 3:
            raise self.wrong(f"a setting before byte {self.at} is of the kind {kind}")
        inner, count = self.number("I"), self.number("Q")
        if inner in NUMBERS:
            size = struct.calcsize(f"<{NUMBERS[inner]}")
            if count > len(self.data) // size:
                raise self.wrong(f"a list before byte {self.at} claims {count} numbers")
            return list(struct.unpack(f"<{count}{NUMBERS[inner]}", self.take(count * size)))
        if count > len(self.data) // 8:
            raise self.wrong(f"a list before byte {self.at} claims {count} entries")
        return [self.value(inner, depth + 1) for _ in range(count)]


class Gguf(TabledWeights[_TensorInfo]):
    """A GGUF file: its settings are `metadata`, quantized tensors are read as float32."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._data = mapped(path)
        cursor = _Cursor(path, self._data)
        if cursor.take(4) != MAGIC:
            raise cursor.wrong("it does not begin with GGUF")
        version = cursor.number("I")
        if version not in (2, 3):
            raise WeightsError(
                f"{path}: it has version {version}; 2 and 3 of little-endian are read"
            )
        tensors, settings = cursor.number("Q"), cursor.number("Q")
        if max(tensors, settings) > len(self._data) // 8:
            raise cursor.wrong(f"it claims {tensors} tensors and {settings} settings")
        for _ in range(settings):
            name = cursor.text()
            self.metadata[name] = cursor.value(cursor.number("I"))
        self._entries: dict[str, _TensorInfo] = {}
        for _ in range(tensors):
            self._read_entry(cursor)
        align = self.metadata.get(ALIGNMENT, 32)
        if type(align) is not int or align < 1:
            raise cursor.wrong(f"{ALIGNMENT} is {align!r}")
        self._first = -(-cursor.at // align) * align
        for name, entry in self._entries.items():
            if self._first + entry.start + entry.size > len(self._data):
                raise cursor.wrong(f"{name!r} of {entry.size} bytes at {entry.start} is cut off")

    def _read_entry(self, cursor: _Cursor) -> None:
        name, ndim = cursor.text(), cursor.number("I")
        if ndim > 8:
            raise cursor.wrong(f"{name!r} has {ndim} axes")
        shape = tuple(cursor.number("Q") for _ in range(ndim))[::-1]
        if not possible(shape, np.dtype(np.float64)):
            raise cursor.wrong(f"{name!r} has the shape {shape}")
        number, start = cursor.number("I"), cursor.number("Q")
        kind = BY_NUMBER.get(number)
        if kind is None:
            raise WeightsError(
                f"{self.path}: {name!r} is quantized as number {number}, which is none of "
                f"{', '.join(BY_NUMBER.values())}; convert it with llama.cpp's llama-quantize"
            )
        count = 1
        for n in shape:
            count *= n
        if kind in PLAIN:
            size = count * PLAIN[kind][1].itemsize
        else:
            _, each, block, _ = KINDS[kind]
            if not shape or shape[-1] % each:
                raise cursor.wrong(f"{name!r} of shape {shape} is no row of blocks of {each}")
            size = count // each * block
        self._entries[name] = _TensorInfo(kind, shape, start, size)

    def raw(self, name: str) -> np.ndarray:
        """The bytes of a tensor as they are stored."""
        entry = self._entries[name]
        return view(self._data, np.dtype(np.uint8), (entry.size,), self._first + entry.start)

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self._entries[name]
        if entry.kind in PLAIN:
            return view(self._data, PLAIN[entry.kind][1], entry.shape, self._first + entry.start)
        return unpacked(entry.kind, self.raw(name)).reshape(entry.shape)

    def let_go(self, name: str) -> None:
        entry = self._entries[name]
        let_go(self._data, self._first + entry.start, entry.size)


def write_gguf(
    path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray],
    metadata: Mapping[str, Any], kinds: Mapping[str, str],
) -> None:  # fmt: skip
    """Writes a file of version 3.

    Args:
        path: of the file, which is there as a whole or not at all.
        arrays: by name.
        metadata: bools, ints, floats, strings, and lists of one of these.
        kinds: how to store each array: a plain dtype's name, or `Q8_0`, `Q4_0`, `Q4_1`.
    """
    align = int(metadata.get(ALIGNMENT, 32))
    head = [MAGIC, struct.pack("<IQQ", 3, len(arrays), len(metadata))]
    for name, value in metadata.items():
        head += [_text(name), *_setting(name, value)]
    start, data = 0, []
    for name, array in arrays.items():
        kind = kinds[name]
        number, stored = _encoded(name, array, kind)
        head += [_text(name), struct.pack("<I", array.ndim)]
        head.append(struct.pack(f"<{array.ndim}Q", *array.shape[::-1]))
        head.append(struct.pack("<IQ", number, start))
        data.append(stored)
        start += -(-stored.nbytes // align) * align
    lead = b"".join(head)
    with atomic_write(path) as file:
        file.write(lead)
        _fill(file, len(lead), align)
        for stored in data:
            file.write(stored.tobytes())
            _fill(file, stored.nbytes, align)


def _fill(file: IO[bytes], size: int, align: int) -> None:
    file.write(b"\0" * (-size % align))


def _encoded(name: str, array: np.ndarray, kind: str) -> tuple[int, np.ndarray]:
    if kind in PLAIN:
        number, dtype = PLAIN[kind]
        return number, np.ascontiguousarray(array, dtype)
    if kind not in PACKERS:
        raise WeightsError(f"{name!r}: numbers are written as {', '.join([*PLAIN, *PACKERS])}")
    each = KINDS[kind][1]
    if not array.ndim or array.shape[-1] % each:
        raise WeightsError(
            f"{name!r}: {kind} needs rows of a multiple of {each} numbers, got {array.shape}"
        )
    return KINDS[kind][0], packed(kind, array)


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def _kind(name: str, value: Any) -> int:
    if isinstance(value, bool):
        return 7
    if isinstance(value, int):
        return 4 if 0 <= value < 1 << 32 else 11
    if isinstance(value, float):
        return 6
    if isinstance(value, str):
        return STRING
    raise WeightsError(f"the setting {name!r} is a {type(value).__name__}, which GGUF has not")


def _setting(name: str, value: Any) -> Iterator[bytes]:
    if isinstance(value, (list, tuple)):
        kinds = {_kind(name, v) for v in value} or {4}
        kind = 11 if kinds == {4, 11} else min(kinds)
        yield struct.pack("<IIQ", ARRAY, kind, len(value))
        yield from (_content(kind, v) for v in value)
    else:
        kind = _kind(name, value)
        yield struct.pack("<I", kind)
        yield _content(kind, value)


def _content(kind: int, value: Any) -> bytes:
    return _text(value) if kind == STRING else struct.pack(f"<{NUMBERS[kind]}", value)
