"""Checkpoints: a safetensors file whose header carries a manifest.

The manifest is JSON under the key `"ingle"` of safetensors' metadata, so one file is all there is
and every safetensors reader opens it. Format 1 holds:

    format     the version of this layout
    crc32      a checksum of each tensor as it is stored, by name
    complex    the dtypes of complex tensors by name, which not all safetensors versions have: they
               are stored as floats with a last axis of two, the real and the imaginary part
    packed     the dtype and shape of int4 and int2 tensors by name: they are stored as uint8, as
               `ingle.tensor.pack` makes of their elements in a row
    tied       other names of a tensor: {name: the name it is stored under}
    values     what is no tensor: numbers, strings, lists and dicts of these
    metadata   what the user gave
    seal       a checksum of all the above
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import safetensors.numpy

from ingle.tensor import Cell, Device, Tensor, asarray, pack, reshape, transaction, unpack
from ingle.tensor.errors import OperandError
from ingle.tensor.random import Generator

from .files import as_path, atomic_write
from .module import Module
from .reading import CheckpointError, Contents, checksum, read, seal
from .state import StateError, as_tensor, load_cell

FORMAT = 1
"""The newest format, which `save` writes. `load` reads every format up to it."""

Path_ = str | os.PathLike[str]


class Checkpoint(dict[str, Any]):
    """What a file held: tensors and other values by name.

    Attributes:
        metadata: what was given to `save`.
        format: the format version; None for a safetensors file that Ingle did not write.

    >>> import pathlib, tempfile
    >>> from ingle import nn
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "last.safetensors"
    >>> nn.save(path, {"model": nn.Linear(2, 1), "epoch": 3}, metadata={"data": "digits"})
    >>> held = nn.load(path)
    >>> held["epoch"], held.metadata, sorted(held.section("model"))
    (3, {'data': 'digits'}, ['bias', 'weight'])
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
            and whatever has a `state_dict` (modules, optimizers, random generators), whose names
            go below its own.
        metadata: anything that JSON can hold, kept beside the values.

    Raises:
        OperandError: `path` is no path, or `what` neither a module nor a mapping.
        CheckpointError: a value or the metadata cannot be stored; or a finalizer saves while
            Python goes down.
        FileWriteError: the disk is full or read-only, or the folder cannot be written to.

    >>> import pathlib, tempfile
    >>> from ingle import nn
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> nn.save(path, nn.Linear(2, 3), metadata={"epoch": 4})
    >>> checkpoint = nn.load(path, nn.Linear(2, 3))
    >>> checkpoint.metadata, sorted(checkpoint)
    ({'epoch': 4}, ['bias', 'weight'])
    """
    if sys.is_finalizing():
        raise CheckpointError(
            f"save: {path}: Python goes down and has no imports any more, which NumPy needs to "
            "write; save from a function for atexit.register, not from a finalizer"
        )
    packed = _pack(what)
    path = as_path("save", path, "the path, which comes first,")
    arrays = {name: _stored(tensor) for name, tensor in packed.tensors.items()}
    manifest = {
        "format": FORMAT,
        "crc32": {name: checksum(array) for name, array in arrays.items()},
        "complex": {n: t.dtype.name for n, t in packed.tensors.items() if t.dtype.is_complex},
        "packed": {
            n: [t.dtype.name, list(t.shape)] for n, t in packed.tensors.items() if t.dtype.bits < 8
        },
        "tied": packed.tied,
        "values": packed.values,
        "metadata": {} if metadata is None else metadata,
    }
    try:
        sealed = json.loads(json.dumps(manifest))
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"save: values and metadata must be numbers, strings, lists or dicts of these: {error}"
        ) from error
    sealed["seal"] = seal(sealed)
    # One key alone: the order of several is left to chance by some safetensors versions.
    notes = {"ingle": json.dumps(sealed, sort_keys=True)}
    data = safetensors.numpy.save(arrays, notes)
    with atomic_write(path) as file:
        file.write(data)


def _stored(tensor: Tensor) -> np.ndarray:
    """The array that goes into the file: in C order, which safetensors takes for granted."""
    if tensor.dtype.bits < 8:
        tensor = pack(reshape(tensor, (-1,)))
    array = np.asarray(tensor.numpy(), order="C")
    if tensor.dtype.is_complex:
        return array[..., None].view(array.real.dtype)
    return array


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
        into: what to set from it: a module, or the mapping of names to modules, optimizers,
            random generators and cells that was given to `save`. Either all of them are set or, on
            an error, none; what else has a `load_state_dict` takes part in this if it keeps its
            state in cells.
        strict: False passes over missing and unexpected names.
        device: where the tensors go; the default device if not given.

    Raises:
        OperandError: `path` is no path, or `into` nothing that can be set.
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
    contents = read(
        as_path("load", path, "the path, which comes first, nn.load(path, module),"), FORMAT
    )
    checkpoint = _unpack(contents, device)
    if into is None:
        return checkpoint
    with transaction():
        if isinstance(into, Mapping):
            for name, target in into.items():
                if isinstance(target, Cell) and not isinstance(target, Generator):
                    load_cell(name, target, checkpoint, strict)
                else:
                    _restore(target, checkpoint.section(name), strict, f"{path}: {name!r}")
        else:
            _restore(into, checkpoint, strict, str(path))
    return checkpoint


def _restore(target: Any, values: Mapping[str, Any], strict: bool, what: str) -> None:
    if not hasattr(target, "load_state_dict"):
        raise OperandError(
            f"load: {type(target).__name__} has no load_state_dict; give a module, an optimizer, "
            "or a mapping of names to them, to random generators and to cells"
        )
    try:
        target.load_state_dict(values, strict=strict)
    except StateError as error:
        error.add_note(f"in {what}; nothing of the file was set")
        raise


def _pack(what: Any) -> _Packed:
    if isinstance(what, Module):
        what = what.state_dict()
    if not isinstance(what, Mapping):
        raise OperandError(
            f"save: expected a module or a mapping of names to values, got {type(what).__name__}; "
            "the path comes first: nn.save(path, module)"
        )
    packed = _Packed()
    owners: dict[int, str] = {}
    names: set[str] = set()
    for name, value in _flat(what):
        _check_name(name, names)
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


def _check_name(name: str, names: set[str]) -> None:
    """Refuses a name that the file could not give back."""
    if name in names:
        raise CheckpointError(f"save: two values have the name {name!r}; rename one of them")
    names.add(name)
    if name == "__metadata__" or not _is_text(name):
        raise CheckpointError(f"save: a safetensors file can hold nothing of the name {name!r}")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # half of a character
        return False
    return True


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
    for name, (dtype, shape) in contents.packed.items():
        found[name] = reshape(unpack(found[name], dtype, size=math.prod(shape)), shape)
    for name, owner in contents.tied.items():
        found[name] = found[owner]
    found.update(contents.values)
    return Checkpoint(found, contents.metadata, contents.format)
