"""States of optimizers as flat mappings of names to values.

- `kind`: the optimizer's class
- `steps`: how many steps were done
- `groups.0.lr`, `groups.0.OPTION`: options of the first group that are no schedules
- `groups.0.parameters`: the names of its parameters
- `state.NAME.steps`: how many updates the parameter had
- `state.NAME.MOMENT`: a moment, as a tensor
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ingle.nn import StateError
from ingle.nn.state import as_tensor
from ingle.tensor import Cell, Tensor, transaction
from ingle.tensor.errors import OperandError

from .counts import assign
from .options import scheduled

if TYPE_CHECKING:
    from .optimizer import Optimizer
    from .slots import Slot


def collect(optimizer: Optimizer) -> dict[str, Any]:
    """See `Optimizer.state_dict`."""
    found: dict[str, Any] = {"kind": type(optimizer).__name__, "steps": optimizer.steps.raw}
    for i, group in enumerate(optimizer.groups):
        found[f"groups.{i}.lr"] = group.rate.raw
        for option, value in group.options.items():
            if scheduled(value):
                continue
            found[f"groups.{i}.{option}"] = list(value) if isinstance(value, tuple) else value
        found[f"groups.{i}.parameters"] = group.names
        for slot in group.slots:
            found[f"state.{slot.name}.steps"] = slot.steps.raw
            for moment, cell in slot.moments.raw.items():
                found[f"state.{slot.name}.{moment}"] = cell.raw
    return found


def restore(optimizer: Optimizer, mapping: Mapping[str, Any], strict: bool) -> None:
    """See `Optimizer.load_state_dict`."""
    kind = type(optimizer).__name__
    if not isinstance(mapping, Mapping) or not {"kind", "steps"} <= set(mapping):
        raise OperandError(
            f"{kind}.load_state_dict: expected what an optimizer's state_dict() returned, got "
            + (f"the names {_some(mapping)}" if isinstance(mapping, Mapping) else repr(mapping))
        )
    problems = [] if mapping["kind"] == kind else [f"it is the state of {mapping['kind']}"]
    problems += _wrong_groups(optimizer, mapping) if strict else []
    moments: dict[Slot, dict[str, Tensor]] = {}
    for group in optimizer.groups:
        for slot in group.slots:
            if f"state.{slot.name}.steps" in mapping:
                moments[slot] = _moments(slot, optimizer, mapping, problems)
    if problems:
        raise StateError(
            f"{kind}.load_state_dict: the state does not fit, nothing was set:\n  "
            + "\n  ".join(problems)
        )
    _set(optimizer, mapping, moments)


def _some(mapping: Mapping[str, Any]) -> str:
    names = list(mapping)
    return ", ".join(map(str, names[:3])) + (", …" if len(names) > 3 else "") or "(none)"


def _wrong_groups(optimizer: Optimizer, mapping: Mapping[str, Any]) -> list[str]:
    problems = []
    have = sum(1 for name in mapping if name.startswith("groups.") and name.endswith(".parameters"))
    if have != len(optimizer.groups):
        problems.append(f"groups: expected {len(optimizer.groups)}, got {have}")
    for i, group in enumerate(optimizer.groups):
        given = mapping.get(f"groups.{i}.parameters", group.names)
        missing = [n for n in group.names if n not in given]
        unexpected = [n for n in given if n not in group.names]
        if missing:
            problems.append(f"missing from group {i}: {', '.join(missing)}")
        if unexpected:
            problems.append(f"unexpected in group {i}: {', '.join(unexpected)}")
    return problems


def _moments(
    slot: Slot, optimizer: Optimizer, mapping: Mapping[str, Any], problems: list[str]
) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for moment in optimizer.moments:
        name = f"state.{slot.name}.{moment}"
        if name not in mapping:
            continue
        value = as_tensor(mapping[name], name)
        expected = optimizer.moment_shape(moment, slot.shape)
        if value.shape != expected:
            problems.append(f"{name}: expected shape {expected}, got {value.shape}")
        found[moment] = value.astype(slot.dtype).to_device(slot.parameter.device)
    return found


def _set(
    optimizer: Optimizer, mapping: Mapping[str, Any], moments: dict[Slot, dict[str, Tensor]]
) -> None:
    with transaction():
        optimizer.steps.value = int(mapping["steps"])
        for i, group in enumerate(optimizer.groups):
            group.rate.value = float(mapping.get(f"groups.{i}.lr", group.rate.raw))
            group.options = {
                option: old
                if scheduled(old)
                else _like(old, mapping.get(f"groups.{i}.{option}", old))
                for option, old in group.options.items()
            }
        assign({s.steps: int(mapping[f"state.{s.name}.steps"]) for s in moments})
        for slot, values in moments.items():
            # Cells keep their identity where there are some: recordings hold them.
            old = slot.moments.raw
            cells = {n: old[n] if n in old else Cell(value) for n, value in values.items()}
            slot.moments.value = cells
            for moment, cell in cells.items():
                cell.rebind(values[moment])


def _like(old: Any, value: Any) -> Any:
    """Lists, which is how files hold tuples, as tuples again."""
    return tuple(value) if isinstance(old, tuple) else value
