"""Modules made by a published configuration, with the published weights."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import ingle.tensor as it
from ingle.nn import Module
from ingle.tensor import Device
from ingle.tensor.dtypes import DType, as_dtype

from ..errors import WeightsError
from ..weights.loading import Rename, load_weights
from .fetching import fetch_pretrained

M = TypeVar("M", bound=Module)


def read_config(folder: str | os.PathLike[str], name: str = "config.json") -> dict[str, Any]:
    """The settings that a published model has beside its weights.

    Raises:
        WeightsError: the file is missing or no JSON object.

    >>> import pathlib, tempfile
    >>> from ingle import importer
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "config.json").write_text('{"hidden_size": 64}')
    >>> importer.read_config(folder)
    {'hidden_size': 64}
    """
    path = Path(folder) / name
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise WeightsError(f"{path}: it cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"{path}: it is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise WeightsError(f"{path}: it is no table of settings, but {type(found).__name__}")
    return found


def from_pretrained(
    source: str | os.PathLike[str],
    build: Callable[[Mapping[str, Any]], M],
    *,
    rename: Rename = None,
    transpose: str | None = None,
    dtype: object = None,
    device: Device | str | None = None,
    checksums: Mapping[str, str] | None = None,
    progress: bool = True,
) -> M:
    """A module of `config.json` with the weights beside it, in evaluation.

    Args:
        source: a folder, or the URL of one, as for `fetch_pretrained`.
        build: the module of a configuration, with any first values.
        rename, transpose: as for `load_weights`: what the file's names are here.
        dtype: of the module, whatever the file has; what `build` makes if not given.
        device: where it goes.
        checksums, progress: as for `fetch_pretrained`.

    Raises:
        WeightsError: files are missing or damaged.
        StateError: weights do not fit the module.

    >>> import json, pathlib, tempfile
    >>> from ingle import importer, nn
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "config.json").write_text('{"inputs": 3}')
    >>> _ = importer.save_safetensors(folder / "model.safetensors", nn.Linear(3, 1))
    >>> importer.from_pretrained(folder, lambda config: nn.Linear(config["inputs"], 1))
    Linear(in_features=3, out_features=1, bias=True)
    """
    folder = fetch_pretrained(source, checksums=checksums, progress=progress)
    if folder.is_file():
        raise WeightsError(
            f"{folder}: this is a file of weights alone; from_pretrained needs its folder with "
            "config.json, load_weights sets a module that is there"
        )
    config = read_config(folder)
    # First values that are cast would be computed, and are written over before they need be.
    with it.device(device or it.default_device()), it.default_dtypes(floating=dtype):
        module = build(config)
    if dtype is not None and _others(module, as_dtype(dtype)):
        module = module.to(dtype=dtype)
    load_weights(module, folder, rename=rename, transpose=transpose)
    return module.eval()


def _others(module: Module, dtype: DType) -> bool:
    """Whether some of its floating values have a dtype of their own."""
    cells = [*module.parameters(), *module.buffers()]
    return any(cell.dtype.is_floating and cell.dtype is not dtype for cell in cells)
