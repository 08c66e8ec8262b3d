"""Opening files of weights of any kind, and setting modules from them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ingle.nn import Module, StateError
from ingle.nn.state import named_cells
from ingle.tensor import Device, Tensor, asarray
from ingle.tensor.dtypes import DType, as_dtype, from_numpy_dtype
from ingle.tensor.errors import DTypeError, OperandError

from ..errors import WeightsError
from .arrays_file import Npz
from .gguf_file import MAGIC, Gguf
from .safetensors_file import INDEX, Safetensors, Sharded
from .source import Weights
from .torch_file import TorchFile

Rename = Mapping[str, str] | Callable[[str], str | None] | None
"""Patterns with what takes their place, or a function; None for a name drops it."""


def open_weights(path: str | os.PathLike[str]) -> Weights:
    """The arrays of a file by name, read when they are asked for.

    Args:
        path: a `.safetensors` file or the `.index.json` of a sharded one, a `.pt`, `.pth` or `.bin`
            of PyTorch, a `.gguf`, an `.npz`; or a folder that has one of the first two. What is in
            a file decides, not its name.

    Raises:
        WeightsError: it is missing, damaged, hostile, or of no kind that is known.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from ingle import importer
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.npz"
    >>> np.savez(path, scale=np.ones(3))
    >>> weights = importer.open_weights(path)
    >>> list(weights), weights.shape("scale")
    (['scale'], (3,))
    """
    if not isinstance(path, str | os.PathLike):
        raise WeightsError(
            f"expected the path of a file of weights, got {type(path).__name__}; a dict of tensors "
            "is set by load_state_dict(module, state)"
        )
    place = Path(path)
    if place.is_dir():
        place = _in_folder(place)
    if place.name.endswith(INDEX):
        return Sharded(place)
    try:
        with place.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise WeightsError(f"{place}: it cannot be read: {error.strerror}") from error
    if start[:4] == MAGIC:
        return Gguf(place)
    if start[8:9] == b"{":
        return Safetensors(place)
    if start[:2] == b"PK" and place.suffix == ".npz":
        return Npz(place)
    if (
        start[:2] == b"PK"
        or start[:1] == b"\x80"
        or place.suffix in (".pt", ".pth", ".bin", ".tar")
    ):
        return TorchFile(place)
    raise WeightsError(
        f"{place}: this is no file of weights that is known: a safetensors, PyTorch, GGUF or .npz "
        f"file begins otherwise than {start[:8]!r}"
    )


PUBLISHED = "model.safetensors", "diffusion_pytorch_model.safetensors"
"""Names of weights in published folders, beside which there may be others of other dtypes."""


def _in_folder(folder: Path) -> Path:
    for name in PUBLISHED:
        for file in (folder / (name + INDEX), folder / name):
            if file.is_file():
                return file
    for pattern in ("*" + INDEX, "*.safetensors", "*.gguf", "*.bin", "*.pth", "*.pt"):
        found = sorted(folder.glob(pattern))
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(f.name for f in found[:4])
            raise WeightsError(f"{folder}: it holds {names}; give the path of one of them")
    raise WeightsError(f"{folder}: the folder holds no file of weights")


def load_state_dict(
    path: str | os.PathLike[str], *, rename: Rename = None, dtype: object = None,
    device: Device | str | None = None,
) -> dict[str, Tensor]:  # fmt: skip
    """All tensors of a file by name, for `Module.load_state_dict` or for looking at.

    Args:
        path: as for `open_weights`.
        rename: regular expressions with what takes their place, applied in order; or a function of
            the name, which drops those for which it returns None.
        dtype: what floating tensors are cast to.
        device: where they go.

    >>> import pathlib, tempfile
    >>> from ingle import importer, nn
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> _ = importer.save_safetensors(path, nn.Linear(4, 2))
    >>> state = importer.load_state_dict(path, rename={"^weight$": "kernel"}, dtype="float64")
    >>> {name: (x.shape, x.dtype) for name, x in sorted(state.items())}
    {'bias': ((2,), float64), 'kernel': ((2, 4), float64)}
    """
    weights = open_weights(path)
    to = None if dtype is None else as_dtype(dtype)
    return {
        name: _tensor(weights, old, to, device) for name, old in _renamed(weights, rename).items()
    }


def _tensor(
    weights: Weights, name: str, to: DType | None, device: Device | str | None, turned: bool = False
) -> Tensor:
    array = weights[name]
    if turned:
        array = np.ascontiguousarray(array.T)
    try:
        from_numpy_dtype(array.dtype)
    except DTypeError:
        if array.dtype.kind not in "fV":
            raise WeightsError(
                f"{weights.path}: {name!r} has the dtype {array.dtype}, which tensors do not have"
            ) from None
        array = array.astype(np.float32)
    if to is not None and array.dtype.kind in "fV" and array.dtype != to.dtype:
        array = array.astype(to.dtype)
    made = asarray(array, device=device)
    weights.let_go(name)
    return made


def _renamed(weights: Weights, rename: Rename) -> dict[str, str]:
    """Old names by new ones."""
    found: dict[str, str] = {}
    for old in weights:
        new = _name(old, rename)
        if new is None:
            continue
        if new in found:
            raise WeightsError(
                f"{weights.path}: {found[new]!r} and {old!r} are both renamed {new!r}"
            )
        found[new] = old
    return found


def _name(name: str, rename: Rename) -> str | None:
    if rename is None:
        return name
    if not isinstance(rename, Mapping):
        return rename(name)
    for pattern, replacement in rename.items():
        name = re.sub(pattern, replacement, name)
    return name


@dataclass
class LoadReport:
    """What `load_weights` did.

    Attributes:
        loaded: paths of the module that were set.
        missing: paths of the module that the file had nothing for.
        unexpected: names of the file that are no paths of the module.
        mismatched: paths with the shape of the module and that of the file, which were not set.

    >>> import pathlib, tempfile
    >>> from ingle import importer, nn
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> _ = importer.save_safetensors(path, nn.Linear(4, 2, bias=False))
    >>> report = importer.load_weights(nn.Linear(4, 2), path, strict=False)
    >>> report.loaded, report.missing, report.unexpected
    (['weight'], ['bias'], [])
    """

    loaded: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    mismatched: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether everything fitted."""
        return not (self.missing or self.unexpected or self.mismatched)

    def __str__(self) -> str:
        lines = [f"{len(self.loaded)} loaded"]
        for what, names in (("missing", self.missing), ("unexpected", self.unexpected)):
            lines += [f"{what}: {', '.join(names)}"] if names else []
        for name, (have, got) in self.mismatched.items():
            lines.append(f"{name}: the module has shape {have}, the file {got}")
        return "\n".join(lines)


