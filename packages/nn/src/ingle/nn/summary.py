"""A module as a printed tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingle.tensor import Cell

from .parameter import Buffer, Parameter

if TYPE_CHECKING:
    from .module import Module

Row = tuple[str, str]


def tree(module: Module) -> str:
    """One line a module and a cell, with shapes, dtypes and numbers of elements, then totals.

    >>> from ingle.nn import Linear
    >>> print(Linear(2, 3).summary())
    Linear(in_features=2, out_features=3, bias=True)  9
    ├─ weight (3, 2) float32                          6
    └─ bias (3,) float32                              3
    9 parameters (36 B), 9 trainable, 0 frozen; 0 elements in buffers
    """
    rows: list[Row] = []
    _module(module, "", "", "", rows, {}, "")
    width = max(len(left) for left, _ in rows)
    digits = max(len(right) for _, right in rows)
    lines = [f"{left:<{width}}  {right:>{digits}}".rstrip() for left, right in rows]
    return "\n".join([*lines, _totals(module)])


def _module(
    module: Module,
    label: str,
    lead: str,
    below: str,
    rows: list[Row],
    seen: dict[int, str],
    path: str,
) -> None:
    from .module import Module

    name = type(module).__name__
    head = f"{name}({module.extra_repr()})" if module.extra_repr() else name
    if id(module) in seen:
        rows.append((f"{lead}{label}{head}", f"shared with {seen[id(module)]}"))
        return
    seen[id(module)] = path or "the root"
    rows.append((f"{lead}{label}{head}", f"{module.count_parameters():,}"))
    entries = list(module._registered())
    for i, (name, value) in enumerate(entries):
        last = i == len(entries) - 1
        branch, indent = ("└─ ", "   ") if last else ("├─ ", "│  ")
        inner = f"{path}.{name}" if path else name
        if isinstance(value, Module):
            _module(value, f"{name}: ", below + branch, below + indent, rows, seen, inner)
        else:
            rows.append(_cell(value, name, below + branch, seen, inner))


def _cell(cell: Cell[object], name: str, lead: str, seen: dict[int, str], path: str) -> Row:
    if not isinstance(cell, (Parameter, Buffer)):
        return f"{lead}{name} {type(cell).__name__}", ""
    left = f"{lead}{name} {cell.shape} {cell.dtype}"
    if isinstance(cell, Buffer):
        return f"{left} buffer", ""
    if not cell.requires_grad:
        left += " frozen"
    if id(cell) in seen:
        return left, f"tied to {seen[id(cell)]}"
    seen[id(cell)] = path
    return left, f"{cell.raw.size:,}"


def _totals(module: Module) -> str:
    count, trainable = module.count_parameters(), module.count_parameters(trainable_only=True)
    bytes_ = sum(p.raw.nbytes for p in module.parameters())
    kept = sum(b.raw.size for b in module.buffers())
    return (
        f"{count:,} parameters ({_size(bytes_)}), {trainable:,} trainable, "
        f"{count - trainable:,} frozen; {kept:,} elements in buffers"
    )


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
