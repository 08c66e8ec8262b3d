"""Reading checkpoint files, and saying what is wrong with those that cannot be read."""

from __future__ import annotations

import difflib
import json
import math
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ingle.tensor.dtypes import as_dtype
from ingle.tensor.errors import IngleError

_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32",
    "I32": "int32", "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16",
    "F32": "float32", "F64": "float64", "C64": "complex64",
}  # fmt: skip
SAFETENSORS_NAMES = {ours: theirs for theirs, ours in _DTYPES.items()}
_LONGEST_HEADER = 100_000_000  # safetensors' own limit


class CheckpointError(IngleError, ValueError):
    """A checkpoint cannot be written or read; the message says why and what to do."""


class CheckpointNotFoundError(CheckpointError, FileNotFoundError):
    """There is no file of that name."""


@dataclass
class Contents:
    """A file's arrays and what its manifest says; `format` is None where there is no manifest."""

    arrays: dict[str, np.ndarray]
    format: int | None = None
    tied: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    metadata: Any = field(default_factory=dict)


def read(path: Path, newest: int) -> Contents:
    """The contents of a file of any format up to `newest`."""
    data = _bytes(path)
    header, start = _header(path, data)
    manifest = _manifest(path, header, newest)
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    try:
        _check_length(path, len(data), start, entries)
        arrays = {name: _array(path, name, e, data, start) for name, e in entries.items()}
        if manifest is None:
            return Contents(arrays, metadata=header.get("__metadata__", {}))
        _check_sums(path, arrays, manifest["crc32"])
        return Contents(
            arrays, manifest["format"], manifest["tied"], manifest["values"], manifest["metadata"]
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise _damaged(path, f"its header makes no sense: {error!r}") from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CheckpointNotFoundError(f"{path}: there is no such file{_nearby(path)}") from None
    except IsADirectoryError:
        raise CheckpointError(
            f"{path}: this is a folder, not a checkpoint file{_nearby(path / '_')}"
        ) from None


def _nearby(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; the folder {path.parent} does not exist either"
    names = [p.name for p in path.parent.iterdir() if p.suffix == ".safetensors"]
    if not names:
        return f"; the folder {path.parent} holds no .safetensors file"
    close = difflib.get_close_matches(path.name, names, n=3, cutoff=0.0)
    return f"; the folder holds for example {', '.join(close)}"


def _header(path: Path, data: bytes) -> tuple[dict[str, Any], int]:
    """The header, and where the bytes of tensors begin."""
    if len(data) < 8:
        raise _damaged(path, f"it has {len(data)} bytes, less than the shortest header")
    length = int.from_bytes(data[:8], "little")
    if length > _LONGEST_HEADER or data[8:9] not in (b"{", b""):
        raise CheckpointError(f"{path}: this is not a checkpoint: {_other_kind(data)}")
    if 8 + length > len(data):
        raise _damaged(path, f"it ends inside its header, at {len(data)} of {8 + length} bytes")
    try:
        header = json.loads(data[8 : 8 + length])
    except ValueError as error:
        raise _damaged(path, f"its header is no JSON: {error}") from error
    if not isinstance(header, dict):
        raise _damaged(path, "its header is no JSON object")
    return header, 8 + length


def _other_kind(data: bytes) -> str:
    if data[:2] in (b"PK", b"\x80\x02", b"\x80\x04", b"\x80\x05"):
        return (
            "it is a pickled PyTorch file. Convert it where PyTorch is installed: "
            "safetensors.torch.save_file(torch.load(path, weights_only=True), new_path)"
        )
    return (
        "it does not begin with a safetensors header. Give a file written by ingle.nn.save or "
        "another safetensors writer"
    )


def _manifest(path: Path, header: dict[str, Any], newest: int) -> dict[str, Any] | None:
    text = header.get("__metadata__", {}).get("ingle")
    if text is None:
        return None
    try:
        manifest = json.loads(text)
        version = int(manifest["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, f"its manifest cannot be read: {error!r}") from error
    if version > newest:
        raise CheckpointError(
            f"{path}: it has format {version}, and this ingle-nn reads formats up to {newest}; "
            "upgrade with `pip install --upgrade ingle-nn`"
        )
    return dict(manifest)


def _check_length(path: Path, have: int, start: int, entries: dict[str, Any]) -> None:
    need = start + max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    if have < need:
        raise _damaged(path, f"it is cut off, at {have} of {need} bytes")


def _array(path: Path, name: str, entry: dict[str, Any], data: bytes, start: int) -> np.ndarray:
    kind = _DTYPES.get(entry["dtype"])
    if kind is None:
        raise CheckpointError(
            f"{path}: {name!r} has the dtype {entry['dtype']}, which Ingle does not have; it has "
            f"{', '.join(_DTYPES)}"
        )
    dtype, shape = as_dtype(kind).dtype, tuple(entry["shape"])
    begin, end = entry["data_offsets"]
    if not 0 <= begin <= end or end - begin != math.prod(shape) * dtype.itemsize:
        raise _damaged(path, f"{name!r} of shape {shape} lies at {begin} to {end}")
    return np.frombuffer(data, dtype, math.prod(shape), start + begin).reshape(shape)


def _check_sums(path: Path, arrays: dict[str, np.ndarray], sums: dict[str, int]) -> None:
    for name, checksum in sums.items():
        if zlib.crc32(arrays[name].reshape(-1).view(np.uint8).data) != checksum:
            raise _damaged(path, f"the checksum of {name!r} does not match")


def _damaged(path: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: the file is damaged: {what}. Copy or download it again, or use an earlier "
        "checkpoint; ingle.nn.save never leaves a half-written file"
    )
