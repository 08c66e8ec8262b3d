"""Writing weights for other frameworks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from ingle.nn import Module, atomic_write
from ingle.tensor import Tensor
from ingle.tensor.errors import OperandError

from ..errors import WeightsError
from .gguf_blocks import KINDS, PACKERS
from .gguf_file import PLAIN, write_gguf
from .safetensors_file import INDEX

State = Module | Mapping[str, Any]


def _arrays(name: str, what: State) -> dict[str, np.ndarray]:
    if not isinstance(what, Module | Mapping):
        raise OperandError(
            f"{name}: expected a module or a mapping of names to tensors, got "
            f"{type(what).__name__}; the path comes first: {name}(path, module)"
        )
    state = what.state_dict() if isinstance(what, Module) else what
    return {key: _array(name, key, value) for key, value in state.items()}


def _array(name: str, key: Any, value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        value = value.numpy()
    elif hasattr(value, "__array__"):  # parameters, and tensors of other libraries
        value = np.asarray(value)
    if not isinstance(key, str) or not isinstance(value, np.ndarray):
        raise WeightsError(
            f"{name}: weights are tensors or arrays under strings, got {type(value).__name__} "
            f"under {key!r}"
        )
    return np.ascontiguousarray(value).reshape(value.shape)


def save_safetensors(
    path: str | os.PathLike[str], what: State, *, metadata: Mapping[str, str] | None = None,
    shard_size: int | None = None,
) -> list[Path]:  # fmt: skip
    """Writes a module or named arrays as any safetensors reader opens them.

    Args:
        path: of the file.
        what: a module, or tensors or arrays by name. A tied parameter is written under each name.
        metadata: strings by name, as the format wants them; `{"format": "pt"}` if not given.
        shard_size: bytes above which another file begins; then `path` gets numbers, and an index
            beside it says what lies where, as Hugging Face's libraries read it.

    Returns:
        The files that were written.

    Raises:
        OperandError: `what` is neither a module nor a mapping.
        WeightsError: a value is no tensor, or of a dtype that the format has not.
        FileWriteError: the disk is full or the folder cannot be written to.

    >>> import pathlib, tempfile
    >>> from ingle import importer, nn
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> [file.name for file in importer.save_safetensors(path, nn.Linear(4, 2))]
    ['model.safetensors']
    >>> print(*importer.open_weights(path).describe(), sep="; ")
    bias: F32[2]; weight: F32[2, 4]
    """
    arrays, notes = _arrays("save_safetensors", what), dict(metadata or {"format": "pt"})
    target = Path(path)
    shards: list[dict[str, np.ndarray]] = [{}]
    size = 0
    for name, array in arrays.items():
        if shard_size is not None and shards[-1] and size + array.nbytes > shard_size:
            shards.append({})
            size = 0
        shards[-1][name] = array
        size += array.nbytes
    if len(shards) == 1:
        _write(target, shards[0], notes)
        return [target]
    files: list[Path] = []
    places: dict[str, str] = {}
    for i, shard in enumerate(shards, 1):
        file = target.with_name(f"{target.stem}-{i:05}-of-{len(shards):05}{target.suffix}")
        _write(file, shard, notes)
        files.append(file)
        places |= dict.fromkeys(shard, file.name)
    index = target.with_name(target.name + INDEX)
    total = sum(a.nbytes for a in arrays.values())
    with atomic_write(index) as out:
        out.write(json.dumps({"metadata": {"total_size": total}, "weight_map": places}).encode())
    return [*files, index]


def _write(path: Path, arrays: dict[str, np.ndarray], notes: dict[str, str]) -> None:
    try:
        data = safetensors.numpy.save(arrays, notes)
    except (KeyError, safetensors.SafetensorError, ValueError) as error:
        raise WeightsError(f"{path}: a dtype that safetensors has not: {error}") from error
    with atomic_write(path) as file:
        file.write(data)


def save_gguf(
    path: str | os.PathLike[str], what: State, *, kind: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Writes a module or named arrays as GGUF.

    Args:
        path: of the file.
        what: a module, or tensors or arrays by name.
        kind: what matrices of floats become, `F16`, `BF16`, `Q8_0`, `Q4_0` or `Q4_1`; their own
            dtype if not given. What has one axis or rows that are no whole blocks keeps its own.
        metadata: settings, such as `{"general.architecture": "llama"}`: bools, numbers, strings,
            and lists of these.

    Raises:
        OperandError: `what` is neither a module nor a mapping.
        WeightsError: a value is no tensor; a dtype, kind or setting that the format has not.
        FileWriteError: the disk is full or the folder cannot be written to.

    >>> import pathlib, tempfile
    >>> from ingle import importer, nn
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.gguf"
    >>> importer.save_gguf(path, nn.Linear(64, 2), kind="Q8_0")
    >>> print(*importer.open_weights(path).describe(), sep="; ")
    weight: Q8_0[2, 64]; bias: F32[2]
    """
    if kind is not None and kind not in PLAIN and kind not in PACKERS:
        raise WeightsError(f"kind must be one of {', '.join([*PLAIN, *PACKERS])}, got {kind!r}")
    arrays = _arrays("save_gguf", what)
    own = {dtype: name for name, (_, dtype) in PLAIN.items()}
    kinds = {}
    for name, array in arrays.items():
        if array.dtype.newbyteorder("<") not in own and array.dtype not in own:
            raise WeightsError(f"{name!r} has the dtype {array.dtype}, which GGUF has not")
        mine = own.get(array.dtype) or own[array.dtype.newbyteorder("<")]
        whole = kind in PLAIN or (
            kind in PACKERS and array.ndim and array.shape[-1] % KINDS[kind][1] == 0
        )
        floats = mine in ("F32", "F16", "BF16", "F64")
        kinds[name] = kind if kind and whole and floats and array.ndim > 1 else mine
    write_gguf(path, arrays, dict(metadata or {}), kinds)
