"""Reading checkpoint files, and saying what is wrong with those that cannot be read."""

from __future__ import annotations

import json
import math
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from ingle.tensor import float8_e4m3fn, float8_e5m2
from ingle.tensor.argument_checks import nearest
from ingle.tensor.dtypes import STORAGE_DTYPES
from ingle.tensor.errors import IngleError

_FLOAT8 = {"F8_E4M3": float8_e4m3fn, "F8_E5M2": float8_e5m2}
"""Dtypes of safetensors that its reader of NumPy arrays does not know."""


_NONSENSE = (
    KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError,
)  # fmt: skip
"""What JSON of another form than the one expected leads to."""


class CheckpointError(IngleError, ValueError):
    """A checkpoint cannot be written or read; the message says why and what to do.

    >>> import pathlib, tempfile
    >>> from ingle import nn
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "torn.safetensors"
    >>> _ = path.write_bytes(b"half")
    >>> try:
    ...     nn.load(path)
    ... except nn.CheckpointError as error:
    ...     print("torn.safetensors" in str(error))
    True
    """


class CheckpointNotFoundError(CheckpointError, FileNotFoundError):
    """There is no file of that name.

    >>> from ingle import nn
    >>> nn.load("nothing.safetensors")
    Traceback (most recent call last):
    ...
    ingle.nn.reading.CheckpointNotFoundError: nothing.safetensors: there is no such file; ...
    """


@dataclass
class Contents:
    """A file's arrays and what its manifest says; `format` is None where there is no manifest."""

    arrays: dict[str, np.ndarray]
    format: int | None = None
    packed: dict[str, Any] = field(default_factory=dict)
    tied: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    metadata: Any = field(default_factory=dict)


def checksum(array: np.ndarray) -> int:
    """A CRC-32 of an array's dtype, shape and bytes in C order."""
    kind = zlib.crc32(f"{array.dtype.name} {array.shape}".encode())
    return zlib.crc32(array.reshape(-1).view(np.uint8).data, kind)


def seal(manifest: Mapping[str, Any]) -> int:
    """A CRC-32 of a manifest as JSON gives it back, in which keys are strings."""
    rest = {name: value for name, value in manifest.items() if name != "seal"}
    return zlib.crc32(json.dumps(rest, sort_keys=True).encode())


def read(path: Path, newest: int) -> Contents:
    """The contents of a file of any format up to `newest`."""
    start = _start(path)
    try:
        with safe_open(path, framework="np") as file:
            notes = file.metadata() or {}
            manifest = _manifest(path, notes, newest)
            arrays = {name: _array(path, file, name) for name in file.keys()}  # noqa: SIM118
    except OSError as error:
        raise CheckpointError(f"{path}: it cannot be read: {error}") from error
    except SafetensorError as error:
        if start[8:9] in (b"{", b""):
            raise _damaged(path, f"{error} ({path.stat().st_size} bytes)") from error
        raise CheckpointError(f"{path}: this is not a checkpoint: {_kind(start)}") from error
    if manifest is None:
        return Contents(arrays, metadata=notes)
    try:
        return _checked(path, arrays, manifest)
    except CheckpointError:
        raise
    except _NONSENSE as error:
        raise _damaged(path, f"its manifest makes no sense: {error!r}") from error


def _start(path: Path) -> bytes:
    """The first bytes: a length in eight of them and, in a safetensors file, a brace."""
    try:
        if path.exists() and not path.is_dir() and not path.is_file():
            raise CheckpointError(f"{path}: this is a pipe or a device, not a checkpoint file")
        with path.open("rb") as file:
            return file.read(9)
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointNotFoundError(f"{path}: there is no such file{_nearby(path)}") from None
    except OSError as error:
        # Windows says that it may not open a folder.
        if path.is_dir():
            raise CheckpointError(
                f"{path}: this is a folder, not a checkpoint file{_nearby(path / '_')}"
            ) from None
        cure = "; change the file's rights" if isinstance(error, PermissionError) else ""
        raise CheckpointError(f"{path}: it cannot be read: {error.strerror}{cure}") from error


