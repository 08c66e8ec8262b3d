"""Checkpoints: a safetensors file whose header carries a manifest.

The manifest is JSON under the key `"ingle"` of safetensors' metadata, so one file is all there is
and every safetensors reader opens it. Format 1 holds:

    format     the version of this layout
    crc32      a checksum of the bytes of each tensor, by name
    tied       other names of a tensor: {name: the name it is stored under}
    values     what is no tensor: numbers, strings, lists and dicts of these
    metadata   what the user gave
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingle.tensor import Cell, Device, Tensor, asarray
from ingle.tensor.errors import OperandError

from .files import atomic_write
from .module import Module
from .reading import SAFETENSORS_NAMES, CheckpointError, Contents, read
from .state import as_tensor

FORMAT = 1
"""The newest format, which `save` writes. `load` reads every format up to it."""

Path_ = str | os.PathLike[str]


class Checkpoint(dict[str, Any]):
    """What a file held: tensors and other values by name.

    Attributes:
        metadata: what was given to `save`.
        format: the format version; None for a safetensors file that Ingle did not write.
    """

    def __init__(self, values: Mapping[str, Any], metadata: Any, version: int | None) -> None:
        super().__init__(values)
        self.metadata = metadata
        self.format = version

    def section(self, name: str) -> dict[str, Any]:
        """The entries below a name, without it: `section("model")` has what was saved as `"model"`.

        >>> from ingle.nn.saving import Checkpoint
        >>> Checkpoint({"model.bias": 1, "step": 2}, {}, 1).section("model")
        {'bias': 1}
        """
        lead = name + "."
        return {key[len(lead) :]: value for key, value in self.items() if key.startswith(lead)}


@dataclass
class _Packed:
    """Entries on their way into a file."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    tied: dict[str, str] = field(default_factory=dict)


def save(path: Path_, what: Module | Mapping[str, Any], *, metadata: Any = None) -> None:
    """Writes a module, or named values, to one file; at any moment the file is whole.

    Args:
        path: of the file; the usual suffix is `.safetensors`.
        what: a module; or a mapping of names to tensors, cells, arrays, numbers, strings, lists,
            and whatever has a `state_dict` (modules, optimizers), whose names go below its own.
        metadata: anything that JSON can hold, kept beside the values.

    Raises:
        CheckpointError: a value or the metadata cannot be stored.

    >>> import pathlib, tempfile
    >>> from ingle import nn
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> nn.save(path, nn.Linear(2, 3), metadata={"epoch": 4})
    >>> checkpoint = nn.load(path, nn.Linear(2, 3))
    >>> checkpoint.metadata, sorted(checkpoint)
    ({'epoch': 4}, ['bias', 'weight'])
    """
    packed = _pack(what)
    chunks = {name: tensor.numpy().tobytes() for name, tensor in packed.tensors.items()}
    manifest = {
        "format": FORMAT,
        "crc32": {name: zlib.crc32(data) for name, data in chunks.items()},
        "tied": packed.tied,
        "values": packed.values,
        "metadata": {} if metadata is None else metadata,
    }
    try:
        text = json.dumps(manifest, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"save: values and metadata must be numbers, strings, lists or dicts of these: {error}"
        ) from error
    # Wide elements first, as safetensors' own writer does, so that all are aligned.
    order = sorted(packed.tensors, key=lambda n: (-packed.tensors[n].dtype.itemsize, n))
    with atomic_write(path) as file:
        file.write(_header(packed.tensors, order, {"ingle": text}))
        for name in order:
            file.write(chunks[name])


def _header(tensors: Mapping[str, Tensor], order: list[str], metadata: dict[str, str]) -> bytes:
    """The safetensors header: its length in 8 bytes, then JSON padded to a multiple of 8."""
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in order:
        tensor = tensors[name]
        if tensor.dtype.name not in SAFETENSORS_NAMES:
            raise CheckpointError(
                f"save: {name!r} is {tensor.dtype}, which safetensors files cannot hold; save its "
                "real and imaginary parts under two names"
            )
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": SAFETENSORS_NAMES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def load(
    path: Path_,
    into: Any = None,
    *,
    strict: bool = True,
    device: Device | str | None = None,
) -> Checkpoint:
    """Reads a file that `save` wrote, or any safetensors file.

    Args:
        path: of the file.
        into: what to set from it: a module, or the mapping of names to modules and optimizers
            that was given to `save`.
        strict: False passes over missing and unexpected names.
        device: where the tensors go; the default device if not given.

    Raises:
        CheckpointError: the file is missing, cut off, damaged, of a newer format, or of another
            kind; the message says what to do.
        StateError: the values do not fit `into`.

    >>> import pathlib, tempfile
    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.safetensors"
    >>> nn.save(path, {"model": nn.Linear(2, 1), "best": it.asarray(0.5), "step": 3})
    >>> checkpoint = nn.load(path)
    >>> checkpoint["step"], checkpoint["best"].item(), sorted(checkpoint.section("model"))
    (3, 0.5, ['bias', 'weight'])
    """
    contents = read(Path(path), FORMAT)
    checkpoint = _unpack(contents, device)
    if into is None:
        return checkpoint
    if isinstance(into, Mapping):
        for name, target in into.items():
            _restore(target, checkpoint.section(name), strict)
    else:
        _restore(into, checkpoint, strict)
    return checkpoint


def _restore(target: Any, values: Mapping[str, Any], strict: bool) -> None:
    if not hasattr(target, "load_state_dict"):
        raise OperandError(
            f"load: {type(target).__name__} has no load_state_dict; give a module, an optimizer, "
            "or a mapping of names to them"
        )
    target.load_state_dict(values, strict=strict)


def _pack(what: Any) -> _Packed:
    if isinstance(what, Module):
        what = what.state_dict()
    if not isinstance(what, Mapping):
        raise OperandError(
            f"save: expected a module or a mapping of names to values, got {type(what).__name__}"
        )
    packed = _Packed()
    owners: dict[int, str] = {}
    for name, value in _flat(what):
        if isinstance(value, Cell):
            value = value.raw
        if value is None or isinstance(value, (bool, int, float, str, list, tuple, dict)):
            packed.values[name] = value
            continue
        tensor = as_tensor(value, f"save: {name!r}")
        owner = owners.setdefault(id(tensor._handle), name)
        if owner == name:
            packed.tensors[name] = tensor
        else:
            packed.tied[name] = owner
    return packed


def _flat(mapping: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in mapping.items():
        if not isinstance(name, str):
            raise OperandError(f"save: a name must be a string, got {name!r}")
        if hasattr(value, "state_dict"):
            for inner, v in value.state_dict().items():
                yield f"{name}.{inner}", v
        else:
            yield name, value


def _unpack(contents: Contents, device: Device | str | None) -> Checkpoint:
    found: dict[str, Any] = {
        name: asarray(array, device=device) for name, array in contents.arrays.items()
    }
    for name, owner in contents.tied.items():
        found[name] = found[owner]
    found.update(contents.values)
    return Checkpoint(found, contents.metadata, contents.format)
