"""State dicts: values by path, checked as a whole before anything is set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ingle.tensor import Cell, Tensor, asarray, transaction
from ingle.tensor.dtypes import DType
from ingle.tensor.errors import IngleError, OperandError

from .parameter import Buffer, Parameter, initialize, is_initialized

if TYPE_CHECKING:
    from .module import Module


class StateError(IngleError, ValueError):
    """A state dict does not fit: the message lists everything that is wrong with it.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> try:
    ...     nn.Linear(2, 1).load_state_dict({"weight": it.ones((1, 3))})
    ... except nn.StateError as error:
    ...     print(error)
    load_state_dict: the state does not fit Linear, nothing was set:
      missing: bias
      weight: expected shape (1, 2), got (1, 3)
    strict=False passes over missing and unexpected paths
    """


def named_cells(module: Module) -> Iterator[tuple[str, Cell[Tensor]]]:
    """Parameters and persistent buffers by every path, in PyTorch's order."""
    for path, owner in module.named_modules(remove_duplicate=False):
        cells = list(owner._registered())
        for kind in (Parameter, Buffer):
            for name, cell in cells:
                if isinstance(cell, kind) and getattr(cell, "persistent", True):
                    yield f"{path}.{name}" if path else name, cell


def as_tensor(value: Any, what: str) -> Tensor:
    """A tensor of a tensor, cell, NumPy array, PyTorch tensor or number, without gradients."""
    if isinstance(value, Cell):
        value = value.raw
    if isinstance(value, Tensor):
        return value.detach()
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if "bfloat16" in str(value.dtype):
            # NumPy has no bfloat16 of PyTorch's; float32 holds each of its values.
            return asarray(value.float().numpy()).astype("bfloat16")
        value = value.numpy()
    try:
        return asarray(value)
    except IngleError as error:
        raise OperandError(f"{what}: expected a tensor or array, got {value!r}") from error


class Skipped(NamedTuple):
    """What `load_state_dict(strict=False)` passed over.

    Attributes:
        missing_keys: paths of the module that the mapping did not have.
        unexpected_keys: names of the mapping that are no paths of the module.
    """

    missing_keys: list[str]
    unexpected_keys: list[str]


def load(module: Module, mapping: Mapping[str, Any], strict: bool) -> Skipped:
    """See `Module.load_state_dict`."""
    if not isinstance(mapping, Mapping):
        raise OperandError(
            f"load_state_dict: expected a mapping of path to tensor, got "
            f"{type(mapping).__name__}; for a file use ingle.nn.load(path, module)"
        )
    cells = dict(named_cells(module))
    problems: list[str] = []
    values: dict[Cell[Tensor], tuple[str, Tensor]] = {}
    for path, cell in cells.items():
        if path in mapping:
            _take(path, cell, as_tensor(mapping[path], path), values, problems)
    given = {cell for path, cell in cells.items() if path in mapping}
    missing = [path for path, cell in cells.items() if cell not in given]
    unexpected = [path for path in mapping if path not in cells]
    if strict:
        problems = [*_list("missing", missing), *_list("unexpected", unexpected), *problems]
    if problems:
        hint = "\nstrict=False passes over missing and unexpected paths" if strict else ""
        raise StateError(
            f"load_state_dict: the state does not fit {type(module).__name__}, nothing was set:\n  "
            + "\n  ".join(problems)
            + hint
        )
    with transaction():
        for cell, (_, value) in values.items():
            if is_initialized(cell):
                cell.value = value
            else:
                initialize(cell, value)
    return Skipped(missing, unexpected)


def load_cell(name: str, cell: Cell[Any], values: Mapping[str, Any], strict: bool) -> None:
    """Sets a cell that belongs to no module from what a file holds under its name.

    Raises:
        StateError: there is nothing of the name, or it does not fit what the cell holds.
    """
    if name not in values:
        if strict:
            raise StateError(
                f"load: there is no {name!r} in the file, nothing was set; it has "
                f"{', '.join(values) or 'nothing'}"
            )
        return
    value, problems = values[name], list[str]()
    if isinstance(cell.raw, Tensor):
        fitted: dict[Cell[Tensor], tuple[str, Tensor]] = {}
        _take(name, cell, as_tensor(value, name), fitted, problems)
        value = fitted[cell][1] if fitted else None
    elif type(value) is not type(cell.raw):
        problems.append(f"{name}: expected {type(cell.raw).__name__}, got {type(value).__name__}")
    if problems:
        raise StateError(f"load: the file does not fit, nothing was set:\n  {problems[0]}")
    cell.value = value


def _list(what: str, paths: list[str]) -> list[str]:
    return [f"{what}: {', '.join(paths)}"] if paths else []


def _take(
    path: str,
    cell: Cell[Tensor],
    value: Tensor,
    values: dict[Cell[Tensor], tuple[str, Tensor]],
    problems: list[str],
) -> None:
    """Notes the value for the cell, or what is wrong with it."""
    if value.shape != cell.shape and is_initialized(cell):
        problems.append(f"{path}: expected shape {cell.shape}, got {value.shape}")
    elif not _castable(value.dtype, cell.dtype):
        problems.append(f"{path}: expected dtype {cell.dtype}, got {value.dtype}")
    elif cell in values and not _same(values[cell][1], value):
        problems.append(
            f"{path} and {values[cell][0]} are one tied cell, but have different values"
        )
    else:
        fitted = value.astype(cell.dtype).to_device(cell.device)
        values.setdefault(cell, (path, fitted))


def _castable(have: DType, want: DType) -> bool:
    alike = have.kind == want.kind or (have.is_integer and want.is_integer)
    return have is want or (alike and not have.is_storage)


def _same(a: Tensor, b: Tensor) -> bool:
    x, y = a.numpy(), b.astype(a.dtype).numpy()
    return np.array_equal(x, y) or bool(np.all((x == y) | ((x != x) & (y != y))))