def load_weights(
    module: Module,
    path: str | os.PathLike[str],
    *,
    rename: Rename = None,
    transpose: str | None = None,
    strict: bool = True,
) -> LoadReport:
    """Sets parameters and buffers of a module from a file; on an error nothing is set.

    Args:
        module: its paths are looked up among the file's names.
        path: as for `open_weights`.
        rename: as for `load_state_dict`.
        transpose: a regular expression of the module's paths whose matrices the file has the other
            way round, (in, out), as TensorFlow and GPT-2 do.
        strict: False leaves out what is missing, unexpected or of another shape, and reports it.

    Returns:
        What was set and what not. Tensors are cast to the module's dtypes.

    Raises:
        OperandError: the first argument is no module.
        StateError: with `strict`, what does not fit: every name and shape.
        WeightsError: the file is missing, damaged or hostile.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from ingle import importer, nn
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "old.npz"
    >>> np.savez(path, **{"fc.weight": np.ones((1, 2)), "fc.steps": np.zeros(1)})
    >>> report = importer.load_weights(nn.Linear(2, 1), path, rename={r"^fc\\.": ""}, strict=False)
    >>> print(report)
    1 loaded
    missing: bias
    unexpected: steps
    """
    if not isinstance(module, Module):
        raise OperandError(
            f"load_weights: expected a module, got {type(module).__name__}; the arguments are "
            "(module, path)"
        )
    weights = open_weights(path)
    names = _renamed(weights, rename)
    # Not `state_dict`: what holds the values that are to be replaced would have them computed.
    state = dict(named_cells(module))
    report = LoadReport(unexpected=[name for name in names if name not in state])
    chosen: dict[str, Tensor] = {}
    tied = _tied(module)
    for target, cell in state.items():
        if target not in names:
            if not any(other in names for other in tied[target]):
                report.missing.append(target)
            continue
        shape = weights.shape(names[target])
        turned = len(shape) == 2 and re.search(transpose or "(?!)", target) is not None
        shape = shape[::-1] if turned else shape
        if tuple(cell.shape) != shape:
            report.mismatched[target] = tuple(cell.shape), shape
            continue
        to = cell.dtype if cell.dtype.is_floating else None
        chosen[target] = _tensor(weights, names[target], to, cell.device, turned)
    if strict and not report.complete:
        raise StateError(
            f"{path}: the file does not fit {type(module).__name__}, nothing was set:\n  "
            + str(report).replace("\n", "\n  ")
            + "\nstrict=False loads what fits; rename= changes the file's names"
        )
    module.load_state_dict(chosen, strict=False)
    report.loaded = list(chosen)
    return report


def _tied(module: Module) -> dict[str, list[str]]:
    """For each path those of the same cell."""
    found: dict[int, list[str]] = {}
    cells = list(named_cells(module))
    for name, cell in cells:
        found.setdefault(id(cell), []).append(name)
    return {name: found[id(cell)] for name, cell in cells}