def _nearby(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; the folder {path.parent} does not exist either"
    try:
        names = [p.name for p in path.parent.iterdir() if p.suffix == ".safetensors"]
    except OSError as error:
        return f"; the folder {path.parent} cannot be read: {error.strerror}"
    if not names:
        return f"; the folder {path.parent} holds no .safetensors file"
    close = nearest(path.name, names, count=3, cutoff=0.0)
    return f"; the folder holds for example {', '.join(close)}"


def _kind(start: bytes) -> str:
    if start[:2] in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        return (
            "it is a pickled PyTorch file. ingle.importer.load_weights(module, path) of "
            "ingle-import reads it; or convert it where PyTorch is installed: "
            "safetensors.torch.save_file(torch.load(path, weights_only=True), new_path)"
        )
    return (
        "it does not begin with a safetensors header. Give a file written by ingle.nn.save or "
        "another safetensors writer"
    )


def _manifest(path: Path, notes: Mapping[str, str], newest: int) -> dict[str, Any] | None:
    if "ingle" not in notes:
        return None
    try:
        manifest = dict(json.loads(notes["ingle"]))
        version = manifest["format"]
        if type(version) is not int or version < 1:
            raise ValueError(f"it is in format {version!r}")
    except _NONSENSE as error:
        raise _damaged(path, f"its manifest cannot be read: {error!r}") from error
    if version > newest:
        raise CheckpointError(
            f"{path}: it has format {version}, and this ingle-nn reads formats up to {newest}; "
            "upgrade with `pip install --upgrade ingle-nn`"
        )
    return manifest


def _array(path: Path, file: Any, name: str) -> np.ndarray:
    kind = file.get_slice(name).get_dtype()
    if kind in _FLOAT8:
        return _float8(path, name)
    try:
        array: np.ndarray = file.get_tensor(name)
    except (AttributeError, TypeError) as error:
        raise CheckpointError(
            f"{path}: {name!r} has the dtype {kind}, which NumPy and Ingle do not have; convert it "
            "to float32 or bfloat16 where it was written"
        ) from error
    return array


def _float8(path: Path, name: str) -> np.ndarray:
    """An array by its place in the file, whose header safetensors has checked."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(length))[name]
        start, stop = entry["data_offsets"]
        file.seek(8 + length + start)
        data = file.read(stop - start)
    return np.frombuffer(data, _FLOAT8[entry["dtype"]].dtype).reshape(entry["shape"])


def _checked(path: Path, stored: dict[str, np.ndarray], manifest: dict[str, Any]) -> Contents:
    if seal(manifest) != manifest["seal"]:
        raise _damaged(path, "the checksum of its manifest does not match")
    _require(manifest["crc32"].keys() == stored.keys(), "it names other tensors than there are")
    for name, expected in manifest["crc32"].items():
        if checksum(stored[name]) != expected:
            raise _damaged(path, f"the checksum of {name!r} does not match")
    for name, dtype in manifest["complex"].items():
        _require(dtype in _PARTS, f"{name!r} is complex of dtype {dtype!r}")
        _require(stored[name].dtype == _PARTS[dtype], f"{name!r} is no {dtype}")
        stored[name] = stored[name].view(dtype)[..., 0]
    packed, tied, values = manifest.get("packed", {}), manifest["tied"], manifest["values"]
    for name, (dtype, shape) in packed.items():
        sizes = all(type(n) is int and 0 <= n <= sys.maxsize for n in shape)
        _require(dtype in _PER_BYTE and sizes, f"{name!r} is packed as {dtype} of shape {shape}")
        room = -(-math.prod(shape) // _PER_BYTE[dtype])
        found = stored[name]
        _require(
            found.dtype == np.uint8 and found.shape == (room,),
            f"{name!r} has shape {shape} in {found.shape} bytes",
        )
    for name, owner in tied.items():
        _require(owner in stored, f"{name!r} is tied to {owner!r}, which is not there")
    names = [*stored, *tied, *dict(values)]
    _require(len(names) == len(set(names)), "a name stands for two values")
    return Contents(stored, manifest["format"], packed, tied, values, manifest["metadata"])


_PARTS = {"complex64": np.float32, "complex128": np.float64}
_PER_BYTE = {kind.name: 8 // kind.bits for kind in STORAGE_DTYPES if kind.bits < 8}
"""Elements of packed dtypes in a byte."""


def _require(true: bool, what: str) -> None:
    if not true:
        raise ValueError(what)


def _damaged(path: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: the file is damaged: {what}. Copy or download it again, or use an earlier "
        "checkpoint; ingle.nn.save never leaves a half-written file"
    )
